# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on shared objects, host memory and probes that crash."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import fake_cann
from avsg.commands import doctor_binary, doctor_device
from avsg.commands.doctor_finding import numbers, run_python


def compile_library(path: Path, source: str, *options: str) -> Path:
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path), *options]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def test_a_library_that_needs_a_newer_c_library_is_named(tmp_path: Path) -> None:
    if not shutil.which("g++") or not shutil.which("nm"):
        pytest.skip("no g++ or nm on this machine: install g++ and binutils")
    library = compile_library(
        tmp_path / "libcust_opapi.so", '#include <cstdio>\nint F() { return puts("a"); }'
    )
    glibc, abi = doctor_binary.check_libraries([library], doctor_binary.this_glibc())
    assert (glibc.state, abi.state) == ("ok", "ok") and "libcust_opapi.so needs 2." in glibc.found
    glibc, _ = doctor_binary.check_libraries([library], "2.1")
    assert glibc.state == "problem" and glibc.advice.endswith("bash scripts/build.sh")
    assert doctor_binary.newest_glibc("U a@GLIBC_2.4\nU b@GLIBC_2.17\n") == "2.17"
    assert doctor_binary.check_libraries([], "2.1") == []


def test_a_host_library_with_the_other_cxx_abi_is_named(tmp_path: Path) -> None:
    if not shutil.which("g++") or not shutil.which("nm"):
        pytest.skip("no g++ or nm on this machine: install g++ and binutils")
    source = "#include <string>\nstd::string Name(const std::string&);\nint F() { return Name({}).size(); }"
    library = compile_library(tmp_path / "libcust_opmaster_rt2.0.so", source)
    old = compile_library(tmp_path / "libcust_opsproto_rt2.0.so", source, "-D_GLIBCXX_USE_CXX11_ABI=0")
    assert doctor_binary.check_libraries([old], "99")[1].state == "ok"
    finding = doctor_binary.check_libraries([old, library], "99")[1]
    assert finding.state == "problem" and "libcust_opmaster_rt2.0.so needs std::__cxx11::" in finding.found


def test_a_missing_nm_and_a_damaged_library_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libcust_opapi.so"
    library.write_bytes(b"\x7fELF")
    if shutil.which("nm"):
        (finding,) = doctor_binary.check_libraries([library], "2.1")
        assert finding.state == "problem" and str(library) in finding.found
    monkeypatch.setattr(shutil, "which", lambda name: None)
    findings = doctor_binary.check_libraries([library], "2.1")
    assert {finding.state for finding in findings} == {"absent"}
    assert {finding.advice for finding in findings} == {"To look into libraries: install binutils."}


@pytest.mark.parametrize(
    ("failure", "state", "words"),
    [
        ({}, "ok", "can address registered host memory"),
        ({"FAKE_FAIL": "aclrtHostRegister=207001"}, "problem", "aclrtHostRegister of 2097152 bytes failed"),
        ({"FAKE_FAIL": "aclrtSetDevice=107001"}, "problem", "device 0 cannot be opened (code 107001 planned"),
        ({"LD_LIBRARY_PATH": ""}, "problem", "source the set_env.sh of the CANN toolkit"),
    ],
    ids=str,
)
def test_host_memory_is_registered_where_there_is_a_device(
    tmp_path: Path, failure: dict[str, str], state: str, words: str
) -> None:
    tree = fake_cann.make_tree(tmp_path)
    path = {"LD_LIBRARY_PATH": f"{tree['ASCEND_HOME_PATH']}/lib64"}
    code = (
        "from avsg.commands.doctor_device import check_host_memory\nfrom fake_cann import NPU_LIBRARY\n"
        "(finding,) = check_host_memory(True, NPU_LIBRARY)\nprint(finding.state, finding.found)"
    )
    done = fake_cann.run_python(code, **{**tree, **path, **failure})
    assert done.stdout.startswith(state + " ") and words in done.stdout, done.stdout + done.stderr
    assert doctor_device.check_host_memory(False, None) == []
    assert doctor_device.check_host_memory(True, None)[0].state == "absent"


def test_a_probe_that_crashes_or_hangs_is_a_reason() -> None:
    assert run_python("import os; os.abort()") == "ended by signal 6"
    assert run_python("import time; time.sleep(30)", timeout=0.2) == "no answer within 0 s"
    assert run_python("raise SystemExit(3)") == "ended with status 3"
    assert numbers("8.3.RC1") == (8, 3, 1) and numbers("2.17") > numbers("2.4")
