# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: running commands, snapshots of folders, a small tree to pack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ("CMakeLists.txt", "LICENSE", "MANIFEST.in", "README.md", "VERSION", "pyproject.toml", "setup.py")
TREE += ("framework", "op_host", "op_kernel", "python", "scripts")
MADE = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
EPOCH = "1700000000"
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
AMBIENT = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
AMBIENT += ("AVSG_LIBRARY", "VIRTUAL_ENV", "CMAKE_GENERATOR")
sys.path.insert(0, str(ROOT / "scripts" / "package"))
pack = import_module("pack")  # the packer is a script, not a package


def environment(**changes: str) -> dict[str, str]:
    """The environment of a user without CANN, with `changes`."""
    return {**{name: value for name, value in os.environ.items() if name not in AMBIENT}, **changes}


def run(command: list, status: int = 0, **options) -> subprocess.CompletedProcess:
    """Runs a command, asserts its exit status and that refusals say something on stderr."""
    options = {"env": environment(), "timeout": 300, **options}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == status, f"status {done.returncode} for {command}: {done.stdout}{done.stderr}"
    assert status == 0 or done.stderr.strip()
    return done


def snapshot(folder: Path) -> dict[str, object]:
    """Every name below `folder` with its mode and content."""
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mode,
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def with_tool(folder: Path, name: str, text: str) -> dict[str, str]:
    """Makes a program of that name, and returns the environment whose PATH has its folder first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return environment(PATH=f"{folder}:{os.environ['PATH']}")


def home_of(root: Path) -> Path:
    return root / "vendors" / "avsg"


def config_of(root: Path) -> Path:
    config = root / "vendors" / "config.ini"
    config.parent.mkdir(parents=True, exist_ok=True)
    return config


def small_tree(folder: Path, version: str, target: str, num_files: int = 6) -> Path:
    """A tree in which every file names its version, so that a mixture shows."""
    for number in range(num_files):
        file = folder / f"op_api/lib/part{number}.so"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{version} {target} part {number}\n" * 2000)
    (folder / "bin").mkdir()
    shutil.copy(ROOT / "scripts" / "package" / "set_env.bash", folder / "bin")
    (folder / "bin" / "alias.so").symlink_to("../op_api/lib/part0.so")
    (folder / f"only_{version}").write_text(version)
    return folder
