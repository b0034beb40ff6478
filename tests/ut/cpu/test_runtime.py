# SPDX-License-Identifier: Apache-2.0
"""Launches: cores, barriers, counts, modelled cycles, forks, concurrent callers, symbols of the levels."""

import ctypes
import multiprocessing
import os
import subprocess
import threading

import numpy as np
import pytest

from .conftest import CPU, FLAGS, HERE, LEVELS, CoreCounts, RuleBroken


def expected_rounds(num_rounds, num_cores):
    values = list(range(num_cores))
    for _ in range(num_rounds):
        written = values
        values = [written[(core + 1) % num_cores] + 1 for core in range(num_cores)]
    return written


@pytest.mark.parametrize("num_cores", [1, 2, 3, 7, 48])
def test_sync_all_is_a_barrier(cpu, num_cores):
    num_rounds = 3 if num_cores > 7 else 40
    for _ in range(3):
        out = cpu.run("rounds", p=[num_rounds], num_cores=num_cores).view(np.int32)
        assert out[: 128 * num_cores : 128].tolist() == expected_rounds(num_rounds, num_cores)


def test_number_of_cores_may_change_between_launches(cpu):
    for num_cores in (5, 1, 2, 8, 1, 5, 3):
        out = cpu.run("rounds", p=[2], num_cores=num_cores).view(np.int32)
        assert out[: 128 * num_cores : 128].tolist() == expected_rounds(2, num_cores)


def test_impossible_number_of_cores_is_refused(cpu):
    for num_cores in (0, -1, 65):
        with pytest.raises(RuleBroken, match=f"launch of {num_cores} cores, allowed are 1..64"):
            cpu.run("rounds", num_cores=num_cores)


def test_counts_of_one_operation(cpu):
    cpu.library.avsg_cpu_count(1)
    try:
        cpu.run("event_ids")
        base = cpu.counts()[0]
        cpu.run("Gather_int32_t", np.zeros(8, np.int32), np.zeros(1000, np.uint32), p=[1000, 0])
        counts = cpu.counts()[0]
    finally:
        cpu.library.avsg_cpu_count(0)
    assert (base.scalar_stores, base.vector_instructions) == (6, 0)
    assert (base.dmas, base.dma_bytes_in, base.dma_bytes_out, base.barriers) == (3, 131072, 65536, 2)
    assert (counts.vector_instructions, counts.vector_repeats, counts.gathered_words) == (2, 16, 1000)


def test_counts_belong_to_a_core_and_to_the_last_launch(cpu):
    cpu.library.avsg_cpu_count(1)
    try:
        cpu.run("rounds", p=[5], num_cores=3)
        for core in cpu.counts(4)[:3]:
            assert (core.syncs, core.scalar_loads, core.vector_instructions) == (10, 5, 5)
        assert cpu.counts(4)[3].syncs == 0
        cpu.run("rounds", p=[1], num_cores=1)
        assert [core.syncs for core in cpu.counts(3)] == [2, 0, 0]
    finally:
        cpu.library.avsg_cpu_count(0)


def test_mark_keeps_the_counts_so_far(cpu):
    cpu.library.avsg_cpu_count(1)
    try:
        cpu.run("marks")
    finally:
        cpu.library.avsg_cpu_count(0)
    mark = CoreCounts()
    assert cpu.library.avsg_cpu_mark_counts(3, ctypes.byref(mark)) == 0
    end = cpu.counts()[0]
    assert (mark.vector_instructions, end.vector_instructions) == (1, 2)
    assert not cpu.checked or mark.pipe_cycles < end.pipe_cycles
    assert cpu.library.avsg_cpu_mark_counts(32, ctypes.byref(mark)) == 1


def test_counting_is_off_by_default(fast):
    fast.run("rounds", p=[5])
    assert fast.counts()[0].syncs == 0


def test_select_costs_its_hidden_instruction_and_barriers(checked):
    checked.run("Select_scalar", np.zeros(64, np.float32), p=[64, 0])
    counts = checked.counts()[0]
    assert (counts.vector_instructions, counts.vector_repeats, counts.barriers) == (2, 2, 2 + 2)


def test_modelled_cycles_of_an_add(checked):
    """24 cycles and one per 64 lanes; the frame's three copies and two barriers are subtracted."""

    def cycles(count):
        checked.run("Add_int32_t", p=[count])
        return checked.counts()[0].serial_cycles

    assert cycles(2048) - cycles(0) == pytest.approx(24 + 32)


def test_pipes_overlap_in_the_timeline(checked):
    checked.run("rounds", p=[1], num_cores=2)
    first, second = checked.counts(2)
    assert first.pipe_cycles == pytest.approx(second.pipe_cycles)  # both end behind a barrier of all cores
    assert first.pipe_cycles > 2 * 1850


def run_in_child(cpu, queue):
    queue.put(cpu.run("rounds", p=[4], num_cores=3).view(np.int32)[:384:128].tolist())


def test_forked_child_has_its_own_cores(cpu):
    cpu.run("rounds", p=[4], num_cores=3)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=run_in_child, args=(cpu, queue)) for _ in range(2)]
    for child in children:
        child.start()
    results = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert results == [expected_rounds(4, 3)] * 2
    cpu.run("rounds", p=[4], num_cores=3)


def test_callers_on_several_threads_queue(cpu):
    wrong = []

    def call(seed):
        for i in range(30):
            num_cores = 1 + (seed + i) % 4
            out = cpu.run("rounds", p=[3], num_cores=num_cores).view(np.int32)
            if out[: 128 * num_cores : 128].tolist() != expected_rounds(3, num_cores):
                wrong.append((seed, i))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def defined_symbols(path):
    """Global and weak symbols that an object defines."""
    lines = subprocess.run(
        ["nm", "--defined-only", "--extern-only", str(path)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {line.split()[2] for line in lines}


@pytest.mark.skipif(len(LEVELS) < 3, reason="this machine's library has one level")
def test_levels_share_no_symbol(tmp_path):
    """A symbol that two levels define would let the linker run AVX2 code on a machine without it."""
    names = []
    for level in LEVELS[:2]:
        target = tmp_path / f"{level}.o"
        subprocess.run(
            [
                "g++",
                *FLAGS,
                "-O0",
                f"-march={level}",
                "-DAVSG_CPU_CHECKED=0",
                f"-DAVSG_CPU_LEVEL={level.replace('-', '_')}",
                f"-I{HERE.parents[2] / 'op_kernel'}",
                "-c",
                str(CPU / "kernels.cpp"),
                "-o",
                str(target),
            ],
            check=True,
        )
        names.append(defined_symbols(target))
    assert len(names[0]) > 50 and names[0] & names[1] == set()


def test_hardware_threads_is_what_the_machine_has(cpu):
    assert cpu.library.hardware_threads() == min(max(os.cpu_count(), 1), 48)
