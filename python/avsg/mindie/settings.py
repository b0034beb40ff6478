# SPDX-License-Identifier: Apache-2.0
"""The `models.avsg` section of MindIE's config.json: parsed and checked against the engine, in sentences."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields

from .. import _abi, layout
from ..config import PoolConfig
from ..errors import sentence

DEVICE_BLOCK_SIZE = 128  # npu_sparse_flash_attention reads device_kv as PA_BSND blocks of so many slots
MODES = ("avsg", "full")
SHADOW_ACTIONS = ("full", "log")


@dataclass(frozen=True)
class EngineFacts:
    """What the engine is and does, on one rank (immutable).

    top_k: tokens that the indexer selects for one query. max_requests: most sequences of a decode step.
    num_queries: 1 + speculative tokens. block_size: tokens in a KV block. backend: MindIE's backendType.
    role: standard, prefill, decoder or flex. The others: is the feature of that name on.
    """

    top_k: int
    max_requests: int
    max_seq_len: int
    num_queries: int = 1
    block_size: int = 128
    backend: str = "torch"
    role: str = "standard"
    context_parallel: int = 1
    sequence_parallel: int = 1
    prefix_cache: bool = False
    splitfuse: bool = False
    kv_pool: bool = False
    layerwise: bool = False
    lookahead: bool = False
    quantized_kv: bool = False
    nz_format: bool = False


@dataclass(frozen=True)
class Settings:
    """The section's values (immutable). Made by parse_settings, which checks them.

    rows: rows of every layer group's pool, one a request. slots: S of every row, a multiple of 128. max_life:
    as in PoolConfig. mode: "avsg", or "full": every selected row is copied at every step; mode_file: a file
    whose text, one of the two, switches at run time. host_gib: GiB of host memory for one rank's KV; None:
    what max_requests sequences of max_seq_len tokens take. huge_pages: use them for it where the system has
    them. shadow_rows_per_minute: device rows compared with the host's, 0 = none; shadow_action: what follows
    a wrong row, "full" (switch to full offload) or "log". metrics_file: Prometheus text, written every
    metrics_seconds; "{rank}" in it stands for the rank. library: as for Pool.
    """

    rows: int
    slots: int = 8192
    max_life: int = layout.MAX_LIFE
    mode: str = "avsg"
    mode_file: str | None = None
    host_gib: float | None = None
    huge_pages: bool = True
    shadow_rows_per_minute: int = 60
    shadow_action: str = "full"
    metrics_file: str | None = None
    metrics_seconds: int = 10
    library: str | None = None

    def pool_config(self, engine: EngineFacts) -> PoolConfig:
        """Sizes of one layer group's pool."""
        return PoolConfig(self.rows, self.slots, engine.top_k, engine.num_queries, self.max_life)


_WHOLE = {  # least and greatest value
    "slots": (DEVICE_BLOCK_SIZE, layout.MAX_SLOTS),
    "rows": (1, 2**31 - 1),
    "max_life": (1, layout.MAX_LIFE),
    "shadow_rows_per_minute": (0, 100_000),
    "metrics_seconds": (1, 86_400),
}
_CHOICES = {"mode": MODES, "shadow_action": SHADOW_ACTIONS}
_TEXTS = ("mode_file", "metrics_file", "library")
_SETTINGS = tuple(field.name for field in fields(Settings))
_KEYS = ("enable", *_SETTINGS)
_REFUSED = (  # (field of EngineFacts, value that is fine, what it is called, why not, what to do)
    ("backend", "torch", "backendType", "only the torch backend has sparse attention", 'set it to "torch"'),
    (
        "prefix_cache",
        False,
        "the plugin prefix_cache",
        "its prefill reads earlier KV on the device, where it no longer is",
        "take it out of plugin_params",
    ),
    (
        "splitfuse",
        False,
        "splitfuse (chunked prefill)",
        "a later chunk reads earlier KV on the device, where it no longer is",
        "take it out of plugin_params and set templateType to Standard",
    ),
    ("context_parallel", 1, "cp", "it spreads a sequence's KV over ranks", "set it to 1 and raise dp or tp"),
    ("sequence_parallel", 1, "sp", "it spreads a sequence's KV over ranks", "set it to 1 and raise dp or tp"),
    ("kv_pool", False, "kvPoolConfig", "it moves KV blocks that are not in HBM", "empty its backend"),
    ("layerwise", False, "layerwiseDisaggregated", "it splits the layers over machines", "set it to false"),
    ("lookahead", False, "the plugin la or memory_decoding", "only mtp drafts are handled", "take it out"),
    (
        "quantized_kv",
        False,
        "an int8 KV cache",
        "the host pool holds bf16 or fp16 rows",
        "leave KV unquantized",
    ),
    ("nz_format", False, "the NZ format of KV", "the host pool holds rows one after the other", "use ND"),
)


def parse_settings(section: object, *, engine: EngineFacts) -> Settings | None:
    """Settings of a `models.avsg` section, None when it is absent or not enabled.

    section: a mapping, or an object with to_dict() as MindIE makes of it. Errors: ValueError whose lines are
    sentences, one for everything that is wrong: unknown keys, values, and features of the engine that do not
    go together with the offload.
    """
    if section is None:
        return None
    values = section.to_dict() if hasattr(section, "to_dict") else section
    if not isinstance(values, Mapping):
        raise ValueError(
            sentence("models.avsg", repr(section), "an object", 'write {"enable": true, "slots": 8192}')
        )
    enable = values.get("enable", False)
    if not isinstance(enable, bool):
        raise ValueError(sentence("models.avsg.enable", repr(enable), "true or false", "write one of them"))
    problems = [_unknown(key) for key in values if key not in _KEYS]
    if not enable and not problems:
        return None
    given = {key: value for key, value in values.items() if key in _SETTINGS}
    problems += [text for key, value in given.items() if (text := _wrong_value(key, value))]
    problems += _refused_features(engine)
    if not problems:
        settings = Settings(**{"rows": engine.max_requests, **given})
        problems = _wrong_sizes(settings, engine)
    if problems:
        raise ValueError("\n".join(problems))
    return settings


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(str(key), _KEYS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}" if near else "take it out"
    return f"models.avsg has no key {key!r}: {hint}? Its keys are {', '.join(_KEYS)}."


def _wrong_value(key: str, value: object) -> str:
    """ "", or the sentence about a value that is wrong whatever the engine is."""
    name = f"models.avsg.{key}"
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if key in _WHOLE:
        low, high = _WHOLE[key]
        if not (number and isinstance(value, int) and low <= value <= high):
            return sentence(name, repr(value), f"a whole number from {low} to {high}", "correct it")
    elif key in _CHOICES:
        if value not in _CHOICES[key]:
            return sentence(name, repr(value), " or ".join(_CHOICES[key]), "choose one of them")
    elif key == "host_gib":
        if value is not None and not (number and value > 0):
            return sentence(
                name, repr(value), "a number above 0", "give the GiB of one rank, or leave it out"
            )
    elif key == "huge_pages":
        if not isinstance(value, bool):
            return sentence(name, repr(value), "true or false", "write one of them")
    elif key in _TEXTS and value is not None and not (isinstance(value, str) and value):
        return sentence(name, repr(value), "a text", "put it in quotes, or leave it out")
    return ""


def _refused_features(engine: EngineFacts) -> list[str]:
    problems = [
        f"{name} is {value!r} together with models.avsg, and {why}: {remedy}, or set enable to false."
        for field, fine, name, why, remedy in _REFUSED
        if (value := getattr(engine, field)) != fine
    ]
    if engine.role not in ("standard", "decoder"):
        problems.append(
            sentence(
                "the role of this node",
                repr(engine.role),
                "standard or decoder, with models.avsg,",
                "leave the section out on prefill nodes: nothing decodes there; flex nodes are not handled",
            )
        )
    return problems


def _wrong_sizes(settings: Settings, engine: EngineFacts) -> list[str]:
    """Sentences about sizes that do not fit the engine or the library."""
    problems = []
    if settings.slots % DEVICE_BLOCK_SIZE:
        up = -(-settings.slots // DEVICE_BLOCK_SIZE) * DEVICE_BLOCK_SIZE
        problems.append(
            sentence(
                "models.avsg.slots",
                settings.slots,
                f"a multiple of {DEVICE_BLOCK_SIZE}",
                f"round it up to {up}: attention reads slots in blocks of {DEVICE_BLOCK_SIZE}",
            )
        )
    if settings.rows < engine.max_requests:
        problems.append(
            sentence(
                "models.avsg.rows",
                settings.rows,
                f"maxBatchSize = {engine.max_requests} or more",
                "leave it out, or lower maxBatchSize: a step has a row for each of its requests",
            )
        )
    try:
        config = settings.pool_config(engine)
        library = _abi.resolve(settings.library)
        if library != "reference":
            sizes = (config.num_rows, config.num_slots, config.top_k, config.num_queries, config.max_life)
            names = ("num_rows", "num_slots", "top_k", "num_queries", "max_life")
            _abi.load(library).sizes(_abi.Config(**dict(zip(names, sizes))))
    except ValueError as error:
        problems.append(f"models.avsg.slots does not fit this model: {error}")
    return problems
