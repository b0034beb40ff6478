# SPDX-License-Identifier: Apache-2.0
"""The calls of libavsg_npu.so: descriptors, attributes, errors and host memory (on a fake CANN, no NPU)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import fake_cann

SMALL_WORKSPACE = {"FAKE_WORKSPACE": str(64 << 10)}  # so that it fits the arena of abi_calls.py


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    fake_cann.libraries()


@pytest.fixture
def tree(tmp_path):
    return fake_cann.make_tree(tmp_path)


def check(code: str, environment: dict[str, str]) -> str:
    """Runs code after npu_process.py, asserts included; returns what it prints."""
    done = fake_cann.run_python("from npu_process import *\n" + code, **environment, **SMALL_WORKSPACE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sizes_are_those_of_the_device_and_of_cann(tree) -> None:
    code = """
from avsg import _abi
report = library.sizes(_abi.Config(num_rows=3, num_slots=8192, top_k=2048, num_queries=4, max_life=2000))
print(library.name, report.num_cores, report.workspace_bytes, report.max_num_slots)
"""
    done = fake_cann.run_python("from npu_process import *\n" + code, **tree)
    assert done.stdout.split() == ["npu", "40", str((16 << 20) + 64 * 512), "8192"]


def test_every_operator_is_described_and_launched_and_nothing_is_left(tree) -> None:
    """The launch ends on the fake device, whose memory the arena is not; the descriptors were accepted."""
    check(
        """
for fresh in (True, False):
    for name in CALLS:
        c = calls(fresh)
        assert c.run(name) == 5, c.error()
        operator = {"step_fused": "aclnnAvsg"}.get(name, "aclnnAvsg" + name.title())
        reason = " failed with 507035 (the workspace is not device memory"
        assert c.error().startswith(operator + reason), c.error()
        assert acl.FakeLive() == 0
""",
        tree,
    )


def test_attributes_come_in_the_order_of_the_operators(tree) -> None:
    check(
        """
expected = {"match": "64 2 100", "load": "64 16 2 100 {}", "step_fused": "64 2 100 {}"}
for fresh in (True, False):
    for name, attributes in expected.items():
        calls(fresh).run(name)
        assert package.FakeAttributes().decode() == attributes.format(int(fresh))
""",
        tree,
    )


def test_an_error_of_the_first_half_keeps_the_words_of_cann_in_one_sentence(tree) -> None:
    check(
        """
for name, operator in zip(CALLS, ("Match", "Load", "", "Store")):
    c = calls()
    before = c.snapshot()
    function = f"aclnnAvsg{operator}GetWorkspaceSize"
    for code, ours, advice in (
        (561003, 2, "avsg doctor"), (561107, 2, "set_env.sh"), (100001, 2, "aclInit"),
        (161002, 2, "same AVSG version"), (207001, 3, "free memory"), (561000, 5, "log of CANN"),
        (561002, 2, "AVSG's own sentence is in the log"), (507035, 5, "nothing more runs on this device"),
    ):
        fail(function, code, "EZ9999: Inner Error!\\n\\tAvsg: no kernel.\\n")
        assert c.run(name) == ours, c.error()
        assert c.error().startswith(f"{function} failed with {code} (EZ9999: Inner Error! Avsg: no kernel); ")
        assert advice in c.error() and c.error().endswith("."), c.error()
    fail(function, 0)
    assert c.snapshot() == before and acl.FakeLive() == 0
""",
        tree,
    )


def test_a_long_message_is_cut_between_letters(tree) -> None:
    check(
        """
c = calls()
for start in ("", "x", "xx"):
    fail("aclnnAvsgMatchGetWorkspaceSize", 561002, start + "\\u9519" * 300)
    c.run("match")
    assert 200 < len(c.library.avsg_last_error()) < 450 and "\\u9519..." in c.error()
""",
        tree,
    )


def test_more_workspace_than_avsg_sizes_said_is_refused(tree) -> None:
    check(
        """
c = calls()
os.environ["FAKE_WORKSPACE"] = str((64 << 10) + 1)
for name in CALLS:
    assert c.run(name) == 2
    assert "asks for 65537 bytes of workspace, but avsg_sizes said 65536; " in c.error()
    assert acl.FakeLive() == 0
""",
        tree,
    )


def test_descriptors_that_cann_cannot_make_are_out_of_memory(tree) -> None:
    check(
        """
for function in ("aclCreateTensor", "aclCreateTensorList"):
    for name in CALLS:
        c = calls()
        fail(function, 1)
        if (function, name) != ("aclCreateTensorList", "match"):
            assert c.run(name) == 3 and "tensor descriptors" in c.error()
        fail(function, 0)
        assert acl.FakeLive() == 0
""",
        tree,
    )


def test_arguments_are_checked_as_on_the_cpu_and_all_cores_are_taken(tree) -> None:
    check(
        """
for name in CALLS:
    c = calls()
    c.config.num_rows = 0
    before = c.snapshot()
    assert c.run(name) == 1 and "num_rows is 0" in c.error()
    c = calls()
    c.config.num_cores = 8
    assert c.run(name) == 2
    sentence = "num_cores is 8, but the operators always take all 40 vector cores of the device; pass 0."
    assert c.error() == sentence
    c = calls()
    c.workspace = c.counters - 32768 - 64  # overlaps only with what CANN takes before the kernel's part
    if name != "match":
        assert c.run(name) == 1 and "overlap" in c.error(), c.error()
""",
        tree,
    )


def fake_kernel(folder: Path) -> Path:
    """A library to preload, which makes the kernel's version FAKE_KERNEL."""
    shim, source = folder / "fake_kernel.so", fake_cann.SOURCES / "fake_kernel.cpp"
    subprocess.run(
        ["g++", "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(shim), "-ldl"], check=True
    )
    return shim


@pytest.mark.parametrize("kernel", ["4.19.90", "5.10.0-60.aarch64", "5.11.0", "6.6.1"])
@pytest.mark.parametrize("huge_pages", [0, 1])
def test_host_memory_is_whole_zeroed_registered_pages(tree, kernel: str, huge_pages: int, tmp_path) -> None:
    """Up to Linux 5.10 it comes from aclrtMallocHost, which gives neither pages nor zeros."""
    shim = fake_kernel(tmp_path)
    code = f"""
for num_bytes in (1, 4096, 5000, (2 << 20) + 1):
    before = acl.FakeAllocations()
    host, alias = host_alloc(num_bytes, {huge_pages})
    assert host % 4096 == 0 and alias == host + (2 << 56) and acl.FakeAllocations() == before + 1
    assert not any((ctypes.c_char * num_bytes).from_address(host).raw)
    ctypes.memset(host, 1, num_bytes)
    library.call("avsg_host_free", host)
    assert acl.FakeAllocations() == before
try:
    library.call("avsg_host_free", host)
except ValueError as error:
    assert "freed already" in str(error)
fail("aclrtHostRegister", 207001, "register ptr failed")
try:
    host_alloc(4096)
except MemoryError as error:
    assert "aclrtHostRegister of 4096 bytes failed with 207001 (register ptr failed)" in str(error)
"""
    old = {"FAKE_OLD_KERNEL": "1"} if kernel.startswith(("4.", "5.10")) else {}
    check(code, {**tree, "LD_PRELOAD": str(shim), "FAKE_KERNEL": kernel, **old})


def test_pinned_memory_is_whole_pages_of_a_kernel_with_pages_of_64_kib(tree, tmp_path) -> None:
    """As on ARM systems with Linux 4.19: the driver refuses memory that is not at a page of the kernel."""
    code = """
for num_bytes in (1, 4096, 65537):
    host, alias = host_alloc(num_bytes)
    assert host % 65536 == 0 and not any((ctypes.c_char * num_bytes).from_address(host).raw)
    library.call("avsg_host_free", host)
"""
    pages = {"FAKE_KERNEL": "4.19.90", "FAKE_OLD_KERNEL": "1", "FAKE_PAGE_BYTES": "65536"}
    check(code, {**tree, "LD_PRELOAD": str(fake_kernel(tmp_path)), **pages})


def test_a_fork_leaves_mapped_host_memory_to_the_parent(tree, tmp_path) -> None:
    """Copy on write would part the process from the pages that the NPU reads: VmFlags dc, no copy on fork."""
    shim = fake_kernel(tmp_path)
    code = """
for huge_pages in (0, 1):
    host, _ = host_alloc(3 << 20, huge_pages)
    maps = Path("/proc/self/smaps").read_text().split("VmFlags:")
    (flags,) = (b.splitlines()[0] for a, b in zip(maps, maps[1:]) if f"{host:x}-" in a)
    assert " dc" in flags, flags
    library.call("avsg_host_free", host)
"""
    check(code, {**tree, "LD_PRELOAD": str(shim), "FAKE_KERNEL": "6.6.1"})
