# SPDX-License-Identifier: Apache-2.0
"""reference.match equals the conformance vectors and holds SPEC.md's consequences."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avsg import layout, reference
from reference_case import Config, Plan, new_state, pad, step, third_pass_state

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.npz"))


def test_golden_vectors_are_there() -> None:
    assert len(GOLDEN) >= 27


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_reference_equals_the_conformance_vector(path: Path) -> None:
    """Slots, plan, counters and the state's CRC-32 after every step (SPEC.md, "Conformance files")."""
    z = dict(np.load(path))
    num_slots, top_k, num_queries, max_life, num_entries, num_rows = map(int, z["config"])
    config = Config(num_rows, num_slots, top_k, num_queries, max_life)
    state, row_bytes = new_state(config), layout.state_row_bytes(num_slots)
    for t in range(len(z["topk"])):
        plan = Plan(config, num_entries)
        inputs = (z[name][t] for name in ("topk", "verified_len", "seq_len", "lease", "row"))
        reference.match(config, state, *inputs, plan)
        past_end = np.arange(num_queries * top_k) >= plan.num_misses[:, None]
        plan.miss_tokens[past_end] = plan.miss_slots[past_end] = -1
        np.testing.assert_array_equal(plan.num_misses, z["num_misses"][t], err_msg=f"step {t}")
        np.testing.assert_array_equal(plan.miss_tokens, z["miss_token"][t], err_msg=f"step {t}")
        np.testing.assert_array_equal(plan.miss_slots, z["miss_slot"][t], err_msg=f"step {t}")
        np.testing.assert_array_equal(plan.slots, z["slots"][t], err_msg=f"step {t}")
        np.testing.assert_array_equal(plan.counters, z["counters"][t], err_msg=f"step {t}")
        crcs = [zlib.crc32(row[:row_bytes].tobytes()) for row in state]
        assert crcs == z["state_crc32"][t].tolist(), f"step {t}"
    assert (state[:, row_bytes:] == 0xA5).all(), "the stride's padding is not the reference's"


# --- Laws: SPEC.md, "Consequences that tests must hold, as long as leases are kept"


class Shadow:
    """The device buffer as its reader sees it: which (token, version) each slot's bytes are.

    A token's version counts how often its host row was written; the oracle that a hit must agree with.
    """

    def __init__(self, config: Config) -> None:
        self.held: list[tuple[int, int] | None] = [None] * config.num_slots
        self.version: dict[int, int] = {}

    def write(self, tokens: range) -> None:
        for token in tokens:
            self.version[token] = self.version.get(token, 0) + 1

    def check(self, plan: Plan, topk_tokens: list[list[int]], limit: int) -> None:
        """Every slot of the step holds its token's newest row; slots differ where tokens differ."""
        misses = plan.misses()
        assert len({slot for _, slot in misses}) == len(misses), "a slot was given twice in one step"
        for token, slot in misses:
            self.held[slot] = (token, self.version.get(token, 0))
        promised: dict[int, int] = {}
        for g, query in enumerate(topk_tokens):
            valid = [x for x in query if 0 <= x < limit]
            slots = plan.slots[0, g].tolist()
            assert slots[len(valid) :] == [-1] * (len(query) - len(valid)), "OUTPUT: packed, then -1"
            for token, slot in zip(valid, slots):
                assert 0 <= slot < len(self.held)
                assert self.held[slot] == (token, self.version.get(token, 0)), (g, token, slot)
                assert promised.setdefault(slot, token) == token, "two tokens share a slot"


@st.composite
def traces(draw: st.DrawFn) -> tuple[Config, int, list[tuple[list[list[int]], int, int]]]:
    """A pool, a first length and steps (topk_tokens, accepted drafts, tokens taken back).

    Tokens come with padding, duplicates, bad ones, and aliases in the hash and in the fingerprint.
    """
    num_queries = draw(st.integers(1, 4))
    top_k = 8 * draw(st.integers(1, 2))
    fits = -(-num_queries * top_k // layout.SLOT_MULTIPLE) * layout.SLOT_MULTIPLE
    max_life = draw(st.sampled_from([1, 3, layout.MAX_LIFE]))
    config = Config(1, fits * draw(st.integers(1, 2)), top_k, num_queries, max_life)
    stride = draw(st.sampled_from([1, 1 << 8, 1 << 16]))
    span = draw(st.sampled_from([12, 40, 300]))
    token = st.one_of(
        st.integers(0, span).map(lambda x: x * stride), st.sampled_from([-1, layout.MAX_TOKENS])
    )
    query = st.lists(token, min_size=top_k, max_size=top_k)
    queries = st.lists(query, min_size=num_queries, max_size=num_queries)
    taken_back = st.sampled_from([0, 0, 0, 1, 2, 7])
    steps = st.lists(st.tuples(queries, st.integers(0, 3), taken_back), min_size=1, max_size=25)
    return config, draw(st.sampled_from([1, 20, layout.MAX_TOKENS // 4])), draw(steps)


@settings(max_examples=150, deadline=None)
@given(traces())
def test_no_slot_ever_holds_another_or_an_older_row(case: tuple) -> None:
    """No hit returns another token's row nor one older than the host's; slots survive to the step's end.

    Each step rewrites the host rows of its queries, drafts included. Taking committed tokens back means to
    compute them again, so the lease is renewed (SPEC.md, "Leases").
    """
    config, length, steps = case
    state, shadow, lease = new_state(config), Shadow(config), 1
    for topk_tokens, accepted, taken_back in steps:
        if taken_back:
            length, lease = max(length - taken_back, 0), lease + 1
        seq_len = length + config.num_queries
        shadow.write(range(length, seq_len))
        selected = [[length + g, max(length - 1, 0), *query[2:]] for g, query in enumerate(topk_tokens)]
        plan = step(config, state, selected, length + 1, seq_len, lease)
        shadow.check(plan, selected, seq_len)
        length += 1 + min(accepted, config.num_queries - 1)


def test_first_rewritten_token_is_served_stale_unless_the_lease_is_renewed() -> None:
    """OPEN drops tokens >= V only, and V counts the step's first query: a roll back needs a new lease.

    Tokens 0..19 are final, the sequence goes back to 15, and a step with V = 16 computes token 15 again.
    """
    config = Config(1, 64, 8)
    query = [pad([14, 15, 16], 8)]
    for lease, expected in ((1, []), (2, [14, 15])):
        state = new_state(config)
        step(config, state, query, 20, 20, lease=1)
        plan = step(config, state, query, 16, 16, lease)
        assert [token for token, _ in plan.misses()] == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([(64, 8, 8), (64, 16, 4), (64, 64, 1), (128, 32, 4)]))
def test_exact_fit_works(seed: int, sizes: tuple[int, int, int]) -> None:
    """Q*K == S: all slots are promised in one step, and every token still gets its own."""
    num_slots, top_k, num_queries = sizes
    config, rng = Config(1, num_slots, top_k, num_queries), np.random.default_rng(seed)
    state, shadow = new_state(config), Shadow(config)
    for _ in range(8):
        tokens = rng.choice(4 * num_slots, num_slots, replace=False).reshape(num_queries, top_k).tolist()
        plan = step(config, state, tokens, 4096, 4096)
        shadow.check(plan, tokens, 4096)
        assert sorted(plan.slots.ravel().tolist()) == list(range(num_slots))


def test_all_miss_then_all_hit() -> None:
    config = Config(1, 128, 32)
    state, tokens = new_state(config), [list(range(100, 132))]
    first, second = (step(config, state, tokens, 200, 200) for _ in range(2))
    assert first.misses() == [(100 + k, k) for k in range(32)]
    assert first.counters[0].tolist() == [32, 0, 32, 0, 0, 0, 0, layout.FLAG_RESET]
    assert second.misses() == []
    assert second.counters[0].tolist() == [32, 32, 0, 0, 0, 0, 0, 0]
    assert second.slots[0, 0].tolist() == list(range(32))


def test_all_padding_gives_no_slots_and_costs_one_step() -> None:
    config = Config(1, 64, 16, 2)
    state = new_state(config)
    plan = step(config, state, [[-1] * 16, [-(2**31)] * 16], 5, 6)
    assert (plan.slots == -1).all() and plan.num_misses[0] == 0
    assert plan.counters[0].tolist() == [0] * 7 + [layout.FLAG_RESET]
    assert layout.state_views(64, state[0])[0][:8].tolist() == [layout.MAGIC, 1, 1, 1, 0, 5, 0, 64]


def test_token_at_limit_is_bad_and_gets_no_slot() -> None:
    """PROBE: x >= limit is counted, flag 16, no slot; the valid ones stay packed."""
    config = Config(1, 64, 8)
    plan = step(config, new_state(config), [pad([9, 10, 11, 3], 8)], 10, 10)
    assert plan.misses() == [(9, 0), (3, 1)]
    assert plan.slots[0, 0].tolist() == [0, 1] + [-1] * 6
    assert plan.counter(layout.COUNTER_BAD_TOKENS) == 2
    assert plan.counter(layout.COUNTER_FLAGS) == layout.FLAG_RESET | layout.FLAG_BAD_TOKEN


def test_draft_is_forgotten_at_close() -> None:
    """CLOSE: a plan entry with x >= V leaves the row, x = V - 1 stays."""
    config = Config(1, 64, 8, 2)
    state = new_state(config)
    first = step(config, state, [pad([19], 8), pad([19, 20], 8)], 20, 21)
    assert [token for token, _ in first.misses()] == [19, 20]
    assert first.counter(layout.COUNTER_INVALIDATED) == 1
    second = step(config, state, [pad([19, 20], 8)], 21, 21)
    assert [token for token, _ in second.misses()] == [20]


def test_rolled_back_tokens_are_forgotten_at_open() -> None:
    """OPEN: V < high drops every token >= V."""
    config = Config(1, 64, 8)
    state = new_state(config)
    step(config, state, [pad([5, 6, 7], 8)], 10, 10)
    plan = step(config, state, [pad([5, 6], 8)], 6, 7)
    assert plan.counter(layout.COUNTER_INVALIDATED) == 2 + 1
    assert [token for token, _ in plan.misses()] == [6]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (layout.HEADER_MAGIC, 1),
        (layout.HEADER_VERSION, 2),
        (layout.HEADER_LEASE, 2),
        (layout.HEADER_STEP, layout.MAX_STEP),
        (layout.HEADER_STEP, -1),
        (layout.HEADER_FLOOR, -1),
        (layout.HEADER_FLOOR, 2),
        (layout.HEADER_POISON, 1),
        (layout.HEADER_SLOTS, 128),
    ],
)
def test_wrong_header_resets_the_row(word: int, value: int) -> None:
    """OPEN; a header no step can have left (step < 0, floor < 0, floor > step) is a wrong one too."""
    config = Config(1, 64, 8)
    state = new_state(config)
    step(config, state, [pad([5], 8)], 10, 10)
    layout.state_views(64, state[0])[0][word] = value
    plan = step(config, state, [pad([5], 8)], 10, 10)
    assert plan.counter(layout.COUNTER_FLAGS) == layout.FLAG_RESET
    assert plan.misses() == [(5, 0)]


def test_inactive_entries_leave_no_trace() -> None:
    """Row < 0, a row outside the pool (flag 4), a row named twice (flag 8): slots -1, state untouched."""
    config = Config(2, 64, 8)
    state, plan = new_state(config), Plan(config, 5)
    tokens = np.tile(np.arange(8, dtype=np.int32), (5, 1, 1))
    lengths, rows = np.full(5, 8, dtype=np.int32), np.array([1, -1, 2, 1, -(2**31)], dtype=np.int32)
    reference.match(config, state, tokens, lengths, lengths, lengths, rows, plan)
    assert plan.num_misses.tolist() == [8, 0, 0, 0, 0]
    assert plan.rows.tolist() == [1, -1, -1, -1, -1]
    assert (plan.slots[1:] == -1).all()
    assert not plan.counters[1:, :7].any()
    assert plan.counters[:, 7].tolist() == [
        1,
        0,
        layout.FLAG_ROW_OUT_OF_RANGE,
        layout.FLAG_ROW_NAMED_TWICE,
        0,
    ]
    assert not state[0, : layout.state_row_bytes(64)].any()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.02, 1.0]), st.booleans())
def test_corrupt_state_stays_inside_the_buffer(seed: int, damage: float, keep_header: bool) -> None:
    """Whatever the state holds, slots stay in [0, S) and no index leaves the arrays."""
    config, rng = Config(1, 64, 16, 4), np.random.default_rng(seed)
    state = new_state(config)
    for _ in range(4):
        tokens = rng.integers(-3, 400, (4, 16))
        plan = step(config, state, tokens, *rng.integers(-5, 420, 2))
        assert ((plan.slots >= -1) & (plan.slots < 64)).all()
        assert all(0 <= slot < 64 for _, slot in plan.misses())
        header = layout.state_views(64, state[0])[0].copy()
        hit = rng.random(state.shape) < damage
        state[hit] = rng.integers(0, 256, np.count_nonzero(hit), dtype=np.uint8)
        if keep_header:
            layout.state_views(64, state[0])[0][:] = header


def test_third_pass_stamps_all_promised_slots() -> None:
    """COLLECT: pass 1 spares slot 0, pass 2 slot 1, pass 3 slot 2 and slot 3, which T never reached."""
    config = Config(1, 64, 8, 2)
    state, tokens = third_pass_state(config)
    plan = step(config, state, tokens, 1000, 1000)
    assert plan.misses() == [(900, 4)]
    assert plan.counters[0].tolist() == [5, 4, 1, 0, 0, 0, 100 - 5 - 36, layout.FLAG_PROMISED_STAMPED]
    stamps = layout.state_views(64, state[0])[2]
    assert stamps[:6].tolist() == [100, 100, 100, 100, 100 - 3, 95]
