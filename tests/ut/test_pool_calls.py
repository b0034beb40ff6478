# SPDX-License-Identifier: Apache-2.0
"""What Pool adds around a library: plans that are reused, totals, resets, sizes, one call at a time."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import avsg
from avsg import layout
from pool_case import NUM_ROWS, NUM_SLOTS, ROW_BYTES, PoolCase, config, int32


def test_out_is_filled_and_returned():
    case = PoolCase()
    arrays = dict(vars(case.out))
    for array in arrays.values():
        array.fill(-77)
    plan = case.pool.match(**case.arguments("match"))
    assert plan is case.out
    assert all(getattr(plan, name) is array for name, array in arrays.items())
    assert (plan.slots >= 0).all() and plan.rows.tolist() == [2, 0]


def test_an_empty_plan_loads_nothing():
    case = PoolCase()
    before = case.memory()
    counts = case.pool.load(
        avsg.Plan.empty(2, 2, 8), case.host_kv, case.device_kv, block_table=case.block_table
    )
    assert counts == (0, 0) and case.memory() == before


def test_step_is_match_and_load():
    one, two = PoolCase(), PoolCase()
    one.pool.step(**one.arguments("step"))
    two.pool.match(**two.arguments("match"))
    two.pool.load(**{**two.arguments("load"), "plan": two.out})
    assert one.memory() == two.memory()


def test_stats_are_the_sums_of_all_calls():
    case = PoolCase()
    first = case.pool.stats()
    assert first.steps == 1 and first.resets == 2 and first.valid_tokens == 32
    counts = case.pool.load(**case.arguments("load"))
    case.pool.step(**case.arguments("step"))
    stored = case.pool.store(**case.arguments("store"))
    case.topk_tokens[0, 0, 0] = 500
    case.pool.match(**case.arguments("match"), check=False)
    bad = case.arguments("load")
    bad["block_table"] = np.full_like(case.block_table, -1)
    bad["fresh"] = None
    zeroed = case.pool.load(**bad, check=False)
    total = case.pool.stats()
    assert total.steps == 3 and total.bad_tokens == 1
    assert total.hits + total.misses == total.valid_tokens == 95
    assert total.hit_rate == total.hits / 95
    step_copies = total.rows_copied - counts.rows_copied - zeroed.rows_copied
    assert step_copies >= 0 and total.bytes_copied == total.rows_copied * sum(ROW_BYTES)
    assert zeroed.bad_blocks == total.bad_blocks == case.plan.num_misses.sum() > 0
    assert stored == (3, 1) and (total.rows_stored, total.rows_skipped) == (3, 1)
    case.pool.reset_stats()
    assert case.pool.stats() == avsg.PoolStats() and case.pool.stats().hit_rate == 0.0


@pytest.mark.parametrize("rows", [2, [2], np.array([2, 2]), range(2, 3)])
def test_reset_row_starts_from_a_reset_and_others_do_not(rows):
    case = PoolCase()
    case.pool.reset(rows)
    assert not case.pool.state[2].any()
    plan = case.pool.match(case.topk_tokens, **case.lines)
    flags = plan.counters[:, layout.COUNTER_FLAGS] & layout.FLAG_RESET
    assert flags.tolist() == [layout.FLAG_RESET, 0]


def test_inactive_entries_are_not_looked_at():
    case = PoolCase()
    case.lines = {
        "verified_lens": int32(17, -9),
        "seq_lens": int32(18, -2),
        "leases": int32(1, 0),
        "rows": int32(2, -3),
    }
    case.topk_tokens[1] = 2**30
    plan = case.pool.match(**case.arguments("match"))
    assert plan.rows.tolist() == [2, -1] and (plan.slots[1] == -1).all()
    case.block_table[1] = -1
    case.pool.step(**case.arguments("step"))


def test_fresh_rows_need_no_block():
    """SPEC.md "Copy": a token of `fresh` comes from there, whatever the block table says."""
    case = PoolCase()
    case.lines = {**case.lines, "verified_lens": int32(1, 1), "seq_lens": int32(2, 2), "leases": int32(3, 4)}
    case.topk_tokens[:] = -1
    case.topk_tokens[:, :, :2] = (0, 1)
    case.block_table[:] = -1
    case.pool.step(**case.arguments("step"))
    with pytest.raises(ValueError, match="block_table"):
        case.pool.step(**{**case.arguments("step"), "fresh": None})


def test_state_is_the_memory_itself():
    case = PoolCase()
    assert case.pool.state.shape == (NUM_ROWS, layout.state_stride_bytes(NUM_SLOTS))
    assert case.pool.state is case.pool.state and case.pool.state.dtype == np.uint8
    header = case.pool.state[2, : layout.slot_token_offset()].view(np.int32)
    assert header[layout.HEADER_MAGIC] == layout.MAGIC and header[layout.HEADER_LEASE] == 1


def test_sizes_follow_from_the_config():
    sizes = avsg.Pool(config(), library="reference").sizes
    assert sizes.num_buckets == 128 and sizes.probe_rounds == layout.PROBE_ROUNDS
    assert sizes.state_row_bytes == layout.state_row_bytes(NUM_SLOTS)
    assert sizes.state_bytes == NUM_ROWS * sizes.state_stride_bytes
    small = avsg.Pool(avsg.PoolConfig(1, 64, 64), library="reference").sizes
    assert small.probe_rounds == layout.PROBE_ROUNDS_SMALL and small.lag_min == layout.LAG_MIN_SMALL


@pytest.mark.parametrize("library", ["cpu", "cpu-checked"])
@pytest.mark.parametrize("sizes", [(3, 64, 8), (1, 64, 64), (2, 8192, 2048), (5, 4096, 512)])
def test_native_sizes_equal_the_references(library, sizes):
    native = avsg.Pool(avsg.PoolConfig(*sizes), library=library, num_cores=3).sizes
    reference = avsg.Pool(avsg.PoolConfig(*sizes), library="reference").sizes
    for name in (
        "num_buckets",
        "probe_rounds",
        "lag_min",
        "state_row_bytes",
        "state_stride_bytes",
        "state_bytes",
    ):
        assert getattr(native, name) == getattr(reference, name), name
    assert native.num_cores == 3 and native.max_num_slots >= sizes[1]


@pytest.mark.parametrize("library", ["cpu", "cpu-checked"])
def test_what_the_device_cannot_hold_is_refused_with_the_largest_that_fits(library):
    with pytest.raises(ValueError, match="8192|8,192"):
        avsg.Pool(avsg.PoolConfig(1, 16384, 2048), library=library)


def test_calls_of_two_threads_run_one_after_the_other():
    case = PoolCase()
    inside, most = 0, 0
    original = case.pool._backend.match

    def slow_match(*arguments):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.002)
        original(*arguments)
        inside -= 1

    case.pool._backend.match = slow_match
    threads = [
        threading.Thread(target=lambda: [case.pool.match(case.topk_tokens, **case.lines) for _ in range(5)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and case.pool.stats().steps == 21


@pytest.mark.parametrize("library", ["reference", "cpu", "cpu-checked"])
def test_host_memory_is_zeroed_page_aligned_and_lives_with_its_views(library):
    memory = avsg.host_alloc((3, 5, 64), np.uint16, library=library)
    assert memory.shape == (3, 5, 64) and memory.dtype == np.uint16 and not memory.any()
    assert memory.ctypes.data % 4096 == 0 and memory.flags.writeable and memory.flags.c_contiguous
    view = memory[1]
    del memory
    view[:] = 7
    assert (view == 7).all()
    assert avsg.host_alloc(16, library=library, huge_pages=True).shape == (16,)
    sparse = avsg.host_alloc((3, 2**30), library=library)
    sparse[2, -1] = 1
    assert sparse[2, -1] == 1


@pytest.mark.parametrize("library", ["cpu", "cpu-checked"])
def test_host_memory_is_freed_with_its_last_view(library, monkeypatch):
    from avsg import _abi

    freed = []
    native = _abi.load(_abi.resolve(library))
    original = native.call
    monkeypatch.setattr(native, "call", lambda name, *rest: (freed.append(name), original(name, *rest)))
    view = avsg.host_alloc((4, 4), library=library)[1:]
    assert freed == ["avsg_host_alloc"]
    del view
    assert freed == ["avsg_host_alloc", "avsg_host_free"]


@pytest.mark.parametrize(
    "shape, dtype, error",
    [
        (0, np.uint8, ValueError),
        ((4, -1), np.uint8, ValueError),
        ((2, 0), np.uint8, ValueError),
        (4, object, TypeError),
    ],
)
def test_host_alloc_refuses_empty_shapes_and_objects(shape, dtype, error):
    with pytest.raises(error, match="(shape|dtype) is"):
        avsg.host_alloc(shape, dtype, library="reference")


def test_import_loads_nothing_and_every_name_is_there():
    code = (
        "import sys, avsg\nassert not {'numpy', 'ctypes', 'avsg.pool'} & set(sys.modules)\n"
        "names = avsg.__all__; assert all(getattr(avsg, name) for name in names)\n"
        "assert set(names) <= set(dir(avsg))\n"
        "assert avsg.__version__[0].isdigit()\n"
        "try: avsg.nonsense\nexcept AttributeError as error: assert 'nonsense' in str(error)\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
