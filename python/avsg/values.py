# SPDX-License-Identifier: Apache-2.0
"""Values that the host can see, refused before a call changes anything (`check=True`).

A device cannot refuse a value: with `check=False` the library treats each of these as SPEC.md says (counts,
skips or resets). Batch entries with a negative row are inactive and their other values are not looked at.
"""

from __future__ import annotations

import numpy as np

from . import layout
from .args import CopyArgs, PlanArgs, StepArgs
from .arrays import ArrayView
from .config import PoolConfig
from .errors import sentence

_RELEASED = "take rows from RowTable.admit, and pass -1 for an inactive entry"


def check_step(config: PoolConfig, step: StepArgs) -> None:
    """ValueError for a row outside the pool or named twice, contradicting lengths, or a bad token."""
    rows = step.rows.as_int32()
    verified_lens, seq_lens = step.verified_lens.as_int32(), step.seq_lens.as_int32()
    active = rows >= 0
    _refuse(
        active & (rows >= config.num_rows),
        "rows",
        rows,
        f"0 to {config.num_rows - 1} (num_rows = {config.num_rows}) or a negative number (inactive)",
        _RELEASED,
    )
    _refuse_same_row(rows, active)
    _refuse(
        active & (seq_lens < 0),
        "seq_lens",
        seq_lens,
        "0 or more",
        "count all tokens, this step's queries included",
    )
    _refuse(
        active & (seq_lens > layout.MAX_TOKENS),
        "seq_lens",
        seq_lens,
        f"at most MAX_TOKENS = {layout.MAX_TOKENS}",
        "serve shorter sequences",
    )
    _refuse(
        active & (verified_lens < 0),
        "verified_lens",
        verified_lens,
        "0 or more",
        "count the tokens whose KV is final, seq_len - queries + 1",
    )
    _refuse(
        active & (verified_lens > seq_lens),
        "verified_lens",
        verified_lens,
        "at most the entry's seq_len",
        "pass seq_len - queries + 1",
    )
    topk = step.topk_tokens.as_int32()
    bad = active[:, None, None] & (topk >= seq_lens[:, None, None])
    _refuse(
        bad,
        "topk_tokens",
        topk,
        "a token below the entry's seq_len or a negative number (padding)",
        "mask the indexer's scores past the sequence's end",
    )


def check_load(config: PoolConfig, plan: PlanArgs, copy: CopyArgs) -> None:
    """ValueError for a plan that no match of this pool has written, or a bad block among its copies."""
    rows, num_misses = plan.rows.as_int32(), plan.num_misses.as_int32()
    active = rows >= 0
    remedy = "pass the plan that this pool's match returned, unchanged"
    _refuse(active & (rows >= config.num_rows), "plan.rows", rows, f"at most {config.num_rows - 1}", remedy)
    width = plan.miss_tokens.shape[1]
    _refuse(
        active & ((num_misses < 0) | (num_misses > width)),
        "plan.num_misses",
        num_misses,
        f"0 to {width}",
        remedy,
    )
    listed = active[:, None] & (np.arange(width) < num_misses[:, None])
    tokens, slots = plan.miss_tokens.as_int32(), plan.miss_slots.as_int32()
    _refuse(
        listed & ((tokens < 0) | (tokens >= layout.MAX_TOKENS)),
        "plan.miss_tokens",
        tokens,
        f"0 to {layout.MAX_TOKENS - 1}",
        remedy,
    )
    _refuse(
        listed & ((slots < 0) | (slots >= config.num_slots)),
        "plan.miss_slots",
        slots,
        f"0 to {config.num_slots - 1}",
        remedy,
    )
    entries = np.nonzero(listed)[0]
    _check_blocks(copy, entries, tokens[listed], plan.verified_lens.as_int32(), plan.num_queries)


def check_step_blocks(step: StepArgs, copy: CopyArgs) -> None:
    """ValueError for a block id that a copy of this step could read: every valid token may be a miss."""
    topk, rows = step.topk_tokens.as_int32(), step.rows.as_int32()
    listed = (rows >= 0)[:, None, None] & (topk >= 0)
    entries = np.nonzero(listed)[0]
    _check_blocks(copy, entries, topk[listed], step.verified_lens.as_int32(), step.num_queries)


def check_store(copy: CopyArgs, position_view: ArrayView, entry_view: ArrayView) -> None:
    """ValueError for an entry outside the batch, a bad position or block, or two rows for one place."""
    positions, entries = position_view.as_int32(), entry_view.as_int32()
    kept = entries != -1
    _refuse(
        kept & ((entries < 0) | (entries >= copy.num_entries)),
        "entries",
        entries,
        f"0 to {copy.num_entries - 1}, or -1 (skip),",
        "name the line of block_table that the row belongs to",
    )
    _refuse(
        kept & ((positions < 0) | (positions >= layout.MAX_TOKENS)),
        "positions",
        positions,
        f"0 to {layout.MAX_TOKENS - 1}",
        "pass the row's token number",
    )
    index = np.flatnonzero(kept)
    places = _host_rows(copy, entries[kept].astype(np.int64), positions[kept].astype(np.int64))
    order = np.argsort(places, kind="stable")
    twice = np.flatnonzero(np.diff(places[order]) == 0)
    if len(twice):
        first, second = index[order[twice[0]]], index[order[twice[0] + 1]]
        raise ValueError(
            sentence(
                f"the host row of positions[{second}] = {positions[second]}",
                f"that of positions[{first}] too",
                "one new row per host row",
                "pass -1 in entries for the rows to skip",
            )
        )


def _check_blocks(
    copy: CopyArgs,
    entries: np.ndarray,
    tokens: np.ndarray,
    verified_lens: np.ndarray,
    num_queries: int,
) -> None:
    if (
        copy.payloads[0].fresh is not None
    ):  # the step's own rows come from `fresh`, whatever the block table says
        v = verified_lens[entries].astype(np.int64)
        fresh = (v >= 1) & (tokens >= v - 1) & (tokens < v - 1 + num_queries)
        entries, tokens = entries[~fresh], tokens[~fresh]
    _host_rows(copy, entries, tokens.astype(np.int64))


def _host_rows(copy: CopyArgs, entries: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Host row of each (entry, token), int64 [n]; ValueError for the first that has none."""
    table = copy.block_table.as_int32()
    index = tokens // copy.block_size
    if (index >= copy.max_blocks).any():
        k = int((index >= copy.max_blocks).argmax())
        raise ValueError(
            sentence(
                f"token {tokens[k]} of batch entry {entries[k]}",
                f"in block {index[k]} of its sequence",
                f"a block below max_blocks = {copy.max_blocks} (block_size = {copy.block_size})",
                "pass a block table that covers the sequence",
            )
        )
    blocks = table[entries, index].astype(np.int64)
    bad = (blocks < 0) | (blocks >= copy.num_host_blocks)
    if bad.any():
        k = int(bad.argmax())
        raise ValueError(
            sentence(
                f"block_table[{entries[k]}, {index[k]}] (for token {tokens[k]})",
                blocks[k],
                f"0 to {copy.num_host_blocks - 1} (host_kv has {copy.num_host_blocks} blocks)",
                "pass the block's id, or a host_kv with all blocks",
            )
        )
    return blocks * copy.block_size + tokens % copy.block_size


def _refuse(bad: np.ndarray, name: str, values: np.ndarray, allowed: str, remedy: str) -> None:
    if bad.any():
        where = np.unravel_index(int(bad.argmax()), bad.shape)
        index = ", ".join(str(int(i)) for i in where)
        raise ValueError(sentence(f"{name}[{index}]", int(values[where]), allowed, remedy))


def _refuse_same_row(rows: np.ndarray, active: np.ndarray) -> None:
    index = np.flatnonzero(active)
    order = index[np.argsort(rows[index], kind="stable")]
    twice = np.flatnonzero(np.diff(rows[order]) == 0)
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        raise ValueError(
            sentence(
                f"rows[{second}]",
                f"{rows[second]}, which rows[{first}] names too",
                "each row once per step",
                _RELEASED,
            )
        )
