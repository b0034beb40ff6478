# SPDX-License-Identifier: Apache-2.0
"""Lays out vendors/avsg as it will be installed: CANN's tree, the Python package, libraries and sources."""

from __future__ import annotations

import argparse
import shutil
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("framework", "op_host", "op_kernel")
MADE = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")


def lay_out(tree: Path, wheel: Path, operators: Path | None) -> None:
    """Makes `tree` anew from a wheel and, for NPUs, the packages/vendors/avsg of CANN's build."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    if operators is not None:
        shutil.copytree(operators, tree, symlinks=True, dirs_exist_ok=True)
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, tree / folder, ignore=MADE, dirs_exist_ok=True)
    for folder in ("bin", "include", "lib", "wheel"):
        (tree / folder).mkdir(exist_ok=True)
    shutil.copy(ROOT / "LICENSE", tree)
    shutil.copy(ROOT / "framework" / "c_api" / "avsg.h", tree / "include")
    shutil.copy(Path(__file__).with_name("set_env.bash"), tree / "bin")
    command = Path(shutil.copy(Path(__file__).with_name("avsg_command.py"), tree / "bin" / "avsg"))
    command.chmod(0o755)
    shutil.copy(wheel, tree / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree / "python")
    for library in sorted((tree / "python" / "avsg" / "lib").glob("*.so")):
        (tree / "lib" / library.name).symlink_to(Path("..") / library.relative_to(tree))


def main() -> None:
    """python3 stage.py TREE WHEEL [--operators PACKAGES/VENDORS/AVSG]"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--operators", type=Path)
    lay_out(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
