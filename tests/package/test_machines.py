# SPDX-License-Identifier: Apache-2.0
"""A C caller gets the same bytes on every machine that the libraries are built for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from avsg import _abi

ROOT = Path(__file__).resolve().parents[2]
ARM, EMULATOR, ARM_ROOT = "aarch64-linux-gnu-", "qemu-aarch64", "/usr/aarch64-linux-gnu"


def run(command: list) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_caller(compiler: str, folder: Path) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'framework' / 'c_api'}"]
    run([compiler, *options, Path(__file__).with_name("steps.c"), "-o", folder / "steps", "-ldl"])
    return folder / "steps"


def test_c_caller_gets_the_same_from_both_libraries(tmp_path):
    caller = build_caller("gcc", tmp_path)
    printed = [run([caller, _abi.resolve(name)]) for name in ("cpu", "cpu-checked")]
    assert printed[0] == printed[1]
    assert int(printed[0].split()[1]) > 0


@pytest.mark.slow
def test_aarch64_library_gives_the_same_bytes(tmp_path):
    """Cross-compiled from the same sources and run by an emulator."""
    if shutil.which(EMULATOR) is None or shutil.which("cmake") is None:
        pytest.skip(f"no {EMULATOR} or no cmake on this machine")
    arm_caller = build_caller(f"{ARM}gcc", tmp_path)
    (tmp_path / "native").mkdir()
    native_caller = build_caller("gcc", tmp_path / "native")
    build = tmp_path / "build"
    run(
        ["cmake", "-S", ROOT, "-B", build, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
        + [f"-DCMAKE_CXX_COMPILER={ARM}g++"]
    )
    run(["cmake", "--build", build, "-j2", "--target", "avsg_cpu"])
    printed = run([EMULATOR, "-L", ARM_ROOT, arm_caller, build / "libavsg_cpu.so"])
    assert printed == run([native_caller, _abi.resolve("cpu")])
