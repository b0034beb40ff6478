# SPDX-License-Identifier: Apache-2.0
"""avsg size --model: HBM and host memory of a rank that serves a model, by the adapter's own formula."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click
from click.core import ParameterSource

from ..backends import make_backend
from ..config import PoolConfig
from ..mindie.sizing import GIB, MODELS, KvSizing, ModelShape, size_kv
from . import common

_OPTIONS = (
    click.option("--model", help=f"{', '.join(MODELS)}, or a config.json: the memory of a rank serving it."),
    click.option("--context", default="128K", show_default=True, help="With --model: tokens of a request."),
    click.option(
        "--requests",
        default=1,
        show_default=True,
        help="With --model: requests on a rank; as many --rows unless given.",
    ),
    click.option("--prefill-tokens", default=8192, show_default=True, help="With --model: maxPrefillTokens."),
    click.option("--hbm", type=float, help="With --model: GiB of HBM for KV and buffers; says what fits."),
    click.option("--host", type=float, help="With --hbm: GiB of host memory of the rank."),
)
_OF_A_MODEL = ("context", "requests", "prefill_tokens", "hbm", "host")
_OF_A_POOL = ("top_k", "row_bytes")  # the model has its own
_DERIVED = ("fixed_bytes", "hbm_bytes", "host_bytes", "stock_hbm_bytes")


def options(command: Callable) -> Callable:
    """The options of a command that sizes a model."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def is_given(context: click.Context, name: str) -> bool:
    """Is the parameter of that name on the command line?"""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_options_that_do_not_go_together(context: click.Context) -> None:
    """InputError for an option of the pool with --model, or of a model without it."""
    with_model = context.params["model"] is not None
    for name in _OF_A_POOL if with_model else _OF_A_MODEL:
        if is_given(context, name):
            option = f"--{name.replace('_', '-')}"
            raise common.InputError(
                f"{option} and --model do not go together: the model has its own."
                if with_model
                else f"{option} needs --model: name the model whose memory is wanted."
            )
    if is_given(context, "host") and not is_given(context, "hbm"):
        raise common.InputError("--host needs --hbm: give the GiB of both to learn what fits.")


def parse_one_size(slots: str, top_k: int) -> int:
    """The one size that --slots names."""
    sizes = common.parse_slots(slots, top_k)
    if len(sizes) != 1:
        raise common.InputError(f"--slots names {len(sizes)} sizes; give one.")
    return sizes[0]


def parse_tokens(text: str) -> int:
    """Tokens of 131072 or 128K (1K = 1,024)."""
    match = re.fullmatch(r"([1-9][0-9]*)([Kk]?)", text.strip())
    if match is None:
        raise common.InputError(
            f"--context is {text!r}; give a number of tokens such as 131072 or 128K (1K = 1024)."
        )
    return int(match[1]) * (1024 if match[2] else 1)


def model_shape(model: str) -> ModelShape:
    """The shape of a known model's name, or of a config.json's path."""
    if model in MODELS:
        return MODELS[model]
    path = Path(model)
    if not path.is_file():
        raise common.InputError(
            f"--model is {model!r}; give {', '.join(MODELS)} or the path of a model's config.json."
        )
    try:
        return ModelShape.of(json.loads(path.read_text()))
    except (KeyError, TypeError, ValueError) as error:
        raise common.InputError(f"{path} describes no model with sparse attention ({error!r}).") from None


def size_of_model(
    slots: str,
    queries: int,
    rows: int | None,
    library: str,
    as_json: bool,
    *,
    model: str,
    context: str,
    requests: int,
    prefill_tokens: int,
    hbm: float | None,
    host: float | None,
) -> None:
    """Prints the memory of `requests` sequences of `context` tokens, and with hbm how many fit."""
    shape, tokens = model_shape(model), parse_tokens(context)
    asked = {
        "requests": requests,
        "context": tokens,
        "num_slots": parse_one_size(slots, shape.top_k),
        "num_queries": queries,
        "rows": rows,
        "max_prefill_tokens": prefill_tokens,
    }
    sizing = size_kv(shape, **asked)
    make_backend(PoolConfig(rows or requests, asked["num_slots"], shape.top_k, queries), library, 0)
    fit = None
    if hbm is not None:
        host_bytes = None if host is None else int(host * GIB)
        fit = sizing.num_blocks(hbm_bytes=int(hbm * GIB), host_bytes=host_bytes)
    if as_json:
        values = {"model": asdict(shape), **asked, **asdict(sizing)}
        values |= {name: getattr(sizing, name) for name in _DERIVED}
        click.echo(json.dumps({**values, "num_blocks": fit}, indent=1))
        return
    console = common.console()
    console.print(
        f"{shape.name}: {shape.num_layers} layers, {shape.num_groups} with indexer. Requests: {requests:,} "
        f"of {tokens:,} tokens, S {asked['num_slots']:,}, queries a step: {queries}"
    )
    console.print(_table(sizing))
    console.print(
        f"{sizing.blocks_needed:,} blocks. Every rank of a tensor-parallel group takes as much: a node needs "
        "the host memory of all its ranks."
    )
    if fit is not None:
        console.print(
            f"What was given holds {fit:,} blocks, {fit // sizing.blocks_per_request:,} such requests."
        )


def _table(sizing: KvSizing) -> object:
    rows = (
        ("HBM, all KV in HBM (without AVSG)", sizing.stock_hbm_bytes),
        ("HBM, with AVSG", sizing.hbm_bytes),
        ("  device buffers", sizing.device_kv_bytes),
        ("  state, plans, workspace", sizing.state_bytes + sizing.plan_bytes + sizing.workspace_bytes),
        ("  staging", sizing.staging_bytes),
        ("  indexer keys and draft layer", sizing.blocks_needed * sizing.hbm_block_bytes),
        ("host memory", sizing.host_bytes),
        ("one block: HBM, all KV in HBM", sizing.stock_block_bytes),
        ("one block: HBM, with AVSG", sizing.hbm_block_bytes),
        ("one block: host memory", sizing.host_block_bytes),
    )
    table = common.table("one rank", "bytes", "")
    for name, count in rows:
        table.add_row(name, f"{count:,}", common.byte_text(count))
    return table
