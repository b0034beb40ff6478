# SPDX-License-Identifier: Apache-2.0
"""Wrong values are refused by name before anything changes, and left to the library with check=False."""

import dataclasses

import numpy as np
import pytest

import avsg
from pool_case import MAX_BLOCKS, NUM_BLOCKS, PoolCase, config, int32, refused, spoil


def with_value(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


# case: (call, argument, bad value, error, words of the sentence)
# fmt: off
VALUES = {
    "row past the pool": ("match", "rows", lambda c: int32(0, 3), ValueError, "rows[1] is 3 0 to 2"),
    "one row twice": ("step", "rows", lambda c: int32(1, 1), ValueError, "rows[1] is 1 rows[0] once"),
    "negative seq_len": ("match", "seq_lens", lambda c: int32(18, -1), ValueError,
        "seq_lens[1] is -1 0 or more"),
    "seq_len above MAX_TOKENS": ("match", "seq_lens", lambda c: int32(2**20 + 1, 18), ValueError,
        "seq_lens[0] is 1048577 MAX_TOKENS = 1048576"),
    "negative verified_len": ("match", "verified_lens", lambda c: int32(-2, 1), ValueError,
        "verified_lens[0] is -2"),
    "seq_len below verified_len": ("step", "verified_lens", lambda c: int32(17, 19), ValueError,
        "verified_lens[1] is 19 at most seq_len"),
    "token at seq_len": ("match", "topk_tokens", lambda c: with_value(c.topk_tokens, (1, 0, 3), 18),
        ValueError, "topk_tokens[1, 0, 3] is 18 below seq_len"),
    "plan row past the pool": ("load", "plan", lambda c: spoil(c.plan, rows=int32(0, 3)), ValueError,
        "plan.rows[1] is 3 at most 2"),
    "plan with too many misses": ("load", "plan", lambda c: spoil(c.plan, num_misses=int32(17, 0)),
        ValueError, "plan.num_misses[0] is 17 0 to 16"),
    "plan with a negative token": ("load", "plan",
        lambda c: spoil(c.plan, miss_tokens=with_value(c.plan.miss_tokens, (0, 0), -1)), ValueError,
        "plan.miss_tokens[0, 0] is -1"),
    "plan with a slot past S": ("load", "plan",
        lambda c: spoil(c.plan, miss_slots=with_value(c.plan.miss_slots, (1, 0), 64)), ValueError,
        "plan.miss_slots[1, 0] is 64 0 to 63"),
    "negative block of a miss": ("load", "block_table", lambda c: np.full_like(c.block_table, -1), ValueError,
        "block_table[0, is -1 0 to 47"),
    "block past a short host_kv": ("load", "host_kv", lambda c: [h[:1].copy() for h in c.host_kv], ValueError,
        "block_table[0, host_kv has 1 blocks"),
    "block of a step past host_kv": ("step", "block_table", lambda c: np.full_like(c.block_table, NUM_BLOCKS),
        ValueError, "block_table[0, is 48 0 to 47"),
    "table too narrow": ("step", "block_table", lambda c: c.block_table[:, : MAX_BLOCKS - 3].copy(),
        ValueError, "token of batch entry max_blocks = 2"),
    "entry past the batch": ("store", "entries", lambda c: int32(0, 0, 2, -1), ValueError,
        "entries[2] is 2 0 to 1 -1"),
    "entry below -1": ("store", "entries", lambda c: int32(0, 0, -2, -1), ValueError, "entries[2] is -2"),
    "negative position": ("store", "positions", lambda c: int32(16, -1, 16, 17), ValueError,
        "positions[1] is -1"),
    "position at MAX_TOKENS": ("store", "positions", lambda c: int32(16, 2**20, 16, 17), ValueError,
        "positions[1] is 1048576 0 to 1048575"),
    "position past the table": ("store", "positions", lambda c: int32(16, 20, 16, 17), ValueError,
        "token 20 of batch entry 0 max_blocks = 5"),
    "one place twice": ("store", "positions", lambda c: int32(16, 16, 16, 17), ValueError,
        "positions[1] = 16 positions[0] one new row"),
    "store to a bad block": ("store", "block_table", lambda c: np.full_like(c.block_table, -1), ValueError,
        "block_table[0, 4] is -1"),
}
# fmt: on


@pytest.fixture
def case():
    return PoolCase()


@pytest.mark.parametrize("what", VALUES)
def test_wrong_value_is_refused_by_name_and_left_to_the_library_unchecked(case, what):
    call, name, make, error, words = VALUES[what]
    arguments = refused(case, call, name, make, error, words)
    getattr(case.pool, call)(**arguments, check=False)


CONFIGS = {
    "num_rows": (0, "num_rows 0 1 to"),
    "num_slots": (100, "num_slots 100 multiple of 64 128"),
    "num_slots above the limit": (65472, "num_slots 65472 65408"),
    "top_k": (12, "top_k 12 multiple of 8 16"),
    "top_k zero": (0, "top_k 0 1 to"),
    "num_queries": (0, "num_queries 0"),
    "num_queries times top_k": (9, "num_queries * top_k 9 * 8 = 72 num_slots = 64"),
    "max_life": (2001, "max_life 2001 1 to 2000"),
    "max_life zero": (0, "max_life 0"),
}


@pytest.mark.parametrize("what", CONFIGS)
def test_wrong_config_is_refused_in_a_sentence(what):
    value, words = CONFIGS[what]
    with pytest.raises(ValueError) as caught:
        config(**{what.split()[0]: value})
    assert all(word in str(caught.value) for word in words.split()), caught.value


@pytest.mark.parametrize("value", [8.0, "8", True, None])
def test_config_takes_whole_numbers_only(value):
    with pytest.raises(TypeError, match="top_k is .*whole number"):
        config(top_k=value)


def test_config_cannot_change_and_takes_numpy_integers():
    made = config(top_k=np.int64(16))
    assert type(made.top_k) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.top_k = 8


@pytest.mark.parametrize("num_cores", [-1, 65, 2.0, True])
def test_wrong_num_cores_is_refused(num_cores):
    with pytest.raises(ValueError, match="num_cores is .* 0 \\(all\\) to 64"):
        avsg.Pool(config(), library="reference", num_cores=num_cores)


def test_pool_wants_a_config():
    with pytest.raises(TypeError, match="config is a dict.*PoolConfig"):
        avsg.Pool({"num_rows": 1}, library="reference")


@pytest.mark.parametrize(
    "rows, error", [(3, ValueError), ([0, -1], ValueError), ("0", TypeError), (1.0, TypeError)]
)
def test_reset_refuses_rows_outside_the_pool(case, rows, error):
    before = case.memory()
    with pytest.raises(error, match="rows is"):
        case.pool.reset(rows)
    assert case.memory() == before
