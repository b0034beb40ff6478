# SPDX-License-Identifier: Apache-2.0
"""Structure of the arguments of every pool call: dtype, shape, layout, device, row sizes; never values."""

from __future__ import annotations

from . import layout
from .args import CopyArgs, PayloadArgs, PlanArgs, StepArgs
from .arrays import ArrayView, require, require_int32
from .config import PoolConfig
from .errors import sentence
from .plan import PLAN_FIELDS, PLAN_WORDS, Plan, plan_shapes


def step_args(
    config: PoolConfig,
    topk_tokens: object,
    verified_lens: object,
    seq_lens: object,
    leases: object,
    rows: object,
) -> StepArgs:
    """Input of a match: topk_tokens int32 [B, Q, K] with Q up to num_queries, the rest int32 [B]."""
    topk = require_int32("topk_tokens", topk_tokens)
    if (
        len(topk.shape) != 3
        or topk.shape[0] < 1
        or topk.shape[2] != config.top_k
        or not (1 <= topk.shape[1] <= config.num_queries)
    ):
        raise ValueError(
            sentence(
                "topk_tokens.shape",
                list(topk.shape),
                f"[B, Q, K] with B >= 1, Q of 1 to num_queries = {config.num_queries} and K = {config.top_k}",
                "pad shorter selections with -1",
            )
        )
    num_entries, num_queries, _ = topk.shape
    lines = {"verified_lens": verified_lens, "seq_lens": seq_lens, "leases": leases, "rows": rows}
    return StepArgs(
        num_entries,
        num_queries,
        topk,
        *(require_int32(name, array, (num_entries,), "[B]") for name, array in lines.items()),
    )


def plan_args(
    config: PoolConfig, plan: Plan, shape: tuple[int, int] | None, name: str, *, write: bool
) -> PlanArgs:
    """Arrays of a plan; `shape` is the (B, Q) that the step needs, None = whatever plan.slots says."""
    missing = [field for field in PLAN_FIELDS if not hasattr(plan, field)]
    if missing:
        raise TypeError(
            sentence(
                name,
                f"a {type(plan).__name__} without {', '.join(missing)}",
                "only an avsg.Plan",
                "pass what match returned or Plan.empty(B, Q, K)",
            )
        )
    if shape is None:
        slots = require_int32(f"{name}.slots", plan.slots)
        if len(slots.shape) != 3 or slots.shape[0] < 1 or not 1 <= slots.shape[1] <= config.num_queries:
            raise ValueError(
                sentence(
                    f"{name}.slots.shape",
                    list(slots.shape),
                    f"[B, Q, K] with B of 1 or more, Q of 1 to {config.num_queries} and K = {config.top_k}",
                    "pass a plan of this pool",
                )
            )
        shape = slots.shape[:2]
    shapes = plan_shapes(*shape, config.top_k)
    views = [
        require_int32(f"{name}.{field}", getattr(plan, field), shapes[field], PLAN_WORDS[field], write=write)
        for field in PLAN_FIELDS
    ]
    return PlanArgs(*shape, *views)


def load_args(
    config: PoolConfig,
    host_kv: object,
    device_kv: object,
    block_table: object,
    fresh: object,
    num_entries: int,
    num_queries: int,
) -> CopyArgs:
    """Buffers of a load: one to four pairs with equal bytes per row, and one line of block ids per entry."""
    hosts, devices = _as_list("host_kv", host_kv), _as_list("device_kv", device_kv)
    _same_count("device_kv", devices, hosts)
    fresh_list = [None] * len(hosts) if fresh is None else _as_list("fresh", fresh)
    _same_count("fresh", fresh_list, hosts)
    views = _host_views(hosts, write=False)
    payloads = []
    num_device_rows = config.num_rows * config.num_slots
    for i, (host, device, new) in enumerate(zip(views, devices, fresh_list)):
        row_bytes = _host_row_bytes(host)
        device_view = _rows_view(
            f"device_kv[{i}]", device, (num_device_rows,), "[num_rows * S, ...]", row_bytes, write=True
        )
        new_view = None
        if fresh is not None:
            new_view = _rows_view(f"fresh[{i}]", new, (num_entries, num_queries), "[B, Q, ...]", row_bytes)
        payloads.append(PayloadArgs(row_bytes, host, device_view, new_view))
    return _copy_args(payloads, block_table, num_entries)


def store_args(
    new_rows: object,
    host_kv: object,
    positions: object,
    entries: object,
    block_table: object,
) -> tuple[CopyArgs, ArrayView, ArrayView]:
    """Buffers of a store, then positions and entries, int32 [T] both."""
    hosts, news = _as_list("host_kv", host_kv), _as_list("new_rows", new_rows)
    _same_count("new_rows", news, hosts)
    views = _host_views(hosts, write=True)
    position_view = require_int32("positions", positions)
    if len(position_view.shape) != 1:
        raise ValueError(
            sentence(
                "positions.shape", list(position_view.shape), "[T], one position per new row", "flatten it"
            )
        )
    num_new_rows = position_view.shape[0]
    entry_view = require_int32("entries", entries, (num_new_rows,), "[T]")
    payloads = []
    for i, (host, new) in enumerate(zip(views, news)):
        row_bytes = _host_row_bytes(host)
        new_view = _rows_view(f"new_rows[{i}]", new, (num_new_rows,), "[T, ...]", row_bytes)
        payloads.append(PayloadArgs(row_bytes, host, new_rows=new_view))
    return _copy_args(payloads, block_table, None), position_view, entry_view


def _as_list(name: str, arrays: object) -> list[object]:
    listed = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
    if not 1 <= len(listed) <= layout.MAX_PAYLOADS:
        raise ValueError(
            sentence(
                f"the number of arrays in {name}",
                len(listed),
                f"1 to {layout.MAX_PAYLOADS}",
                "pass one array per payload, or a single array",
            )
        )
    return listed


def _same_count(name: str, arrays: list[object], hosts: list[object]) -> None:
    if len(arrays) != len(hosts):
        raise ValueError(
            sentence(
                f"the number of arrays in {name}",
                len(arrays),
                f"that of host_kv, {len(hosts)},",
                "pass one array per payload",
            )
        )


def _host_views(hosts: list[object], *, write: bool) -> list[ArrayView]:
    views = [require(f"host_kv[{i}]", host, write=write) for i, host in enumerate(hosts)]
    for v in views:
        if len(v.shape) < 2 or min(v.shape) < 1:
            raise ValueError(
                sentence(
                    f"{v.name}.shape",
                    list(v.shape),
                    "[num_blocks, block_size, ...] without an empty dimension",
                    "pass that shape",
                )
            )
        if v.shape[:2] != views[0].shape[:2]:
            raise ValueError(
                sentence(
                    f"{v.name}.shape[:2]",
                    list(v.shape[:2]),
                    f"that of host_kv[0], {list(views[0].shape[:2])},",
                    "give every payload the same blocks, one block table addresses them all",
                )
            )
        _refuse_objects(v)
        if max(v.shape[:2]) > 2**31 - 1:
            raise ValueError(
                sentence(
                    f"{v.name}.shape[:2]",
                    list(v.shape[:2]),
                    "at most 2^31 - 1 each",
                    "use fewer, larger blocks",
                )
            )
    return views


def _host_row_bytes(host: ArrayView) -> int:
    row_bytes = host.nbytes // (host.shape[0] * host.shape[1])
    if row_bytes % layout.ROW_BYTES_MULTIPLE:
        raise ValueError(
            sentence(
                f"the bytes per row of {host.name}",
                row_bytes,
                f"a multiple of {layout.ROW_BYTES_MULTIPLE}",
                "pad the row",
            )
        )
    return row_bytes


def _rows_view(
    name: str,
    array: object,
    leading: tuple[int, ...],
    words: str,
    row_bytes: int,
    *,
    write: bool = False,
) -> ArrayView:
    v = require(name, array, write=write)
    _refuse_objects(v)
    if v.shape[: len(leading)] != leading:
        raise ValueError(
            sentence(
                f"{name}.shape",
                list(v.shape),
                f"{words} = {[*leading, ...]}".replace("Ellipsis", "..."),
                "pass that shape",
            )
        )
    actual = v.itemsize
    for extent in v.shape[len(leading) :]:
        actual *= extent
    if actual != row_bytes:
        raise ValueError(
            sentence(
                f"the bytes per row of {name}",
                actual,
                f"that of its host_kv, {row_bytes},",
                "give both the same row",
            )
        )
    return v


def _refuse_objects(v: ArrayView) -> None:
    if v.dtype == "object":
        raise TypeError(
            sentence(f"{v.name}.dtype", "object", "any dtype of plain bytes", "pass the bytes themselves")
        )


def _copy_args(payloads: list[PayloadArgs], block_table: object, num_entries: int | None) -> CopyArgs:
    table = require_int32("block_table", block_table)
    if len(table.shape) != 2 or min(table.shape) < 1 or (num_entries or table.shape[0]) != table.shape[0]:
        lines = "B of 1 or more" if num_entries is None else f"B = {num_entries}"
        raise ValueError(
            sentence(
                "block_table.shape",
                list(table.shape),
                f"[B, max_blocks] with {lines} and max_blocks of 1 or more",
                "pass one line of block ids per batch entry",
            )
        )
    host = payloads[0].host_kv
    return CopyArgs(payloads, table, *table.shape, *host.shape[:2])
