# SPDX-License-Identifier: Apache-2.0
"""Copies the sources that a package is built from; the build sees nothing else and leaves the tree alone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ("CMakeLists.txt", "LICENSE", "MANIFEST.in", "README.md", "VERSION", "pyproject.toml", "setup.py")
FOLDERS = ("framework", "op_host", "op_kernel", "python")
MADE = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")


def mirror(copy: Path) -> None:
    """Makes the sources in `copy` those of the tree, with fixed modes and the same times; builds stay."""
    copy.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy2(ROOT / name, copy / name)
    for name in FOLDERS:
        shutil.rmtree(copy / name, ignore_errors=True)
        shutil.copytree(ROOT / name, copy / name, ignore=MADE)
    for path in [copy / name for name in FILES] + [
        path for name in FOLDERS for path in (copy / name).rglob("*")
    ]:
        path.chmod(0o755 if path.is_dir() else 0o644)


if __name__ == "__main__":
    mirror(Path(sys.argv[1]))
