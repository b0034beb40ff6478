# SPDX-License-Identifier: Apache-2.0
"""What the primitives refuse before they run, and the shapes of what they return (both modes, host only)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mindspore as ms
import numpy as np

from .. import layout
from ..config import PoolConfig
from ..errors import sentence
from ..plan import PLAN_FIELDS, plan_shapes

Shape = Sequence[int]

CONFIG_FIELDS = (
    "num_rows",
    "num_slots",
    "top_k",
    "num_queries",
    "max_life",
    "num_cores",
    "check_values",
    "num_payloads",
    "state_address",
    *(f"device_address_{i}" for i in range(layout.MAX_PAYLOADS)),
    *(f"host_address_{i}" for i in range(layout.MAX_PAYLOADS)),
)
"""The int64 tensor that every primitive gets first (mirror of framework/mindspore/cpu_arguments.h)."""

STEP = ("topk_tokens", "verified_lens", "seq_lens", "leases", "rows")
MISSES = ("miss_tokens", "miss_slots", "num_misses", "plan rows", "plan verified_lens")
_INT32_NAMES = {*STEP, *MISSES, "block_table", "positions", "entries"}


@dataclass(frozen=True)
class Signature:
    """The arguments of one primitive, in order, and the checks of its infer functions.

    kind: "match", "load", "step" or "store". names: one name per tensor; payload tensors carry their number,
    "host_kv[0]".
    """

    kind: str
    config: PoolConfig
    names: tuple[str, ...]

    def out_shape(self, *shapes: Shape) -> tuple[tuple[int, ...], ...] | tuple[int, ...]:
        """Shapes of the outputs; ValueError names the argument whose shape is refused."""
        by_name = {name: tuple(shape) for name, shape in zip(self.names, shapes)}
        for name, shape in by_name.items():
            if any(extent < 0 for extent in shape):
                raise ValueError(
                    sentence(
                        name,
                        f"of dynamic shape {list(shape)}",
                        "a static shape",
                        "pad the batch, inactive entries have row -1",
                    )
                )
        return _CHECKS[self.kind](self.config, by_name)

    def out_dtype(self, *dtypes: object) -> object:
        """Dtypes of the outputs; TypeError names the argument whose dtype is refused."""
        by_name = {name: _element(dtype) for name, dtype in zip(self.names, dtypes)}
        for name, dtype in by_name.items():
            wanted = ms.int64 if name == "config" else ms.uint8 if name == "state" else ms.int32
            if (name in _INT32_NAMES or name in ("config", "state")) and dtype != wanted:
                raise TypeError(
                    sentence(
                        name, f"a tensor of {dtype}", f"only {wanted}", f"convert it with .astype({wanted})"
                    )
                )
            if name.endswith("]"):
                host_kv = by_name["host_kv" + name[name.index("[") :]]
                if _item_bytes(dtype) != _item_bytes(host_kv):
                    raise TypeError(
                        sentence(
                            name,
                            f"a tensor of {dtype}",
                            f"only a dtype as wide as that of its host_kv, {host_kv},",
                            "use one dtype for all tensors of a payload",
                        )
                    )
        counts = {"match": len(PLAN_FIELDS), "step": len(PLAN_FIELDS) + 1}
        return (ms.int32,) * counts[self.kind] if self.kind in counts else ms.int32


def _element(dtype: object) -> object:
    return dtype.element_type() if hasattr(dtype, "element_type") else dtype


def _item_bytes(dtype: object) -> int:
    return 2 if dtype == ms.bfloat16 else np.dtype(ms.dtype_to_nptype(dtype)).itemsize


def _expect(shapes: dict[str, tuple[int, ...]], name: str, wanted: tuple[int, ...], meaning: str) -> None:
    if shapes[name] != wanted:
        raise ValueError(
            sentence(name, f"of shape {list(shapes[name])}", f"{list(wanted)} {meaning}", "reshape or pad it")
        )


def _check_step(config: PoolConfig, shapes: dict[str, tuple[int, ...]]) -> tuple[int, int]:
    topk = shapes["topk_tokens"]
    if len(topk) != 3 or topk[0] < 1 or not 1 <= topk[1] <= config.num_queries or topk[2] != config.top_k:
        raise ValueError(
            sentence(
                "topk_tokens",
                f"of shape {list(topk)}",
                f"[B, Q, K] with Q from 1 to {config.num_queries} and K = {config.top_k}",
                "reshape it or make the pool for these numbers",
            )
        )
    for name in STEP[1:]:
        _expect(shapes, name, (topk[0],), "(one for each batch entry of topk_tokens)")
    return topk[0], topk[1]


def _check_state(config: PoolConfig, shapes: dict[str, tuple[int, ...]]) -> None:
    stride = layout.state_stride_bytes(config.num_slots)
    _expect(shapes, "state", (config.num_rows, stride), "(num_rows, state_stride_bytes)")


def _check_table(shapes: dict[str, tuple[int, ...]], num_entries: int | None) -> int:
    table = shapes["block_table"]
    wrong_lines = num_entries is not None and table[:1] != (num_entries,)
    if len(table) != 2 or min(table) < 1 or wrong_lines:
        lines = "B" if num_entries is None else str(num_entries)
        raise ValueError(
            sentence(
                "block_table",
                f"of shape {list(table)}",
                f"[{lines}, max_blocks] with max_blocks of 1 or more",
                "pass one line for each batch entry",
            )
        )
    return table[0]


def _check_payloads(shapes: dict[str, tuple[int, ...]], leading: dict[str, tuple[int, ...]]) -> None:
    first = shapes["host_kv[0]"]
    for name, shape in shapes.items():
        if name.startswith("host_kv["):
            if len(shape) < 3 or shape[:2] != first[:2] or min(shape) < 1:
                raise ValueError(
                    sentence(
                        name,
                        f"of shape {list(shape)}",
                        "[num_blocks, block_size, ...], the first two equal for all payloads,",
                        "reshape it",
                    )
                )
        elif name.endswith("]"):
            base, index = name[:-1].split("[")
            row = shapes[f"host_kv[{index}]"][2:]
            _expect(shapes, name, leading[base] + row, f"(rows like those of host_kv[{index}])")


def _match(config: PoolConfig, shapes: dict[str, tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    num_entries, num_queries = _check_step(config, shapes)
    _check_state(config, shapes)
    return tuple(plan_shapes(num_entries, num_queries, config.top_k).values())


def _copy(config: PoolConfig, shapes: dict[str, tuple[int, ...]], num_entries: int, num_queries: int) -> None:
    _check_table(shapes, num_entries)
    _check_state(config, shapes)
    device = (config.num_rows * config.num_slots,)
    _check_payloads(shapes, {"device_kv": device, "fresh": (num_entries, num_queries)})


def _load(config: PoolConfig, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    misses = shapes["miss_tokens"]
    widths = [q * config.top_k for q in range(1, config.num_queries + 1)]
    if len(misses) != 2 or misses[0] < 1 or misses[1] not in widths:
        raise ValueError(
            sentence(
                "miss_tokens",
                f"of shape {list(misses)}",
                f"[B, Q*K] with Q*K one of {widths}",
                "pass the plan that match returned",
            )
        )
    _expect(shapes, "miss_slots", misses, "(like miss_tokens)")
    for name in MISSES[2:]:
        _expect(shapes, name, misses[:1], "(one for each batch entry of the plan)")
    _copy(config, shapes, misses[0], misses[1] // config.top_k)
    return (layout.NUM_LOAD_COUNTERS,)


def _step(config: PoolConfig, shapes: dict[str, tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    plan = _match(config, shapes)
    _copy(config, shapes, *shapes["topk_tokens"][:2])
    return (*plan, (layout.NUM_LOAD_COUNTERS,))


def _store(config: PoolConfig, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    positions = shapes["positions"]
    if len(positions) != 1 or positions[0] < 1:
        raise ValueError(
            sentence(
                "positions", f"of shape {list(positions)}", "[T], T of 1 or more,", "pass a position per row"
            )
        )
    _expect(shapes, "entries", positions, "(one for each position)")
    _check_table(shapes, None)
    _check_payloads(shapes, {"new_rows": positions})
    return (layout.NUM_STORE_COUNTERS,)


_CHECKS: dict[str, Callable] = {"match": _match, "load": _load, "step": _step, "store": _store}


def signatures(config: PoolConfig, num_payloads: int) -> dict[str, Signature]:
    """The signature of every primitive, by its name: match, load, load_fresh, step, step_fresh, store."""

    def payloads(*bases: str) -> tuple[str, ...]:
        return tuple(f"{base}[{i}]" for base in bases for i in range(num_payloads))

    buffers = ("block_table", "state", *payloads("host_kv", "device_kv"))
    fresh = payloads("fresh")
    names = {
        "match": (*STEP, "state"),
        "load": (*MISSES, *buffers),
        "load_fresh": (*MISSES, *buffers, *fresh),
        "step": (*STEP, *buffers),
        "step_fresh": (*STEP, *buffers, *fresh),
        "store": ("positions", "entries", "block_table", *payloads("new_rows", "host_kv")),
    }
    return {
        name: Signature(name.split("_")[0], config, ("config", *arguments))
        for name, arguments in names.items()
    }
