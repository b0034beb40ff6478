# SPDX-License-Identifier: Apache-2.0
"""No copy of host_kv, device_kv and state: the addresses that the C ABI gets are those of the Parameters."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from mindspore_case import CONFIG, MODES, Steps, make_host, runner, tensor

import avsg
from avsg.mindspore import SparseGather

ROOT = Path(__file__).resolve().parents[2]
RECORDER = """
#include "avsg.h"
extern "C" {
const void* recorded[8];
const char* avsg_last_error(void) { return ""; }
int avsg_sizes(const avsg_config*, avsg_size_report* report) { report->workspace_bytes = 64; return 0; }
int avsg_match(const avsg_config*, const avsg_step*, void*, avsg_plan*, void*, void*) { return 0; }
int avsg_load(const avsg_config*, const avsg_plan*, const avsg_blocks*, const avsg_payload*, int32_t, void*,
              int32_t*, void*, void*) { return 0; }
int avsg_step_fused(const avsg_config*, const avsg_step*, void* state, avsg_plan*, const avsg_blocks*,
                    const avsg_payload* payloads, int32_t n, int32_t*, void*, void*) {
  recorded[0] = state;
  for (int32_t i = 0; i < n; ++i) {
    recorded[1 + 2 * i] = payloads[i].host_kv;
    recorded[2 + 2 * i] = payloads[i].device_kv;
  }
  return 0;
}
int avsg_store(const avsg_config*, const avsg_blocks*, const avsg_store_payload*, int32_t, const int32_t*,
               const int32_t*, int32_t, int32_t*, void*, void*) { return 0; }
}
"""


@pytest.fixture(scope="module")
def recorder(tmp_path_factory) -> Path:
    """The glue over a C ABI that only records addresses."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is needed to build the recorder")
    folder = tmp_path_factory.mktemp("recorder")
    (folder / "recorder.cpp").write_text(RECORDER)
    glue = sorted((ROOT / "framework" / "mindspore").glob("cpu_*.cpp"))
    library = folder / "librecorder.so"
    includes = [f"-I{ROOT / 'framework' / 'c_api'}", f"-I{ROOT / 'op_kernel'}"]
    command = [
        "g++",
        "-std=c++17",
        "-shared",
        "-fPIC",
        "-o",
        library,
        folder / "recorder.cpp",
        *glue,
        *includes,
    ]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("mode", MODES)
def test_no_copy_of_state_host_kv_or_device_kv(mode: str, recorder: Path) -> None:
    """Without registered addresses, which would refuse a copy, the library still sees the Parameters' own
    memory."""
    host = [
        [
            avsg.host_alloc(kv.shape, kv.dtype, library="reference")
            for kv in make_host(np.random.default_rng(1))[0]
        ]
    ]
    gather, steps = SparseGather(CONFIG, host, library=recorder), Steps(1)
    gather.registered[0].asnumpy()[8:] = 0
    recorded = (ctypes.c_void_p * 8).in_dll(ctypes.CDLL(str(recorder)), "recorded")
    step = runner(gather, mode)
    for _ in range(3):
        step(*(tensor(value) for value in (*steps.arguments().values(), steps.block_table)))
        wanted = [
            gather.state.data_ptr(),
            host[0][0].ctypes.data,
            gather.device_kv[0].data_ptr(),
            host[0][1].ctypes.data,
            gather.device_kv[1].data_ptr(),
        ]
        assert list(recorded)[:5] == wanted
    assert [kv.data_ptr() for kv in gather.host_kv] == [kv.ctypes.data for kv in host[0]]


def test_host_kv_written_by_numpy_is_what_the_next_load_reads() -> None:
    host = make_host(np.random.default_rng(2))
    gather, steps = SparseGather(CONFIG, host), Steps(2)
    arguments = steps.arguments()
    host[0][0][...] = 7
    plan, _ = gather(*(tensor(value) for value in arguments.values()), tensor(steps.block_table))
    slots = plan[0].asnumpy()[0, 0]
    assert (gather.device_kv[0].asnumpy()[2 * CONFIG.num_slots + slots] == 7).all()
