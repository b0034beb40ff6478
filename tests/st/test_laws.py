# SPDX-License-Identifier: Apache-2.0
"""Laws that conformance vectors and random traces seldom reach, one small step each, on every library."""

import numpy as np
import pytest
from decode_loop import LIBRARIES

import avsg
from avsg import layout
from reference_case import third_pass_state

POISON = -77
ROW_BYTES = 16


def lines(verified_lens, seq_lens, rows):
    """The words of each batch entry; every lease is 1."""
    arrays = {"verified_lens": verified_lens, "seq_lens": seq_lens, "rows": rows, "leases": [1] * len(rows)}
    return {name: np.array(values, np.int32) for name, values in arrays.items()}


def poisoned_plan(num_entries, num_queries, top_k):
    plan = avsg.Plan.empty(num_entries, num_queries, top_k)
    for array in vars(plan).values():
        array.fill(POISON)
    return plan


def header(pool, row):
    return layout.state_views(pool.config.num_slots, pool.state[row])[0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_third_pass_stamps_all_promised_slots(library):
    """COLLECT: passes 1 to 3 spare slots 0 to 2, and the third slot 3 too, which T never reached."""
    config = avsg.PoolConfig(num_rows=1, num_slots=64, top_k=8, num_queries=2)
    state, tokens = third_pass_state(config)
    pool = avsg.Pool(config, library=library)
    pool.state[:] = state
    plan = poisoned_plan(1, 2, 8)
    pool.match(tokens[None], out=plan, **lines([1000], [1000], [0]))
    assert plan.slots.tolist() == [[[0, 1, 2, 3, -1, -1, -1, -1], [4, -1, -1, -1, -1, -1, -1, -1]]]
    assert (plan.miss_tokens[0, 0], plan.miss_slots[0, 0], plan.num_misses[0]) == (900, 4, 1)
    assert plan.counters.tolist() == [[5, 4, 1, 0, 0, 0, 100 - 5 - 36, layout.FLAG_PROMISED_STAMPED]]
    slot_stamp = layout.state_views(64, pool.state[0])[2]
    assert slot_stamp[:4].tolist() == [100] * 4
    assert slot_stamp[4] == 100 - 3 and (slot_stamp[5:64] == 95).all()
    assert header(pool, 0)[layout.HEADER_STEP] == 100 and header(pool, 0)[layout.HEADER_FLOOR] == 95


@pytest.mark.parametrize("library", LIBRARIES)
def test_hits_move_towards_now_and_no_other_slot_does(library):
    """REFRESH of 704 slots in a step, so many that a chip marks them by sorting; 320 others are as old."""
    num_slots, top_k = 1024, 704
    pool = avsg.Pool(avsg.PoolConfig(1, num_slots, top_k), library=library)
    words = lines([num_slots], [num_slots], [0])
    hit = np.arange(top_k, dtype=np.int32)[None, None]
    pool.match(hit, **words)
    pool.match(hit + (num_slots - top_k), **words)
    _, slot_token, slot_stamp, _ = layout.state_views(num_slots, pool.state[0])
    assert sorted(slot_token[:num_slots].tolist()) == list(range(num_slots))
    for step in range(3, 9):
        age = step - slot_stamp[:num_slots].astype(int)
        lag = min(max(step >> 2, layout.LAG_MIN_SMALL), layout.LAG_MAX)
        moved = np.maximum(step - np.maximum(age - (age >> 2) - lag + 1, 0), max(step - (3 * step >> 2), 1))
        is_hit = (slot_token[:num_slots] < top_k) & (age >= lag)
        expected = np.where(is_hit, moved, slot_stamp[:num_slots])
        plan = pool.match(hit, **words)
        missed = np.isin(slot_token[:num_slots], plan.miss_tokens[0, : plan.num_misses[0]])
        np.testing.assert_array_equal(slot_stamp[:num_slots][~missed], expected[~missed], f"step {step}")
        assert is_hit.sum() >= 640, "fewer are written slot by slot"


@pytest.mark.parametrize("library", LIBRARIES)
def test_only_tokens_from_zero_to_limit_get_slots(library):
    """PROBE: 0 and limit - 1 are tokens, -1 is padding, limit is a bad token: counted, flag 16, no slot."""
    pool = avsg.Pool(avsg.PoolConfig(1, 64, 8), library=library)
    plan = poisoned_plan(1, 1, 8)
    topk = np.array([[[20, -1, 19, -(2**31), 0, 2**31 - 1, -1, -1]]], np.int32)
    pool.match(topk, out=plan, check=False, **lines([20], [20], [0]))
    assert plan.slots[0, 0].tolist() == [0, 1, -1, -1, -1, -1, -1, -1]
    assert plan.num_misses[0] == 2 and plan.miss_tokens[0, :2].tolist() == [19, 0]
    assert plan.counters[0].tolist() == [2, 0, 2, 2, 0, 0, 0, layout.FLAG_RESET | layout.FLAG_BAD_TOKEN]


@pytest.mark.parametrize("library", LIBRARIES)
def test_entry_that_names_a_row_again_is_inactive(library):
    """Flag 8: slots -1, no misses, state untouched; the rows between may be anything."""
    pool = avsg.Pool(avsg.PoolConfig(2, 64, 8), library=library, num_cores=3)
    plan = poisoned_plan(4, 1, 8)
    topk = np.arange(32, dtype=np.int32).reshape(4, 1, 8)
    pool.match(topk, out=plan, check=False, **lines([32] * 4, [32] * 4, [1, -1, 0, 1]))
    assert plan.num_misses.tolist() == [8, 0, 8, 0] and plan.rows.tolist() == [1, -1, 0, -1]
    assert plan.counters[:, layout.COUNTER_FLAGS].tolist() == [1, 0, 1, layout.FLAG_ROW_NAMED_TWICE]
    assert (plan.slots[3] == -1).all() and not plan.counters[3, :7].any()
    assert layout.state_views(64, pool.state[1])[1][:8].tolist() == list(range(8))


@pytest.mark.parametrize("num_cores", [1, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_poison_of_a_load_survives_the_write_back_of_its_step(library, num_cores):
    """Copy: a bad block sets header[6] to 1, also when match writes the state back after that."""
    pool = avsg.Pool(avsg.PoolConfig(2, 64, 8), library=library, num_cores=num_cores)
    host = np.arange(4 * 16 * ROW_BYTES, dtype=np.uint8).reshape(4, 16, ROW_BYTES)
    device = np.full((2 * 64, ROW_BYTES), 0xEE, np.uint8)
    plan = poisoned_plan(2, 1, 8)
    topk = np.arange(16, dtype=np.int32).reshape(2, 1, 8)
    table = np.array([[2], [4]], np.int32)
    pool.step(
        topk, [host], [device], block_table=table, out=plan, check=False, **lines([16, 16], [16, 16], [1, 0])
    )
    assert [header(pool, row)[layout.HEADER_POISON] for row in (0, 1)] == [1, 0]
    assert [header(pool, row)[layout.HEADER_STEP] for row in (0, 1)] == [1, 1]
    np.testing.assert_array_equal(device[64 + plan.slots[0, 0]], host[2, :8])
    assert not device[plan.slots[1, 0]].any()


@pytest.mark.parametrize("num_cores", [1, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_highest_index_wins_a_position_that_is_stored_twice(library, num_cores):
    """Store: whichever core has which row; all count as stored, and another entry is another place."""
    pool = avsg.Pool(avsg.PoolConfig(1, 64, 8), library=library, num_cores=num_cores)
    host = np.zeros((4, 16, ROW_BYTES), np.uint8)
    positions = np.array([3, 3, 5, 3, 3, 5, 3, 9], np.int32)
    entries = np.array([0, 1, 0, 0, 1, 0, 0, 1], np.int32)
    new_rows = np.repeat(np.arange(100, 108, dtype=np.uint8)[:, None], ROW_BYTES, axis=1)
    table = np.array([[2], [0]], np.int32)
    stored = pool.store(
        [new_rows], [host], positions=positions, entries=entries, block_table=table, check=False
    )
    expected = np.zeros_like(host)
    expected[2, 3], expected[0, 3], expected[2, 5], expected[0, 9] = 106, 104, 105, 107
    np.testing.assert_array_equal(host, expected)
    assert list(stored) == [8, 0]


@pytest.mark.parametrize("num_cores", [1, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_highest_index_wins_where_a_long_rising_list_repeats_one_position_late(library, num_cores):
    """Store: positions rise over three search tiles, also from entry to entry, but for the last row."""
    num_rows = 1301
    pool = avsg.Pool(avsg.PoolConfig(1, 64, 8), library=library, num_cores=num_cores)
    host = np.zeros((100, 16, ROW_BYTES), np.uint8)
    entries = (np.arange(num_rows) >= 700).astype(np.int32)
    positions = (np.arange(num_rows) - 700 * entries).astype(np.int32)
    entries[-1], positions[-1] = 0, 3
    new_rows = np.repeat((np.arange(num_rows) % 251).astype(np.uint8)[:, None], ROW_BYTES, axis=1)
    table = np.random.default_rng(5).permutation(100).reshape(2, 50).astype(np.int32)
    stored = pool.store(
        [new_rows], [host], positions=positions, entries=entries, block_table=table, check=False
    )
    read = host[table[entries, positions // 16], positions % 16]
    expected = new_rows.copy()
    expected[3] = new_rows[-1]
    np.testing.assert_array_equal(read, expected)
    assert list(stored) == [num_rows, 0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_damaged_stamps_count_as_numbers_up_to_the_last_step(library):
    """Whatever a row's stamps hold, COLLECT ends: below 0 is 0, and NaN or too large is the last step."""
    pool = avsg.Pool(avsg.PoolConfig(1, 64, 8), library=library)
    words = lines([100], [100], [0])
    pool.match(np.arange(8, dtype=np.int32)[None, None], **words)
    header(pool, 0)[layout.HEADER_STEP] = 9
    slot_stamp = layout.state_views(64, pool.state[0])[2]
    damage = [np.nan, -np.nan, np.inf, -np.inf, 10, 2**24, -5, 9]
    slot_stamp[:64] = np.tile(np.array(damage, np.float32), 8)
    plan = pool.match(np.arange(50, 58, dtype=np.int32)[None, None], **words)
    assert plan.miss_slots[0, : plan.num_misses[0]].tolist() == [1, 3, 6, 9, 11, 14, 17, 19]
    old = np.tile(np.array([9, 0, 9, 0, 9, 9, 0, 9], np.float32), 8)
    old[plan.miss_slots[0]] = 10  # all missed, so they start at now
    np.testing.assert_array_equal(slot_stamp[:64], old)


@pytest.mark.parametrize("num_cores", [1, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_plans_that_no_match_can_have_written_poison_every_row_they_name(library, num_cores):
    """Copy: tokens and slots out of range are counted, copied nowhere, and cost each row its state."""
    pool = avsg.Pool(avsg.PoolConfig(3, 64, 8), library=library, num_cores=num_cores)
    host, device = np.zeros((4, 16, ROW_BYTES), np.uint8), np.full((3 * 64, ROW_BYTES), 0xEE, np.uint8)
    plan = avsg.Plan.empty(4, 1, 8)
    plan.rows[:], plan.num_misses[:] = [0, 1, -1, 2], 2
    plan.miss_tokens[:], plan.miss_slots[:] = 5, 64
    plan.miss_tokens[1], plan.miss_slots[1] = -1, 3
    table = np.zeros((4, 1), np.int32)
    assert pool.load(plan, [host], [device], block_table=table, check=False) == (0, 6)
    assert [header(pool, row)[layout.HEADER_POISON] for row in range(3)] == [1, 1, 1]
    assert (device == 0xEE).all()
