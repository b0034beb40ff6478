# SPDX-License-Identifier: Apache-2.0
"""The copies of SPEC.md in numpy: load (host_kv to device_kv by the plan) and store (new rows to host_kv)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from . import layout

Array = np.ndarray


class Config(Protocol):
    """Sizes of a pool: S = num_slots, K = top_k, at most num_queries queries a step, L = max_life."""

    num_rows: int
    num_slots: int
    top_k: int
    num_queries: int
    max_life: int


class Plan(Protocol):
    """What a match decides, int32 arrays that it writes in place."""

    slots: Array  # [B, Q, K], packed, then -1
    miss_tokens: Array  # [B, Q*K], unspecified past num_misses
    miss_slots: Array  # [B, Q*K]
    num_misses: Array  # [B]
    counters: Array  # [B, 8]
    rows: Array  # [B], -1 where the entry was inactive
    verified_lens: Array  # [B], V


def core_share(n: int, num_cores: int, core: int) -> range:
    """What one core copies of n misses: [c*n/num_cores, (c+1)*n/num_cores); shares differ by at most one."""
    return range(core * n // num_cores, (core + 1) * n // num_cores)


def list_misses(config: Config, plan: Plan) -> tuple[Array, Array, Array]:
    """All misses of active batch entries, in (batch entry, plan order) order.

    Returns entries, tokens and slots, int64 [n] each. A row outside the pool makes an entry inactive, and
    num_misses counts only within [0, Q*K].
    """
    width = plan.miss_tokens.shape[1]
    active = (plan.rows >= 0) & (plan.rows < config.num_rows)
    counts = np.where(active, np.clip(plan.num_misses, 0, width), 0)
    listed = np.arange(width) < counts[:, None]
    entries = np.nonzero(listed)[0]
    return entries, plan.miss_tokens[listed].astype(np.int64), plan.miss_slots[listed].astype(np.int64)


def host_rows(
    tokens: Array, entries: Array, block_table: Array, block_size: int, num_host_blocks: int
) -> Array:
    """Host row of each token: block_table[entry, token / block_size] * block_size + token % block_size.

    int64 [n], -1 for a bad block: token / block_size >= max_blocks or an id outside [0, num_host_blocks). The
    tokens are not negative and the entries lie within the table.
    """
    index = tokens // block_size
    rows = np.full(len(tokens), -1, dtype=np.int64)
    inside = np.flatnonzero(index < block_table.shape[1])
    blocks = block_table[entries[inside], index[inside]].astype(np.int64)
    good = (blocks >= 0) & (blocks < num_host_blocks)
    rows[inside[good]] = blocks[good] * block_size + tokens[inside[good]] % block_size
    return rows


def load(
    config: Config,
    state: Array,
    plan: Plan,
    payloads: Sequence[tuple[Array, Array, Array | None]],
    block_table: Array,
    block_size: int,
    num_host_blocks: int,
    load_counters: Array,
) -> None:
    """Copies the plan's misses to device_kv (SPEC.md, "Copy"): device row `row * S + slot`, of every payload.

    payloads: (host_kv uint8 [num_host_blocks*block_size, row_bytes], device_kv uint8 [num_rows*S, row_bytes],
    fresh uint8 [B, Q, row_bytes] or None; all of a call or none); block_table int32 [B, max_blocks];
    load_counters int32 [2]. A token with V >= 1 and 0 <= f = token - (V - 1) < Q comes from fresh[entry, f].
    A bad block gives zeros and poisons the row, so that its next step starts from a reset. A plan entry that
    no match can have written (token or slot out of range) is not copied at all; it counts as a bad block and
    poisons the row.
    """
    entries, tokens, slots = list_misses(config, plan)
    rows = plan.rows[entries].astype(np.int64)
    sane = (tokens >= 0) & (tokens < layout.MAX_TOKENS) & (slots >= 0) & (slots < config.num_slots)
    num_queries = plan.slots.shape[1]
    verified_lens = plan.verified_lens[entries].astype(np.int64)
    fresh_index = tokens - (verified_lens - 1)
    has_fresh = all(fresh is not None for _, _, fresh in payloads)
    is_fresh = sane & has_fresh & (verified_lens >= 1) & (fresh_index >= 0) & (fresh_index < num_queries)
    from_host = np.flatnonzero(sane & ~is_fresh)
    sources = host_rows(tokens[from_host], entries[from_host], block_table, block_size, num_host_blocks)
    good, bad = from_host[sources >= 0], from_host[sources < 0]
    sources = sources[sources >= 0]
    targets = rows * config.num_slots + slots
    for host_kv, device_kv, fresh in payloads:
        device_kv[targets[good]] = host_kv[sources]
        device_kv[targets[bad]] = 0
        if fresh is not None:
            device_kv[targets[is_fresh]] = fresh[entries[is_fresh], fresh_index[is_fresh]]
    for row in np.unique(rows[np.concatenate([bad, np.flatnonzero(~sane)])]):
        layout.state_views(config.num_slots, state[row])[0][layout.HEADER_POISON] = 1
    num_copied = len(good) + np.count_nonzero(is_fresh)
    load_counters[layout.LOAD_ROWS_COPIED] = num_copied
    load_counters[layout.LOAD_BAD_BLOCKS] = len(tokens) - num_copied


def store(
    config: Config,
    payloads: Sequence[tuple[Array, Array]],
    positions: Array,
    entries: Array,
    block_table: Array,
    block_size: int,
    num_host_blocks: int,
    store_counters: Array,
) -> None:
    """Writes the step's new rows to host_kv (SPEC.md, "Store").

    payloads: (host_kv uint8 [num_host_blocks*block_size, row_bytes], new_rows uint8 [T, row_bytes]);
    positions and entries int32 [T]; store_counters int32 [2]. A position outside [0, MAX_TOKENS), an entry
    outside the batch (-1 among them) or a bad block is skipped and counted. Of rows for the same token
    of an entry the highest index wins; all of them count as stored. Entries that share a block must not write
    the same row of it: on several cores it is not specified which one wins.
    """
    del config  # the pool's sizes do not matter here; the signature is that of the other calls
    sane = (positions >= 0) & (positions < layout.MAX_TOKENS) & (entries >= 0) & (entries < len(block_table))
    new = np.flatnonzero(sane)
    targets = host_rows(
        positions[new].astype(np.int64), entries[new], block_table, block_size, num_host_blocks
    )
    new, targets = new[targets >= 0], targets[targets >= 0]
    last = len(targets) - 1 - np.unique(targets[::-1], return_index=True)[1]
    for host_kv, new_rows in payloads:
        host_kv[targets[last]] = new_rows[new[last]]
    store_counters[layout.STORE_ROWS_STORED] = len(new)
    store_counters[layout.STORE_SKIPPED] = len(positions) - len(new)
