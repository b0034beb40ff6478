# SPDX-License-Identifier: Apache-2.0
"""The pool is invisible: device_kv read through the slots equals host_kv, byte for byte (DESIGN.md)."""

import numpy as np
import pytest
from decode_loop import LIBRARIES, Engine

import avsg
from avsg import layout

BF16_PAIR = (1024, 128)  # nope and rope rows of 512 and 64 bf16 items
SHAPES = {
    "one payload": (32,),
    "bf16 pair": BF16_PAIR,
    "656-byte row": (656,),
    "four payloads": (16, 48, 656, 128),
}


def admit_all(engine: Engine, prompt_len: int = 60) -> None:
    while len(engine.table) < engine.table.capacity:
        engine.admit(int(engine.rng.integers(1, prompt_len)))


def turn_over(engine: Engine) -> None:
    """Now and then a sequence ends; free rows are taken at once, under new leases."""
    if engine.sequences and engine.rng.random() < 0.15:
        engine.finish(engine.sequences[int(engine.rng.integers(len(engine.sequences)))])
    admit_all(engine)


def run(engine: Engine, num_steps: int, seed: int, **options) -> None:
    """Steps with admissions and releases in between; every row that attention reads equals the host's."""
    for t in range(num_steps):
        turn_over(engine)
        for read in engine.step(engine.batch(), **options):
            wrong = read.wrong()
            assert not len(wrong), (
                f"seed {seed}, step {t}, sequence {read.sequence.name}: tokens {wrong} differ"
            )


@pytest.mark.parametrize("fresh", [False, True], ids=["host", "fresh"])
@pytest.mark.parametrize("fused", [False, True], ids=["match+load", "step"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_attention_reads_the_hosts_rows(library, shape, fused, fresh):
    engine = Engine(library, seed=11, row_bytes=SHAPES[shape])
    run(engine, 60, 11, fused=fused, fresh=fresh)
    stats = engine.pool.stats()
    assert stats.hits > stats.misses > 0, "the trace must exercise both"
    assert stats.bytes_copied == stats.rows_copied * sum(SHAPES[shape]) and stats.bad_blocks == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_exact_fit_of_all_queries_is_invisible(library):
    config = avsg.PoolConfig(num_rows=2, num_slots=128, top_k=32, num_queries=4)
    engine = Engine(library, seed=12, config=config)
    run(engine, 60, 12, num_queries=4)


@pytest.mark.parametrize("fused", [False, True], ids=["match+load", "step"])
@pytest.mark.parametrize("fresh", [False, True], ids=["host", "fresh"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_group_of_four_layers_shares_one_plan(library, fresh, fused):
    engine = Engine(library, seed=13, num_layers=4, row_bytes=(32, 16))
    run(engine, 40, 13, fresh=fresh, fused=fused)


@pytest.mark.parametrize("bad_block", [-1, "one past the last"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_bad_block_gives_zeros_poisons_and_the_next_step_resets(library, bad_block):
    engine = Engine(library, seed=14, row_bytes=BF16_PAIR)
    bad = -1 if bad_block == -1 else engine.num_blocks
    seen_zeros = 0
    for t in range(60):
        turn_over(engine)
        broken = t % 3 == 1
        batch = engine.batch()
        before = engine.pool.stats()
        reads = engine.step(batch, bad_block=bad if broken else None)
        counted = engine.pool.stats().bad_blocks - before.bad_blocks
        in_bad_block = 0
        for read in reads:
            wrong = read.wrong()
            assert broken or not len(wrong), f"seed 14, step {t}: tokens {wrong} differ"
            assert (wrong < engine.block_size).all(), "only tokens of the bad block may differ"
            for rows in read.device[0]:
                assert not rows[np.isin(read.tokens, wrong)].any(), (
                    "a bad block's rows are zeros in every payload"
                )
            in_bad_block += len(wrong)
        seen_zeros += in_bad_block
        assert (counted > 0) == (in_bad_block > 0)
        poisoned = engine.pool.state[:, : layout.slot_token_offset()].view(np.int32)[:, layout.HEADER_POISON]
        bad_rows = misses_in_first_block(engine)
        for i, row in enumerate(engine.plan.rows):
            if row >= 0:
                assert poisoned[row] == (broken and bad_rows[i]), f"step {t}, row {row}"
        if broken and poisoned.any():  # the very next step of a poisoned row starts from a reset
            engine.step([s for s in engine.sequences if poisoned[engine.table[s.name].row]])
            flags = engine.plan.counters[:, layout.COUNTER_FLAGS]
            assert (flags & layout.FLAG_RESET).all()
    assert seen_zeros > 20


def misses_in_first_block(engine: Engine) -> list[bool]:
    plan = engine.plan
    return [bool((plan.miss_tokens[i, :n] < engine.block_size).any()) for i, n in enumerate(plan.num_misses)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_host_kv_and_device_kv_beyond_two_gib(library):
    """64-bit offsets (SPEC.md "Copy"); both buffers are sparse, only the rows in use take memory."""
    config = avsg.PoolConfig(num_rows=280, num_slots=8192, top_k=32)
    engine = Engine(
        library,
        seed=15,
        config=config,
        row_bytes=(1024,),
        block_size=128,
        max_tokens=256,
        first_block=2**31 // (128 * 1024) + 3,
        host_library=library,
    )
    assert engine.host[0][0].nbytes > 2**31 and engine.device[0][0].nbytes > 2**31
    for row in range(config.num_rows - 2):  # the sequences of this test get the last rows
        engine.table.admit(-row)
    for t in range(6):
        admit_all(engine, 150)
        for read in engine.step(engine.batch()):
            assert not len(read.wrong()), f"seed 15, step {t}"
    assert engine.plan.rows.max() >= config.num_rows - 2
    assert int(engine.plan.rows.max()) * config.num_slots * 1024 > 2**31
