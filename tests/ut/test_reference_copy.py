# SPDX-License-Identifier: Apache-2.0
"""reference.load and store: addresses, fresh rows, bad blocks, poison, counters (SPEC.md, Copy and Store)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avsg import layout, reference
from reference_case import POISON, Config, Plan, int32, new_state

BLOCK, NUM_BLOCKS, ROW_BYTES = 4, 8, 16
CONFIG = Config(3, 64, 8, 2)


def host_kv(row_bytes: int = ROW_BYTES) -> np.ndarray:
    """Host rows whose bytes name the row: row 5 is 5, 5, ..."""
    rows = np.arange(1, NUM_BLOCKS * BLOCK + 1, dtype=np.uint8)
    return np.repeat(rows[:, None], row_bytes, axis=1)


def device_kv(row_bytes: int = ROW_BYTES) -> np.ndarray:
    return np.full((CONFIG.num_rows * CONFIG.num_slots, row_bytes), 0xEE, dtype=np.uint8)


def make_plan(misses: list[list[tuple[int, int]]], rows: list[int], verified_lens: list[int]) -> Plan:
    plan = Plan(CONFIG, len(rows))
    plan.rows[:], plan.verified_lens[:] = rows, verified_lens
    for b, entry in enumerate(misses):
        plan.num_misses[b] = len(entry)
        for k, (token, slot) in enumerate(entry):
            plan.miss_tokens[b, k], plan.miss_slots[b, k] = token, slot
    return plan


def run_load(
    plan: Plan, table: object, fresh: np.ndarray | None = None
) -> tuple[np.ndarray, list[int], list[int]]:
    """Returns device_kv, the two counters and each row's poison."""
    state, device, counters = new_state(CONFIG), device_kv(), int32([POISON, POISON])
    payloads = [(host_kv(), device, fresh)]
    reference.load(CONFIG, state, plan, payloads, int32(table), BLOCK, NUM_BLOCKS, counters)
    poison = [layout.state_views(CONFIG.num_slots, row)[0][layout.HEADER_POISON] for row in state]
    return device, counters.tolist(), poison


def test_load_follows_the_block_table() -> None:
    """Token 5 of entry 1 is in block table[1, 1] = 6: host row 6*4+1, to device row 2*64+9."""
    plan = make_plan([[(0, 3)], [(5, 9), (2, 0)]], [0, 2], [9, 9])
    device, counters, poison = run_load(plan, [[7, 1], [2, 6]])
    expected = device_kv()
    expected[0 * 64 + 3] = 7 * 4 + 0 + 1
    expected[2 * 64 + 9] = 6 * 4 + 1 + 1
    expected[2 * 64 + 0] = 2 * 4 + 2 + 1
    np.testing.assert_array_equal(device, expected)
    assert counters == [3, 0] and poison == [0, 0, 0]


@pytest.mark.parametrize("block", [-1, NUM_BLOCKS, -(2**31), 2**31 - 1])
def test_bad_block_gives_zeros_and_poisons_the_row(block: int) -> None:
    plan = make_plan([[(0, 3), (4, 5)], [(1, 6)]], [1, 2], [9, 9])
    device, counters, poison = run_load(plan, [[1, block], [1, 1]])
    assert not device[64 + 5].any()
    assert (device[64 + 3] == 5).all() and (device[2 * 64 + 6] == 6).all()
    assert counters == [2, 1] and poison == [0, 1, 0]


def test_token_past_the_table_is_a_bad_block() -> None:
    plan = make_plan([[(8, 3)]], [1], [9])
    device, counters, poison = run_load(plan, [[1, 1]])
    assert not device[64 + 3].any()
    assert counters == [0, 1] and poison == [0, 1, 0]
    assert run_load(plan, np.zeros((1, 0)))[1] == [0, 1]


def test_own_rows_come_from_fresh_whatever_the_block_table_says() -> None:
    """f = token - (V - 1); Q = 2: V = 9 takes tokens 8 and 9 from fresh, 7 and 10 from the host."""
    fresh = np.arange(100, 104, dtype=np.uint8).reshape(2, 2, 1).repeat(ROW_BYTES, axis=2)
    plan = make_plan([[], [(7, 0), (8, 1), (9, 2), (10, 3)]], [0, 1], [0, 9])
    device, counters, poison = run_load(plan, [[0, 0, 0], [0, 5, -1]], fresh)
    assert device[64 : 64 + 5, 0].tolist() == [5 * 4 + 3 + 1, 102, 103, 0, 0xEE]
    assert counters == [3, 1] and poison == [0, 1, 0]


def test_no_token_is_fresh_without_a_verified_one() -> None:
    """V >= 1 is asked for: with V = 0, token 0 would be f = 1."""
    fresh = np.full((1, 2, ROW_BYTES), 99, dtype=np.uint8)
    device, _, _ = run_load(make_plan([[(0, 0)]], [0], [0]), [[3]], fresh)
    assert (device[0] == 3 * 4 + 1).all()


def test_all_payloads_are_copied_and_counted_once() -> None:
    state, counters, plan = new_state(CONFIG), int32([POISON] * 2), make_plan([[(1, 2), (5, 3)]], [0], [9])
    pairs = [(host_kv(width), device_kv(width), None) for width in (16, 48, 32)]
    reference.load(CONFIG, state, plan, pairs, int32([[0, -1]]), BLOCK, NUM_BLOCKS, counters)
    for _, device, _ in pairs:
        assert (device[2] == 2).all() and not device[3].any() and (device[4] == 0xEE).all()
    assert counters.tolist() == [1, 1]


def test_impossible_plan_entries_are_skipped_and_poison() -> None:
    """A token or slot that no match can have written is not copied at all, and counts as a bad block."""
    for miss in [(-1, 3), (layout.MAX_TOKENS, 3), (1, -1), (1, 64), (2**31 - 1, -(2**31))]:
        device, counters, poison = run_load(make_plan([[(0, 0), miss]], [1], [9]), [[1, 1]])
        assert (device[64] == 5).all() and np.count_nonzero(device != 0xEE) == ROW_BYTES
        assert counters == [1, 1] and poison == [0, 1, 0]


def test_rows_and_counts_outside_the_pool_are_bounded() -> None:
    """A row outside the pool makes the entry inactive; num_misses counts within [0, Q*K]."""
    plan = make_plan([[(0, 0)]] * 5, [-1, 3, 0, 1, 2], [9] * 5)
    plan.num_misses[:] = [1, 1, -4, 2**31 - 1, 1]
    plan.miss_tokens[3], plan.miss_slots[3] = 0, np.arange(16)
    device, counters, poison = run_load(plan, [[1]] * 5)
    assert counters == [17, 0] and poison == [0, 0, 0]
    assert np.count_nonzero(device[:, 0] != 0xEE) == 17


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_plan_stays_inside_the_memory(seed: int) -> None:
    """Arbitrary plans and tables: each listed miss of an active entry is copied or counted as bad."""
    rng = np.random.default_rng(seed)
    plan = Plan(CONFIG, 3)
    for name in ("miss_tokens", "miss_slots", "num_misses", "rows", "verified_lens"):
        array = getattr(plan, name)
        array[...] = rng.choice([-(2**31), -1, 0, 1, 2, 5, 40, 63, 64, 2**20, 2**31 - 1], array.shape)
    table = rng.choice([-(2**31), -1, 0, 1, 7, 8, 2**31 - 1], (3, 5))
    fresh = np.full((3, 2, ROW_BYTES), 99, dtype=np.uint8) if seed % 2 else None
    _, counters, _ = run_load(plan, table, fresh)
    active = (plan.rows >= 0) & (plan.rows < CONFIG.num_rows)
    assert sum(counters) == np.clip(plan.num_misses, 0, 16)[active].sum()


def run_store(positions: object, entries: object, table: object) -> tuple[np.ndarray, list[int]]:
    """Stores rows 200, 201, ...; returns host_kv and the counters."""
    host, counters = host_kv(), int32([POISON, POISON])
    new_rows = np.arange(200, 200 + len(positions), dtype=np.uint8)[:, None].repeat(ROW_BYTES, axis=1)
    sizes = (int32(table), BLOCK, NUM_BLOCKS, counters)
    reference.store(CONFIG, [(host, new_rows)], int32(positions), int32(entries), *sizes)
    return host, counters.tolist()


def test_store_follows_the_block_table_and_skips_what_it_must() -> None:
    positions = [0, 6, -1, layout.MAX_TOKENS, 1, 1, 1, 8, 4]
    entries = [0, 1, 0, 0, -1, 2, -(2**31), 0, 0]
    host, counters = run_store(positions, entries, [[2, -1], [0, 7]])
    expected = host_kv()
    expected[2 * 4 + 0], expected[7 * 4 + 2] = 200, 201
    np.testing.assert_array_equal(host, expected)
    assert counters == [2, 7]


def test_store_of_one_position_twice_keeps_the_highest_index() -> None:
    host, counters = run_store([3] * 40, [0] * 40, [[1]])
    assert (host[7] == 239).all()
    assert counters == [40, 0]


def test_stored_rows_are_what_load_returns() -> None:
    host, counters, device = host_kv(), int32([0, 0]), device_kv()
    new_rows = np.random.default_rng(5).integers(0, 256, (2, ROW_BYTES), dtype=np.uint8)
    table = int32([[3, 0]])
    reference.store(
        CONFIG, [(host, new_rows)], int32([2, 5]), int32([0, 0]), table, BLOCK, NUM_BLOCKS, counters
    )
    plan = make_plan([[(5, 11), (2, 12)]], [0], [6])
    payloads = [(host, device, None)]
    reference.load(CONFIG, new_state(CONFIG), plan, payloads, table, BLOCK, NUM_BLOCKS, counters)
    np.testing.assert_array_equal(device[[12, 11]], new_rows)


@pytest.mark.parametrize("num_cores", [1, 2, 7, 48])
@pytest.mark.parametrize("n", [0, 1, 47, 48, 1000])
def test_core_shares_cover_the_list_and_differ_by_one_at_most(n: int, num_cores: int) -> None:
    shares = [reference.core_share(n, num_cores, core) for core in range(num_cores)]
    assert [k for share in shares for k in share] == list(range(n))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert [share.start for share in shares] == [core * n // num_cores for core in range(num_cores)]
