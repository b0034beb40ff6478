# SPDX-License-Identifier: Apache-2.0
"""The NPU operators of torch over a stand-in of torch_npu, whose NPU is the CPU and whose queue waits.

It shows the order, the refusals and the addresses of framework/torch/ops_npu.cpp; no NPU has run it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils.cpp_extension import include_paths, library_paths

from avsg import _abi

ROOT = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).parent / "torch_npu_standin"
CHECKS = re.findall(r"^def (check_\w+)", (STANDIN / "checks.py").read_text(), re.M)
INIT = """import pathlib, torch
torch.ops.load_library(str(pathlib.Path(__file__).parent / "lib" / "libtorch_npu.so"))
torch.utils.rename_privateuse1_backend("npu")
"""


def compile_library(source: Path, output: Path, *flags: str) -> None:
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, "-O1", "-fPIC", "-shared", str(source), *flags, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, str]:
    """An environment with the stand-in as its torch_npu, and the results of all checks there."""
    site = tmp_path_factory.mktemp("site")
    package, metadata = site / "torch_npu", site / "torch_npu-0.0.dist-info"
    (package / "lib").mkdir(parents=True)
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 0.0\n")
    (package / "__init__.py").write_text(INIT)
    (package / "include").symlink_to(STANDIN / "include")
    torch_flags = [flag for folder in include_paths() for flag in ("-isystem", folder)]
    torch_flags += [f"-L{folder}" for folder in library_paths()] + [f"-I{STANDIN / 'include'}", "-std=c++20"]
    links = ("-ltorch", "-ltorch_cpu", "-lc10", "-Wl,-soname,libtorch_npu.so")
    compile_library(STANDIN / "torch_npu.cpp", package / "lib" / "libtorch_npu.so", *torch_flags, *links)
    real = f'-DAVSG_REAL_LIBRARY="{_abi.find_library("cpu")}"'
    library = site / "libavsg_npu.so"
    compile_library(STANDIN / "avsg_npu.cpp", library, real, f"-I{ROOT / 'framework' / 'c_api'}")
    paths = [site, ROOT / "python", ROOT / "tests" / "st", ROOT / "tests" / "ut"]
    environment = {**os.environ, "PYTHONPATH": ":".join(str(path) for path in paths)}
    command = [sys.executable, STANDIN / "checks.py", site, library]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_npu(results, check):
    assert results[check] == "", results[check]
