# SPDX-License-Identifier: Apache-2.0
"""The binding of framework/cpu/avsg_cpu.h: counts per core, core order, instruction set."""

import ctypes
import re
from pathlib import Path

import pytest

import avsg
from avsg import cpu_counts
from pool_case import NUM_QUERIES, PoolCase, config

HEADER = Path(__file__).parents[2] / "framework" / "cpu" / "avsg_cpu.h"


@pytest.fixture(params=["cpu", "cpu-checked"])
def cpu(request):
    library = cpu_counts.CpuLibrary(request.param)
    level = library.level
    library.count(True)
    yield request.param, library
    library.count(False)
    library.set_level(level)
    library.shuffle(0)


def test_counts_have_the_headers_fields():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    body = text[: text.index("} avsg_cpu_core_counts")]
    declared = re.findall(r"(uint64_t|double) (\w+);", body)
    types = {"uint64_t": ctypes.c_uint64, "double": ctypes.c_double}
    bound = cpu_counts.CoreCountsStruct._fields_
    assert bound == [(name, types[kind]) for kind, name in declared]


def test_a_match_is_counted_per_core(cpu):
    name, library = cpu
    case = PoolCase(name)
    case.pool = avsg.Pool(config(), library=name, num_cores=2)
    case.pool.match(case.topk_tokens, **case.lines)
    counts = library.counts()
    assert len(counts) == 2, "two entries on two cores"
    for core in counts:
        assert core.vector_instructions > 0 and core.dmas > 0
        assert core.dma_bytes_in >= NUM_QUERIES * 8 * 4 and core.dma_bytes_out > 0
        assert (core.serial_cycles > 0) == (name == "cpu-checked")
    library.count(False)
    case.pool.match(case.topk_tokens, **case.lines)
    counted = any(core.vector_instructions for core in library.counts())
    assert counted == (name == "cpu-checked"), "the checked library always counts"


def test_shuffled_cores_give_the_same_result(cpu):
    name, library = cpu
    seen = set()
    for seed in range(4):
        library.shuffle(seed)
        case = PoolCase(name)
        case.pool.step(**case.arguments("step"))
        seen.add(tuple(case.memory()))
    assert len(seen) == 1


def test_every_level_of_the_build_gives_the_same_result(cpu):
    name, library = cpu
    seen, levels = set(), []
    for level in ("x86-64-v3", "x86-64-v2", "portable", "checked"):
        try:
            library.set_level(level)
        except ValueError as error:
            assert f"level is {level}" in str(error)
            continue
        assert library.level == level
        levels.append(level)
        case = PoolCase(name)
        case.pool.step(**case.arguments("step"))
        seen.add(tuple(case.memory()))
    assert levels and len(seen) == 1


def test_the_reference_counts_nothing():
    with pytest.raises(TypeError, match="library is reference, but cpu, cpu-checked or a path"):
        cpu_counts.CpuLibrary("reference")
