# SPDX-License-Identifier: Apache-2.0
"""Trees of the fake CANN of tests/ut/npu, for tests that run libavsg_npu.so in a process of its own."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("npu")
BUILD = ROOT / "build" / "fake_cann"
NPU_LIBRARY = ROOT / "build" / "npu" / "libavsg_npu.so"
CPU_LIBRARY = ROOT / "build" / "libavsg_cpu.so"
PACKAGE = ("fake_operators.cpp", "fake_package.cpp")


def _compile(target: str, sources: tuple[str, ...], *options: str) -> Path:
    """A shared object of tests/ut/npu, made again when a source is newer."""
    path = BUILD / target
    inputs = [SOURCES / name for name in (*sources, "fake_cann.h", "fake_package.h")]
    if path.exists() and path.stat().st_mtime > max(source.stat().st_mtime for source in inputs):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", f"-Wl,-soname,{path.name}"]
    command += [f"-I{ROOT / 'framework' / 'c_api'}", *map(str, inputs[: len(sources)]), "-o", str(path)]
    subprocess.run([*command, *options, "-ldl"], check=True)
    return path


@functools.cache
def libraries() -> dict[str, Path]:
    """The fake's shared objects by file name, and libavsg_npu.so built; skips where there are no tools."""
    for tool in ("g++", "cmake"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on this machine: install it to run the NPU library on the fake CANN")
    build = ["cmake", "--build", str(ROOT / "build"), "--target", "avsg_npu"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    runtime = _compile("libascendcl.so", ("fake_runtime.cpp",))
    base = _compile("libnnopbase.so", ("fake_nnopbase.cpp",), str(runtime))
    cpu = (f'-DAVSG_CPU_LIBRARY="{CPU_LIBRARY}"', str(runtime))
    whole = _compile("package/libcust_opapi.so", PACKAGE, *cpu)
    old = _compile("old/libcust_opapi.so", PACKAGE, *cpu, "-DFAKE_OLD_PACKAGE")
    return {"libascendcl.so": runtime, "libnnopbase.so": base, "libcust_opapi.so": whole, "old": old}


def add_vendor(vendors: Path, name: str, library: Path) -> Path:
    """A vendor directory with this libcust_opapi.so; the last one added comes first in load_priority."""
    folder = vendors / name / "op_api" / "lib"
    folder.mkdir(parents=True)
    (folder / "libcust_opapi.so").symlink_to(library)
    config = vendors / "config.ini"
    others = config.read_text().strip().partition("=")[2] if config.exists() else ""
    config.write_text(f"load_priority={','.join(filter(None, [name, others]))}\n")
    return vendors / name


def make_tree(directory: Path, vendor: str = "libcust_opapi.so") -> dict[str, str]:
    """A toolkit and an OPP directory with the vendor avsg; the environment that finds them."""
    home, opp = directory / "toolkit", directory / "opp"
    (home / "lib64").mkdir(parents=True)
    for name in ("libascendcl.so", "libnnopbase.so"):
        (home / "lib64" / name).symlink_to(libraries()[name])
    add_vendor(opp / "vendors", "avsg", libraries()[vendor])
    return {"ASCEND_HOME_PATH": str(home), "ASCEND_OPP_PATH": str(opp)}


def clean_environment(**variables: str) -> dict[str, str]:
    """This environment without anything of CANN, with these variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "FAKE_", "AVSG_"))}
    kept["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests" / "ut")])
    return {**kept, **variables}


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that sees only this CANN."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=clean_environment(**variables),
        timeout=120,
    )
