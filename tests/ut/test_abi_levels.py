# SPDX-License-Identifier: Apache-2.0
"""The fast library holds its kernels once per instruction set; each gives the same bytes."""

import ctypes
import platform

import numpy as np
import pytest

from abi_calls import ENTRIES, QUERIES, ROW_BYTES, ROWS, SLOTS, TOP_K, Calls
from avsg import _abi

SEED = 7
STEPS = 30


@pytest.fixture
def library():
    library = _abi.load(_abi.resolve("cpu"))
    library.dll.avsg_cpu_level.restype = ctypes.c_char_p
    best = library.dll.avsg_cpu_level()
    yield library
    assert library.dll.avsg_cpu_set_level(best) == 0


def run_steps(library: _abi.NativeLibrary) -> bytes:
    """Everything that some fused steps leave behind, load included."""
    rng = np.random.default_rng(SEED)
    calls = Calls(library)
    calls.view(calls.state, calls.report.state_bytes, np.uint8)[:] = 0
    for i, row_bytes in enumerate(ROW_BYTES):
        calls.view(calls.payloads[i].device_kv, ROWS * SLOTS * row_bytes, np.uint8)[:] = 0
    calls.view(calls.step.leases, ENTRIES)[:] = 3
    calls.view(calls.step.rows, ENTRIES)[:] = [1, 0, -1]
    left = b""
    for step in range(STEPS):
        width = ENTRIES * QUERIES * TOP_K
        calls.view(calls.step.topk_tokens, width)[:] = rng.integers(-1, 100, width)
        calls.view(calls.step.verified_lens, ENTRIES)[:] = 90 + step
        calls.view(calls.step.seq_lens, ENTRIES)[:] = 91 + step
        assert calls.run("step_fused") == 0, calls.error()
        left += calls.view(calls.plan.slots, width).tobytes()
        left += (
            calls.view(calls.plan.counters, 8 * ENTRIES).tobytes() + calls.view(calls.counters, 2).tobytes()
        )
    for i, row_bytes in enumerate(ROW_BYTES):
        left += calls.view(calls.payloads[i].device_kv, ROWS * SLOTS * row_bytes, np.uint8).tobytes()
    for row in range(ROWS):
        left += calls.view(
            calls.state + row * calls.report.state_stride_bytes, calls.report.state_row_bytes, np.uint8
        ).tobytes()
    return left


@pytest.mark.skipif(platform.machine() != "x86_64", reason="one level only on this machine")
def test_levels_give_the_same_bytes(library):
    assert library.dll.avsg_cpu_set_level(b"x86-64-v2") == 0
    assert library.dll.avsg_cpu_level() == b"x86-64-v2"
    baseline = run_steps(library)
    if library.dll.avsg_cpu_set_level(b"x86-64-v3") != 0:
        pytest.skip("this CPU has no AVX2")
    assert library.dll.avsg_cpu_level() == b"x86-64-v3"
    assert run_steps(library) == baseline, f"seed {SEED}"


def test_unknown_level_is_refused_and_the_level_stays(library):
    before = library.dll.avsg_cpu_level()
    assert library.dll.avsg_cpu_set_level(b"x86-64-v9") == 1
    assert library.dll.avsg_cpu_level() == before
