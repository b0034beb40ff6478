# SPDX-License-Identifier: Apache-2.0
"""libavsg_npu.so finds CANN and the operators at run time, or says what to do (on a fake CANN, no NPU)."""

from __future__ import annotations

import os
import subprocess

import pytest

import avsg
import fake_cann
from avsg import _abi

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


def test_a_pool_of_host_arrays_takes_the_cpu_beside_an_installed_npu_library(monkeypatch) -> None:
    installed = {"npu": fake_cann.NPU_LIBRARY, "cpu": fake_cann.CPU_LIBRARY}
    monkeypatch.setattr(_abi, "find_library", installed.get)
    monkeypatch.delenv("AVSG_LIBRARY", raising=False)
    config = avsg.PoolConfig(1, 64, 8)
    assert avsg.Pool(config).library == "cpu"
    with pytest.raises(ValueError, match="library is npu .*go through the MindSpore and MindIE adapters"):
        avsg.Pool(config, library="npu")
    monkeypatch.setenv("AVSG_LIBRARY", "npu")
    with pytest.raises(ValueError, match="library is npu"):
        avsg.Pool(config)


def test_the_library_needs_nothing_of_cann_to_load() -> None:
    listed = subprocess.run(
        ["ldd", str(fake_cann.NPU_LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    assert not [
        line for line in listed.splitlines() if "acl" in line or "nnopbase" in line or "stdc++" in line
    ]
    assert os.access(fake_cann.NPU_LIBRARY, os.R_OK)
