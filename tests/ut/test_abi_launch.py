# SPDX-License-Identifier: Apache-2.0
"""Each call launches its entry once, with its arguments in order and every tensor at its exact size."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from abi_calls import (
    BLOCK_SIZE,
    BLOCKS,
    ENTRIES,
    MAX_BLOCKS,
    NEW_ROWS,
    QUERIES,
    ROW_BYTES,
    ROWS,
    SLOTS,
    TOP_K,
    Calls,
)
from avsg import _abi, layout

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "op_kernel", ROOT / "op_host", ROOT / "framework" / "c_api", ROOT / "framework" / "cpu"]
LIST_BYTES = 8 * (1 + 3 * len(ROW_BYTES))  # list_tensor.h: one word, then two and a pointer for each tensor
WIDTH = 4 * ENTRIES * QUERIES * TOP_K
STATE = f"state {ROWS * layout.state_stride_bytes(SLOTS)} writable"
STEP = [
    f"topk_tokens {WIDTH}",
    *(f"{name} {4 * ENTRIES}" for name in ("verified_lens", "seq_lens", "leases", "rows")),
]
MISSES = [f"miss_tokens {WIDTH}", f"miss_slots {WIDTH}", f"num_misses {4 * ENTRIES}"]
LINES = [f"plan rows {4 * ENTRIES}", f"plan verified_lens {4 * ENTRIES}"]
PLAN = [f"{line} writable" for line in [f"slots {WIDTH}", *MISSES, f"counters {32 * ENTRIES}", *LINES]]
TABLE = f"block_table {4 * ENTRIES * MAX_BLOCKS}"
LIST = f"tensor list {LIST_BYTES}"
WORKSPACE = f"workspace {layout.WORKSPACE_BYTES} writable"
COPIES = [TABLE, LIST, LIST, LIST, STATE, LIST, STATE]
LOADED, STORED = "load_counters 8 writable", "store_counters 8 writable"
ARGUMENTS = {
    "match": [*STEP, STATE, STATE, *PLAN, WORKSPACE],
    "load": [*MISSES, *LINES, *COPIES, LOADED, WORKSPACE],
    "step_fused": [*STEP, *COPIES, *PLAN, LOADED, WORKSPACE],
    "store": [
        f"positions {4 * NEW_ROWS}",
        f"entries {4 * NEW_ROWS}",
        TABLE,
        LIST,
        LIST,
        LIST,
        STORED,
        WORKSPACE,
    ],
}


@pytest.fixture(scope="module")
def recorder(tmp_path_factory) -> _abi.NativeLibrary:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    path = tmp_path_factory.mktemp("recorder") / "librecorder.so"
    sources = [ROOT / "op_host" / "tiling.cpp", *(ROOT / "framework" / "c_api").glob("*.cpp")]
    sources += [
        ROOT / "framework" / "cpu" / f"{name}.cpp" for name in ("arguments", "calls", "mapped_memory")
    ]
    sources += [Path(__file__).with_name("abi_recorder.cpp")]
    options = ["-std=c++17", "-shared", "-fPIC", '-DAVSG_LIBRARY_NAME="cpu-checked"', "-DAVSG_CPU_CHECKED=1"]
    subprocess.run(
        ["g++", *options, *(f"-I{folder}" for folder in FOLDERS), *sources, "-o", path], check=True
    )
    library = _abi.NativeLibrary(path)
    library.dll.Recorded.restype = ctypes.c_char_p
    return library


def launch(recorder: _abi.NativeLibrary, calls: Calls, call: str) -> tuple[list[str], list[str]]:
    """What was registered, and the entry's arguments."""
    recorder.dll.Forget()
    assert calls.run(call) == 4, calls.error()
    lines = recorder.dll.Recorded().decode().splitlines()
    cores = next(i for i, line in enumerate(lines) if line.startswith("cores"))
    return [line[3:] for line in lines[:cores]], lines[cores:]


@pytest.mark.parametrize("call", ARGUMENTS)
def test_entry_gets_its_arguments_in_order_and_at_their_exact_size(recorder, call):
    _, (cores, *arguments) = launch(recorder, Calls(recorder), call)
    assert cores == "cores 2"
    assert arguments[:-1] == ARGUMENTS[call]
    assert arguments[-1].startswith("tiling ")


@pytest.mark.parametrize("call", ["load", "step_fused", "store"])
def test_every_payload_is_registered_at_its_exact_size(recorder, call):
    registered, _ = launch(recorder, Calls(recorder), call)
    for row_bytes in ROW_BYTES:
        host = f"host_kv {BLOCKS * BLOCK_SIZE * row_bytes}"
        if call == "store":
            assert {f"{host} writable", f"new_rows {NEW_ROWS * row_bytes}"} <= set(registered)
        else:
            device = f"device_kv {ROWS * SLOTS * row_bytes} writable"
            assert {host, device, f"fresh {ENTRIES * QUERIES * row_bytes}"} <= set(registered)


def test_only_outputs_are_writable(recorder):
    """A kernel that writes to an input breaks a rule of the checked build."""
    plan = {"slots", "miss_tokens", "miss_slots", "num_misses", "counters", "plan"}
    written = {
        "match": {"state", "workspace"} | plan,
        "load": {"state", "workspace", "device_kv", "load_counters"},
        "step_fused": {"state", "workspace", "device_kv", "load_counters"} | plan,
        "store": {"host_kv", "workspace", "store_counters"},
    }
    for call, names in written.items():
        registered, _ = launch(recorder, Calls(recorder), call)
        assert {line.split()[0] for line in registered if line.endswith("writable")} == names, call


@pytest.mark.parametrize("call, place", [("load", 7), ("step_fused", 7)])
def test_fresh_that_is_not_given_is_a_null_pointer(recorder, call, place):
    _, (_, *arguments) = launch(recorder, Calls(recorder, fresh=False), call)
    assert [i for i, argument in enumerate(arguments) if argument == "absent"] == [place]


def test_match_runs_no_more_cores_than_it_has_entries(recorder):
    calls = Calls(recorder)
    calls.config.num_cores = 40
    assert launch(recorder, calls, "match")[1][0] == f"cores {ENTRIES}"
    assert launch(recorder, calls, "load")[1][0] == "cores 40"


def test_no_core_count_means_the_hardware_threads(recorder):
    calls = Calls(recorder)
    calls.config.num_cores = 0
    assert launch(recorder, calls, "store")[1][0] == "cores 5"
    assert recorder.sizes(calls.config).num_cores == 5


def test_broken_rule_is_told_with_its_own_code(recorder):
    calls = Calls(recorder)
    assert calls.run("match") == 4
    assert calls.error() == "rule broken on purpose."


def test_refused_call_launches_nothing(recorder):
    calls = Calls(recorder)
    calls.workspace = None
    recorder.dll.Forget()
    for call in ARGUMENTS:
        assert calls.run(call) == 1
    assert recorder.dll.Recorded() == b""
