# SPDX-License-Identifier: Apache-2.0
"""libavsg_npu.so finds CANN and the operators at run time, or says what to do (on a fake CANN, no NPU)."""

from __future__ import annotations

import os
import subprocess

import pytest

import fake_cann

SMALL_WORKSPACE = {"FAKE_WORKSPACE": str(64 << 10)}  # so that it fits the arena of abi_calls.py
TRY = """
from avsg import _abi
from fake_cann import NPU_LIBRARY
import ctypes, os
acl = os.environ.get("ASCEND_HOME_PATH", "") + "/lib64/libascendcl.so"
if os.path.exists(acl) and not os.environ.get("NO_DEVICE"):
    ctypes.CDLL(acl).aclrtSetDevice(0)
library = _abi.load(NPU_LIBRARY)
code = library.dll.avsg_sizes(_abi.Config(num_rows=1, num_slots=64, top_k=8, num_queries=1, max_life=9),
                              _abi.SizeReport())
print(code, library.dll.avsg_last_error().decode())
"""


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    fake_cann.libraries()


@pytest.fixture
def tree(tmp_path):
    return fake_cann.make_tree(tmp_path)


def outcome(**environment: str) -> tuple[int, str]:
    """Code and sentence of avsg_sizes in a process of its own."""
    done = fake_cann.run_python(TRY, **environment)
    assert done.returncode == 0, done.stderr
    code, _, sentence = done.stdout.strip().partition(" ")
    return int(code), sentence


def check(code: str, environment: dict[str, str]) -> str:
    """Runs code after npu_process.py, asserts included; returns what it prints."""
    done = fake_cann.run_python("from npu_process import *\n" + code, **environment, **SMALL_WORKSPACE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_machine_without_cann_is_told_so_by_every_call() -> None:
    code = """
import ctypes
from avsg import _abi
from fake_cann import NPU_LIBRARY
library = _abi.load(NPU_LIBRARY)
for name, arguments in (("sizes", 2), ("match", 6), ("load", 9), ("step_fused", 10), ("store", 10),
                        ("host_alloc", 4), ("host_free", 1)):
    function = getattr(library.dll, "avsg_" + name)
    function.argtypes = None
    print(function(*[None] * arguments), library.dll.avsg_last_error().decode())
"""
    lines = fake_cann.run_python(code).stdout.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("2 CANN was not found (libascendcl.so: ") for line in lines)
    assert all("source the set_env.sh of a CANN toolkit" in line and line.endswith(".") for line in lines)


def test_the_toolkit_of_the_environment_is_found(tree) -> None:
    assert outcome(**tree) == (0, "")


def test_a_toolkit_without_its_second_library_is_named(tree, tmp_path) -> None:
    (tmp_path / "toolkit" / "lib64" / "libnnopbase.so").unlink()
    code, sentence = outcome(**tree)
    assert code == 2 and "libnnopbase.so" in sentence and "set_env.sh" in sentence


def test_a_function_that_cann_lacks_is_named(tree, tmp_path) -> None:
    other = tmp_path / "toolkit" / "lib64" / "libnnopbase.so"
    other.unlink()
    subprocess.run(["g++", "-shared", "-xc++", "/dev/null", "-o", str(other)], check=True)
    expected = (
        "This CANN has no function aclCreateTensor; install CANN 8.3.RC1 or later and source its set_env.sh."
    )
    assert outcome(**tree) == (2, expected)


def test_no_package_names_every_place_that_was_searched(tree, tmp_path) -> None:
    (tmp_path / "opp" / "vendors" / "avsg" / "op_api" / "lib" / "libcust_opapi.so").unlink()
    code, sentence = outcome(**tree, ASCEND_CUSTOM_OPP_PATH=f"{tmp_path / 'elsewhere'}:")
    assert code == 2 and sentence.startswith("No operator package with the operators of AVSG was found (")
    first = sentence.index(f"{tmp_path}/elsewhere/op_api/lib/libcust_opapi.so does not exist")
    assert first < sentence.index(f"{tmp_path}/opp/vendors/avsg/op_api/lib/libcust_opapi.so does not exist")
    assert sentence.endswith(
        "install the .run of AVSG for this CANN and source its set_env.bash before this process starts."
    )


def test_a_package_without_an_operator_is_passed_over_for_a_later_vendor(tree, tmp_path) -> None:
    fake_cann.add_vendor(tmp_path / "opp" / "vendors", "other", fake_cann.libraries()["old"])
    assert (tmp_path / "opp" / "vendors" / "config.ini").read_text() == "load_priority=other,avsg\n"
    assert outcome(**tree) == (0, "")


def test_an_old_package_alone_is_told_which_operator_it_lacks(tmp_path) -> None:
    code, sentence = outcome(**fake_cann.make_tree(tmp_path, "old"))
    assert code == 2 and "vendors/avsg/op_api/lib/libcust_opapi.so has no aclnnAvsgStore" in sentence


def test_the_custom_path_comes_before_the_vendors_and_the_library_path_comes_last(tmp_path) -> None:
    tree = fake_cann.make_tree(tmp_path, "old")
    whole = fake_cann.add_vendor(
        tmp_path / "custom" / "vendors", "avsg", fake_cann.libraries()["libcust_opapi.so"]
    )
    assert outcome(**tree, ASCEND_CUSTOM_OPP_PATH=f"{tmp_path / 'none'}:{whole}:") == (0, "")
    assert outcome(**tree, LD_LIBRARY_PATH=str(whole / "op_api" / "lib")) == (0, "")


def test_a_thread_without_a_device_is_told_to_set_one(tree) -> None:
    expected = (
        "aclrtGetDevice failed with 107002 (EE1001: the current context is null. Possible Cause: none is "
        "set); call aclrtSetDevice in this thread first."
    )
    assert outcome(**tree, NO_DEVICE="1") == (2, expected)


@pytest.mark.parametrize(
    ("chip", "code"), [("Ascend910B4-1", 0), ("Ascend910_9391", 0), ("Ascend310P3", 2), ("Ascend910A", 2)]
)
def test_only_chips_with_kernels_are_taken(tree, chip: str, code: int) -> None:
    got, sentence = outcome(**tree, FAKE_SOC=chip)
    assert got == code
    assert (f"The device is {chip}, but AVSG has kernels for" in sentence) == (code == 2)


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
    assert 200 < len(c.library.avsg_last_error()) < 400 and "\\u9519..." in c.error()
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


@pytest.mark.parametrize("kernel", ["4.19.90", "5.10.0-60.aarch64", "5.11.0", "6.6.1"])
@pytest.mark.parametrize("huge_pages", [0, 1])
def test_host_memory_is_whole_zeroed_registered_pages(tree, kernel: str, huge_pages: int, tmp_path) -> None:
    """Up to Linux 5.10 it comes from aclrtMallocHost, which gives neither pages nor zeros."""
    shim = tmp_path / "fake_kernel.so"
    source = fake_cann.SOURCES / "fake_kernel.cpp"
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(shim)], check=True)
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


def test_the_library_needs_nothing_of_cann_to_load() -> None:
    listed = subprocess.run(
        ["ldd", str(fake_cann.NPU_LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    assert not [
        line for line in listed.splitlines() if "acl" in line or "nnopbase" in line or "stdc++" in line
    ]
    assert os.access(fake_cann.NPU_LIBRARY, os.R_OK)
