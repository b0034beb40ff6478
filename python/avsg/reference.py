# SPDX-License-Identifier: Apache-2.0
"""SPEC.md in numpy: the explanation of the algorithm, which every other implementation must equal to the bit.

A row remembers which token each slot of the device buffer holds. One step of one request runs these phases:

    open_row     OPEN      forget what is no longer true, start a new step
    probe        PROBE     find tokens in the hash table
    refresh      REFRESH   hits grow younger
    collect      COLLECT   find the oldest slots, sparing those already promised in this step
    install      INSTALL   give them to the misses
    link         LINK      make the new tokens findable
    close_row    CLOSE     forget the tokens that a rejected draft may rewrite

Then `load` copies the plan's rows from host_kv to device_kv, and `store` writes new rows to host_kv
(reference_copy.py). Whatever the tensors hold, nothing here indexes outside them: what a device cannot refuse
is skipped, counted or reset.
"""

from __future__ import annotations

import numpy as np

from . import layout
from .reference_copy import Array, Config, Plan, core_share, load, store

__all__ = ["core_share", "load", "match", "store"]


class Row:
    """The state of one row and what the current step has promised.

    header int32 [128], slot_token int32 [S+8], slot_stamp float32 [S+8] and bucket_word uint32 [NB] are views
    of the state; promised bool [S], step and floor live for one step.
    """

    def __init__(self, config: Config, row_state: Array) -> None:
        views = layout.state_views(config.num_slots, row_state)
        self.header, self.slot_token, self.slot_stamp, self.bucket_word = views
        self.num_slots = config.num_slots
        self.lg = layout.num_buckets_log2(config.num_slots)
        small = config.num_slots < 2 * config.top_k
        self.probe_rounds = layout.PROBE_ROUNDS_SMALL if small else layout.PROBE_ROUNDS
        self.lag_min = layout.LAG_MIN_SMALL if small else layout.LAG_MIN
        self.promised = np.zeros(config.num_slots, dtype=bool)
        self.step = self.floor = 0

    def forget(self, slots: Array | slice) -> None:
        """The slots (indices or mask) hold nothing: EMPTY_TOKEN and stamp 0."""
        self.slot_token[slots] = layout.EMPTY_TOKEN
        self.slot_stamp[slots] = 0

    def bucket_slot(self, words: Array) -> Array:
        """The slot field of bucket words; the bound S matters only if the state is corrupt."""
        return np.minimum(words & 0xFFFF, self.num_slots).astype(np.int64)


def reset_row(row: Row, lease: int) -> None:
    """Reset: header 0 but magic, version, lease and S; tokens EMPTY_TOKEN, stamps 0, words EMPTY_WORD."""
    row.header[:] = 0
    row.header[layout.HEADER_MAGIC] = layout.MAGIC
    row.header[layout.HEADER_VERSION] = layout.LAYOUT_VERSION
    row.header[layout.HEADER_LEASE] = lease
    row.header[layout.HEADER_SLOTS] = row.num_slots
    row.forget(slice(None))
    row.bucket_word[:] = layout.EMPTY_FINGERPRINT << 16 | row.num_slots


def must_reset(row: Row, lease: int) -> bool:
    """OPEN: magic, version or S is wrong, lease differs, poison is set, or step >= MAX_STEP.

    A header that no step can have left (step < 1, floor < 0, floor > step) counts as a wrong magic.
    """
    head = row.header
    step, floor = int(head[layout.HEADER_STEP]), int(head[layout.HEADER_FLOOR])
    return bool(
        head[layout.HEADER_MAGIC] != layout.MAGIC
        or head[layout.HEADER_VERSION] != layout.LAYOUT_VERSION
        or head[layout.HEADER_SLOTS] != row.num_slots
        or head[layout.HEADER_LEASE] != lease
        or head[layout.HEADER_POISON] != 0
        or not 0 < step < layout.MAX_STEP
        or not 0 <= floor <= step
    )


def open_row(row: Row, lease: int, verified_len: int, max_life: int, counters: Array) -> None:
    """OPEN: reset a row that is not this lease's; drop tokens >= V if V < high; new step, new floor.

    Of a corrupt state, stamps are brought into [0, step - 1] by their bits, as which floats from 0 on keep
    their order and NaN and infinity are numbers too, and the sentinel is restored; a valid one has both
    already.
    """
    if must_reset(row, lease):
        reset_row(row, lease)
        counters[layout.COUNTER_FLAGS] |= layout.FLAG_RESET
    row.slot_token[row.num_slots :] = layout.EMPTY_TOKEN
    row.slot_stamp[row.num_slots :] = 0
    if verified_len < row.header[layout.HEADER_HIGH]:
        rolled_back = row.slot_token >= verified_len
        row.forget(rolled_back)
        counters[layout.COUNTER_INVALIDATED] += np.count_nonzero(rolled_back)
    row.step = int(row.header[layout.HEADER_STEP]) + 1
    row.floor = max(int(row.header[layout.HEADER_FLOOR]), row.step - 1 - max_life)
    bits = row.slot_stamp.view(np.int32)
    np.clip(bits, 0, np.float32(row.step - 1).view(np.int32), out=bits)


def probe(row: Row, tokens: Array) -> tuple[Array, Array]:
    """PROBE: walk at most R times past buckets of another fingerprint, then accept on the full token only.

    tokens int64 [n], each in [0, MAX_TOKENS). Returns slots int64 [n] and hit bool [n]; slots are meaningful
    on a hit.
    """
    bucket = layout.hash_start(tokens, row.lg)
    stride = layout.hash_stride(tokens, row.lg)
    mask = (1 << row.lg) - 1
    for _ in range(row.probe_rounds):
        walks_on = (row.bucket_word[bucket] >> 16) != (tokens & 0xFFFF)
        bucket = np.where(walks_on, (bucket + stride) & mask, bucket)
    slots = row.bucket_slot(row.bucket_word[bucket])
    return slots, row.slot_token[slots] == tokens


def refresh(row: Row, hit_slots: Array) -> None:
    """REFRESH: a hit moves a stamp as old as the lag D, or older, part of the way to now."""
    age_of_floor = row.step - row.floor
    lag = min(max(age_of_floor >> 2, row.lag_min), layout.LAG_MAX)
    low = max(row.step - (3 * age_of_floor >> 2), row.floor + 1)
    age = row.step - np.maximum(row.slot_stamp[hit_slots].astype(np.int64), row.floor)
    old = age >= lag
    age = age[old]
    row.slot_stamp[hit_slots[old]] = np.maximum(row.step - np.maximum(age - (age >> 2) - lag + 1, 0), low)


def oldest_threshold(row: Row, num_victims: int) -> int:
    """COLLECT: T, the smallest integer >= floor such that at least num_victims slots have stamp <= T."""
    stamps = row.slot_stamp[: row.num_slots]
    if np.count_nonzero(stamps <= row.floor) >= num_victims:
        return row.floor
    return int(np.ceil(np.partition(stamps, num_victims - 1)[num_victims - 1]))


def collect(row: Row, num_victims: int, counters: Array) -> Array:
    """COLLECT: the first num_victims slots in ascending index with stamp <= T; the floor becomes T.

    Promised slots that T would reclaim get the stamp of now and T is sought again; from the third such pass
    all promised slots do. T stays below step because Q*K <= S.
    """
    stamps = row.slot_stamp[: row.num_slots]
    passes = 0
    while True:
        threshold = oldest_threshold(row, num_victims)
        late = row.promised & (stamps <= threshold)
        if not late.any():
            break
        passes += 1
        stamps[late if passes < 3 else row.promised] = row.step
        counters[layout.COUNTER_FLAGS] |= layout.FLAG_PROMISED_STAMPED
    row.floor = threshold
    return np.flatnonzero(stamps <= threshold)[:num_victims]


def install(row: Row, tokens: Array, victims: Array, top_k: int) -> None:
    """INSTALL: the k-th miss gets the k-th victim. The floor is T.

    A new token starts near the old end, with a quarter of its life left, unless most of the query missed.
    """
    near_old_end = max(row.step - (3 * (row.step - row.floor) >> 2), row.floor + 1)
    stamp = row.step if 2 * len(tokens) > top_k else near_old_end
    row.slot_token[victims] = tokens
    row.slot_stamp[victims] = stamp
    row.promised[victims] = True


def choose_targets(row: Row, tokens: Array) -> Array:
    """LINK: the bucket each token takes, int64 [n], -1 if none.

    The first free bucket of its R+1 (empty, sentinel or stale); if none, among those with slot_stamp < step
    the one with the smallest max(slot_stamp, floor), the first on ties.
    """
    rounds = np.arange(row.probe_rounds + 1)
    start, stride = layout.hash_start(tokens, row.lg), layout.hash_stride(tokens, row.lg)
    buckets = (start[:, None] + rounds * stride[:, None]) & ((1 << row.lg) - 1)
    words = row.bucket_word[buckets]
    slots = row.bucket_slot(words)
    held = row.slot_token[slots]
    free = (held < 0) | ((held & 0xFFFF) != (words >> 16))
    stamps = row.slot_stamp[slots]
    rank = np.where(stamps < row.step, np.maximum(stamps, row.floor), np.inf)
    rank[free] = -1
    best = rank.argmin(axis=1)
    pick = np.arange(len(tokens))
    return np.where(rank[pick, best] < np.inf, buckets[pick, best], -1)


def last_of_each(values: Array) -> Array:
    """Indices of the last occurrence of each value: numpy does not promise that the highest index wins."""
    return len(values) - 1 - np.unique(values[::-1], return_index=True)[1]


def link(row: Row, tokens: Array, victims: Array) -> int:
    """LINK: point a bucket of every miss at its slot; losers of a collision try once more.

    Returns the number of unlinked misses: they are valid in this step, but a later query or step misses the
    token again and gives it another slot.
    """
    words = ((tokens & 0xFFFF) << 16 | victims).astype(np.uint32)
    todo = np.arange(len(tokens))
    for _ in range(layout.LINK_ROUNDS):
        targets = choose_targets(row, tokens[todo])
        linkable = np.flatnonzero(targets >= 0)
        winners = linkable[last_of_each(targets[linkable])]
        row.bucket_word[targets[winners]] = words[todo[winners]]
        todo = np.delete(todo, winners)
    return len(todo)


def match_query(row: Row, top_k_tokens: Array, limit: int, counters: Array) -> tuple[Array, Array, Array]:
    """PROBE to OUTPUT of one query, int32 [K]: its packed slots, and the tokens and slots of its misses."""
    valid = (top_k_tokens >= 0) & (top_k_tokens < limit)
    num_bad = np.count_nonzero(top_k_tokens >= limit)
    tokens = top_k_tokens[valid].astype(np.int64)
    slots, hit = probe(row, tokens)
    refresh(row, slots[hit])
    row.promised[slots[hit]] = True
    miss_tokens = tokens[~hit]
    victims = np.empty(0, dtype=np.int64)
    if len(miss_tokens):
        victims = collect(row, len(miss_tokens), counters)
        install(row, miss_tokens, victims, len(top_k_tokens))
        counters[layout.COUNTER_UNLINKED] += link(row, miss_tokens, victims)
        slots[~hit] = victims
    counters[layout.COUNTER_VALID] += len(tokens)
    counters[layout.COUNTER_HITS] += len(tokens) - len(miss_tokens)
    counters[layout.COUNTER_MISSES] += len(miss_tokens)
    counters[layout.COUNTER_BAD_TOKENS] += num_bad
    if num_bad:
        counters[layout.COUNTER_FLAGS] |= layout.FLAG_BAD_TOKEN
    return slots, miss_tokens, victims


def close_row(row: Row, plan_tokens: Array, plan_slots: Array, verified_len: int, counters: Array) -> None:
    """CLOSE: forget the plan's tokens >= V, which a rejected draft may rewrite; high = V."""
    drafts = plan_slots[plan_tokens >= verified_len]
    row.forget(drafts)
    counters[layout.COUNTER_INVALIDATED] += len(drafts)
    row.header[layout.HEADER_STEP] = row.step
    row.header[layout.HEADER_FLOOR] = row.floor
    row.header[layout.HEADER_HIGH] = verified_len


def match_entry(row: Row, topk_tokens: Array, verified_len: int, limit: int, plan: Plan, b: int) -> None:
    """The queries of batch entry b, int32 [Q, K], on its opened row; fills the entry's lines of the plan."""
    floor_after_open, n, counters = row.floor, 0, plan.counters[b]
    for g, top_k_tokens in enumerate(topk_tokens):
        slots, miss_tokens, victims = match_query(row, top_k_tokens, limit, counters)
        plan.slots[b, g, : len(slots)] = slots
        plan.miss_tokens[b, n : n + len(victims)] = miss_tokens
        plan.miss_slots[b, n : n + len(victims)] = victims
        n += len(victims)
    plan.num_misses[b] = n
    counters[layout.COUNTER_FLOOR_ADVANCE] = row.floor - floor_after_open
    close_row(row, plan.miss_tokens[b, :n], plan.miss_slots[b, :n], verified_len, counters)


def match(
    config: Config,
    state: Array,
    topk_tokens: Array,
    verified_lens: Array,
    seq_lens: Array,
    leases: Array,
    rows: Array,
    plan: Plan,
) -> None:
    """One step of every batch entry (SPEC.md, "One step of one batch entry").

    state uint8 [num_rows, stride], changed in place; topk_tokens int32 [B, Q, K]; the rest int32 [B]. Fills
    the plan. Entries whose row is outside the pool, or named by an earlier active entry, are inactive.
    """
    plan.slots[...] = layout.PAD_TOKEN
    plan.num_misses[...] = 0
    plan.counters[...] = 0
    plan.rows[...] = -1
    seen: set[int] = set()
    for b, index in enumerate(rows.tolist()):
        seq_len = max(int(seq_lens[b]), 0)
        verified_len = min(max(int(verified_lens[b]), 0), seq_len)
        plan.verified_lens[b] = verified_len
        if index >= config.num_rows:
            plan.counters[b, layout.COUNTER_FLAGS] = layout.FLAG_ROW_OUT_OF_RANGE
        elif index in seen:
            plan.counters[b, layout.COUNTER_FLAGS] = layout.FLAG_ROW_NAMED_TWICE
        elif index >= 0:
            seen.add(index)
            plan.rows[b] = index
            row = Row(config, state[index])
            open_row(row, int(leases[b]), verified_len, config.max_life, plan.counters[b])
            match_entry(row, topk_tokens[b], verified_len, min(seq_len, layout.MAX_TOKENS), plan, b)
