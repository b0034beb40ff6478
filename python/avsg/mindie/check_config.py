# SPDX-License-Identifier: Apache-2.0
"""python -m avsg.mindie.check_config: does MindIE's config.json suit AVSG? Answers without an NPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from ..commands.common import InputError, refusals
from ..errors import sentence
from .settings import EngineFacts, Settings, parse_settings
from .sizing import GIB, MODELS, KvSizing, ModelShape, size_rank


@dataclass(frozen=True)
class Checked:
    """What check_config found: settings None where the section is absent or not enabled."""

    engine: EngineFacts
    settings: Settings | None
    sizing: KvSizing | None


def check_config(config: Mapping, shape: ModelShape, *, role: str = "standard") -> Checked:
    """Settings and memory of one rank, from MindIE's config.json and the model it serves.

    Read: BackendConfig.ModelDeployConfig (maxSeqLen, ModelConfig[0]), BackendConfig.ScheduleConfig and
    kvPoolConfig, ServerConfig.layerwiseDisaggregated; defaults are those of MindIE's documentation. role:
    standard, prefill or decoder (a dmi cluster gives it to the node at run time). Errors: ValueError and
    TypeError as of parse_settings and size_rank, KeyError for a part of the file that is missing.
    """
    backend = _object(config, "BackendConfig")
    deploy, schedule = _object(backend, "ModelDeployConfig"), _object(backend, "ScheduleConfig", {})
    model = _model(deploy)
    plugin = _plugin(model)
    plugins = {name.strip() for name in str(plugin.get("plugin_type") or "").split(",")}
    engine = EngineFacts(
        top_k=shape.top_k,
        max_requests=schedule.get("maxBatchSize", 200),
        max_seq_len=deploy.get("maxSeqLen", 2560),
        num_queries=1 + plugin.get("num_speculative_tokens", 0),
        block_size=schedule.get("cacheBlockSize", 128),
        backend=model.get("backendType", "atb"),
        role=role,
        context_parallel=model.get("cp", 1),
        sequence_parallel=model.get("sp", 1),
        prefix_cache="prefix_cache" in plugins,
        splitfuse="splitfuse" in plugins or schedule.get("templateType", "Standard") == "Mix",
        kv_pool=bool(_object(backend, "kvPoolConfig", {}).get("backend")),
        layerwise=bool(_object(config, "ServerConfig", {}).get("layerwiseDisaggregated")),
        lookahead=bool(plugins & {"la", "memory_decoding"}),
    )
    settings = parse_settings(_object(model, "models", {}).get("avsg"), engine=engine)
    if settings is None:
        return Checked(engine, None, None)
    sizing = size_rank(
        shape,
        engine,
        settings,
        max_prefill_tokens=schedule.get("maxPrefillTokens", 8192),
        max_prefill_requests=schedule.get("maxPrefillBatchSize", 50) or engine.max_requests,
    )
    if settings.host_gib is not None:
        sizing.num_blocks(hbm_bytes=sizing.hbm_bytes, host_bytes=int(settings.host_gib * GIB))
    return Checked(engine, settings, sizing)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", help=f"{', '.join(MODELS)}, or a config.json. Default: that of modelWeightPath.")
@click.option(
    "--role",
    type=click.Choice(["standard", "prefill", "decoder"]),
    default="standard",
    show_default=True,
    help="Of the node, where prefill and decode are separate.",
)
def main(config: Path, model: str | None, role: str) -> None:
    """Check CONFIG, MindIE-LLM's conf/config.json, and say what one rank takes.

    Of a cluster's user_config.json the part of the role is checked. Exit status: 0, or 2 with a sentence for
    everything that is wrong.
    """
    with refusals():
        try:
            node = _node(json.loads(config.read_text()), role)
            checked = check_config(node, _shape(model or _weights(node)), role=role)
        except json.JSONDecodeError as error:
            raise InputError(f"{config} or the model's config.json is not JSON: {error}.") from None
        except KeyError as error:
            raise InputError(f"{config} or the model's config.json has no {error}.") from None
    if checked.sizing is None:
        click.echo('AVSG is off: models.avsg is absent, or its "enable" is not true.')
        return
    engine, sizing = checked.engine, checked.sizing
    click.echo(
        f"models.avsg is fine. A rank that serves {engine.max_requests} requests of {engine.max_seq_len} "
        "tokens takes, beside the weights,\n"
        f"  {_gib(sizing.hbm_bytes)} of HBM, {_gib(sizing.fixed_bytes)} of it buffers (all KV in HBM: "
        f"{_gib(sizing.stock_hbm_bytes)})\n"
        f"  {_gib(sizing.host_bytes)} of host memory, which each rank of a node takes for itself."
    )
    if sizing.hbm_bytes >= sizing.stock_hbm_bytes:
        click.echo("These sequences are short: AVSG saves no HBM. Lower slots, or serve them without it.")


def _node(document: object, role: str) -> Mapping:
    """What a node of this role is started with: the file itself, or its part of a cluster's."""
    if not isinstance(document, Mapping):
        raise InputError("the file holds no JSON object: pass MindIE's conf/config.json.")
    parts = {"prefill": "mindie_server_prefill_config", "decoder": "mindie_server_decode_config"}
    if not set(parts.values()) & set(document):
        return document
    if role not in parts:
        raise InputError(
            "this is a cluster's user_config.json: say which node with --role decoder or prefill."
        )
    return _object(document, parts[role])


def _object(parent: Mapping, key: str, default: Mapping | None = None) -> Mapping:
    value = parent[key] if default is None else parent.get(key, default)
    if not isinstance(value, Mapping):
        raise ValueError(sentence(key, repr(value), "an object", "write it in braces"))
    return value


def _model(deploy: Mapping) -> Mapping:
    models = deploy["ModelConfig"]
    if not (isinstance(models, list) and models and isinstance(models[0], Mapping)):
        raise ValueError(
            sentence("ModelConfig", repr(models), "a list of objects", "describe the model in it")
        )
    return models[0]


def _plugin(model: Mapping) -> Mapping:
    text = model.get("plugin_params") or "{}"
    try:
        plugin = json.loads(text)
    except (TypeError, ValueError):
        plugin = None
    if not isinstance(plugin, Mapping):
        allowed = "a text that is a JSON object"
        raise ValueError(sentence("plugin_params", repr(text), allowed, "put the object in quotes"))
    return plugin


def _weights(node: Mapping) -> str:
    deploy = _object(_object(node, "BackendConfig"), "ModelDeployConfig")
    return str(Path(_model(deploy)["modelWeightPath"]) / "config.json")


def _shape(model: str) -> ModelShape:
    if model in MODELS:
        return MODELS[model]
    try:
        return ModelShape.of(json.loads(Path(model).read_text()))
    except OSError as error:
        raise InputError(
            f"{model} cannot be read ({error.strerror}): name the model with --model, {', '.join(MODELS)} or "
            "a config.json."
        ) from None


def _gib(count: int) -> str:
    return f"{count / GIB:.2f} GiB"


if __name__ == "__main__":
    main()
