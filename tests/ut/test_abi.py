# SPDX-License-Identifier: Apache-2.0
"""The C ABI refuses what it can see, with a sentence and without writing a byte (avsg.h)."""

import os
import re
import signal
import threading

import pytest

from abi_calls import Calls
from abi_refusals import ALL, OVERLAPS, REFUSALS, each_call
from avsg import _abi


def spoil(calls: Calls, path: str, value) -> None:
    """Sets one argument, given as "plan.rows" or "payloads[1].fresh"."""
    value = value(calls) if callable(value) else value
    owner, _, field = path.rpartition(".")
    target = calls
    if owner:
        name, index = re.fullmatch(r"(\w+)(?:\[(\d)\])?", owner).groups()
        target = getattr(calls, name) if index is None else getattr(calls, name)[int(index)]
    setattr(target, field, value)


@pytest.fixture(scope="module", params=["cpu", "cpu-checked"])
def library(request):
    return _abi.load(_abi.resolve(request.param))


@pytest.mark.parametrize("call", ["sizes", *ALL])
@pytest.mark.parametrize("fresh", [True, False])
def test_unspoilt_arguments_are_accepted(library, call, fresh):
    """Otherwise the refusals below could come from anything."""
    calls = Calls(library, fresh)
    assert calls.run(call) == 0, calls.error()
    assert calls.error() == ""


@pytest.mark.parametrize("call, argument, value, sentence", each_call(REFUSALS))
def test_refused_call_says_why_and_writes_nothing(library, call, argument, value, sentence):
    calls = Calls(library)
    spoil(calls, argument, value)
    before = calls.snapshot()
    assert calls.run(call) == 1
    assert sentence in calls.error()
    assert calls.error().endswith(".") and calls.error().count("\n") == 0
    assert calls.snapshot() == before


@pytest.mark.parametrize("call, argument, value, other", each_call(OVERLAPS))
def test_overlap_is_refused_and_the_sentence_names_both_tensors(library, call, argument, value, other):
    calls = Calls(library)
    spoil(calls, argument, value)
    before = calls.snapshot()
    assert calls.run(call) == 1
    tensor = r"(.+) \(\d+ bytes at 0x\w+\)"
    pattern = f"{tensor} and {tensor} overlap, and the call writes to (.+); give each its own memory\\."
    first, second, written = re.fullmatch(pattern, calls.error()).groups()
    assert other in (first, second) and written in (first, second) and first != second
    assert calls.snapshot() == before


def test_tensors_that_are_only_read_may_share_memory(library):
    """Verified and total lengths are often one tensor; MLA payloads may share their host memory."""
    calls = Calls(library)
    calls.step.seq_lens = calls.step.verified_lens
    calls.payloads[1].host_kv = calls.payloads[0].host_kv
    assert calls.run("step_fused") == 0, calls.error()


@pytest.mark.parametrize("first, second", [("num_misses", "rows"), ("rows", "num_misses")])
def test_adjacent_tensors_do_not_overlap(library, first, second):
    calls = Calls(library)
    setattr(calls.plan, second, getattr(calls.plan, first) + 4 * calls.plan.num_entries)
    assert calls.run("match") == 0, calls.error()


def test_load_needs_neither_slots_nor_counters_of_the_plan(library):
    calls = Calls(library)
    calls.plan.slots = calls.plan.counters = None
    assert calls.run("load") == 0, calls.error()


def test_a_shape_too_large_for_the_on_chip_buffer_names_the_largest_that_fits(library):
    report = library.sizes(_abi.Config(num_rows=1, num_slots=8192, top_k=2048, num_queries=4, max_life=2000))
    assert report.max_num_slots >= 8192
    config = _abi.Config(
        num_rows=1, num_slots=report.max_num_slots + 64, top_k=2048, num_queries=4, max_life=2000
    )
    with pytest.raises(ValueError, match=f"largest num_slots that fits this top_k is {report.max_num_slots}"):
        library.sizes(config)


def test_sizes_follow_the_layout(library):
    """SPEC.md, State of one row, at S = 100 * 64: NB is 16,384."""
    report = library.sizes(
        _abi.Config(num_rows=3, num_slots=6400, top_k=512, num_queries=1, max_life=2000, num_cores=3)
    )
    assert (report.num_buckets, report.probe_rounds, report.lag_min, report.num_cores) == (16384, 4, 4, 3)
    assert report.state_row_bytes == 512 + 2 * 4 * 6408 + 4 * 16384
    assert report.state_stride_bytes == -(-report.state_row_bytes // 512) * 512
    assert report.state_bytes == 3 * report.state_stride_bytes
    assert 0 < report.ub_bytes <= 184 * 1024


def test_short_pools_take_the_small_constants(library):
    """SPEC.md, Constants: R is 8 and LAG_MIN 1 when S < 2K."""
    report = library.sizes(_abi.Config(num_rows=1, num_slots=2048, top_k=2048, num_queries=1, max_life=2000))
    assert (report.probe_rounds, report.lag_min) == (8, 1)
    assert report.num_cores >= 1


def test_last_error_belongs_to_its_thread_and_ends_with_success(library):
    calls = Calls(library)
    calls.config.num_rows = 0
    assert calls.run("match") == 1
    seen = []
    thread = threading.Thread(target=lambda: seen.append(calls.error()))
    thread.start()
    thread.join()
    assert seen == [""]
    assert "num_rows is 0" in calls.error()
    calls.config.num_rows = 2
    assert calls.run("sizes") == 0
    assert calls.error() == ""


def test_threads_may_call_at_once(library):
    """Launches queue; each thread's buffers belong to its own launch."""
    failures = []

    def work():
        calls = Calls(library)
        for call in ("match", "load", "step_fused", "store") * 5:
            if calls.run(call) != 0:
                failures.append(calls.error())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_forked_child_can_call(library):
    """Data loaders fork; another thread may be in the middle of a call then."""
    stop = threading.Event()

    def work():
        calls = Calls(library)
        while not stop.is_set():
            calls.run("step_fused")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        calls = Calls(library)
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(sum(calls.run(call) for call in ALL))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_name_and_version(library):
    assert library.name in ("cpu", "cpu-checked")
    assert library.dll.avsg_abi_version() == 1


def test_both_libraries_live_in_one_process():
    """Neither takes the other's symbols."""
    names = [_abi.load(_abi.resolve(name)).name for name in ("cpu", "cpu-checked")]
    assert names == ["cpu", "cpu-checked"]
