# SPDX-License-Identifier: Apache-2.0
"""python -m avsg.torch_ops: from a source tree, from an installed package, and when it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_case  # noqa: F401  builds the extension

import avsg
from avsg.torch_ops import extension

ROOT = Path(__file__).resolve().parents[2]
USE = """import torch, avsg
from avsg.torch_ops import TorchPool
pool = TorchPool(avsg.PoolConfig(1, 64, 8), max_entries=1)
one = torch.ones(1, dtype=torch.int32)
plan = pool.match(torch.arange(8, dtype=torch.int32)[None, None], 9 * one, 9 * one, one, 0 * one)
print(avsg.__file__, plan.num_misses.item())
"""


def run(*command: object, path: Path | None = None) -> str:
    environment = {**os.environ, **({} if path is None else {"PYTHONPATH": str(path)})}
    line = [str(part) for part in command]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, cwd=path or ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_second_build_does_nothing(monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert extension.build() == extension.extension_path() == extension.built_extension()
    assert extension.extension_path().name == f"libavsg_torch-{torch.__version__}.so"


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(extension, "_directory", lambda: tmp_path / "lib")
    return tmp_path / "lib"


def test_a_missing_extension_names_the_command(empty):
    with pytest.raises(
        avsg.LibraryNotFoundError, match="has none: run `python -m avsg.torch_ops` to build it"
    ):
        extension.built_extension()


def test_an_extension_of_another_torch_is_not_taken(empty):
    """The version is in the name, because a wrong one would crash instead of raising."""
    empty.mkdir()
    (empty / "libavsg_torch-1.0.0.so").touch()
    sentence = (
        f"for torch {re.escape(torch.__version__)} is .*has only libavsg_torch-1.0.0.so, for another torch"
    )
    with pytest.raises(avsg.LibraryNotFoundError, match=sentence):
        extension.built_extension()


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(empty, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(avsg.LibraryError, match=r"did not compile with torch .*\nfalse -std="):
        extension.build()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(avsg.LibraryError, match="no-such-compiler is missing: install g\\+\\+ or set CXX"):
        extension.build()
    assert list(empty.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(extension, "_directory", lambda: tmp_path / "file" / "lib")
    with pytest.raises(
        avsg.LibraryError, match="lib cannot be written .*run `python -m avsg.torch_ops` as the user"
    ):
        extension.build()


def test_a_package_without_sources_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(extension, "_PACKAGE_DIR", tmp_path / "python" / "avsg")
    with pytest.raises(avsg.LibraryNotFoundError, match="are not in .*: install the whole wheel"):
        extension.source_root()


def test_the_command_reports_a_failure(empty, capsys, monkeypatch):
    from avsg.torch_ops.__main__ import main

    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main() == 1 and "no-such-compiler is missing" in capsys.readouterr().err


@pytest.mark.slow
def test_an_installed_package_builds_and_runs(tmp_path):
    """The wheel's content alone, away from the source tree."""
    installed = tmp_path / "installed"
    run(sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", installed)
    run(sys.executable, "-m", "avsg.torch_ops", path=installed)
    assert run(sys.executable, "-c", USE, path=installed).split() == [
        str(installed / "avsg" / "__init__.py"),
        "8",
    ]
