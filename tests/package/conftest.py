# SPDX-License-Identifier: Apache-2.0
"""Packages to install: the real one, built once by scripts/build.sh, and small ones for what goes wrong."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from package_case import EPOCH, MADE, ROOT, SHELLS, TREE, environment, pack, run, small_tree


@pytest.fixture(scope="session")
def make_small(tmp_path_factory):
    """make_small(version, target="cpu", arch=this machine's): the path of a small package."""

    def make(version: str, target: str = "cpu", arch: str = os.uname().machine, num_files: int = 6) -> Path:
        folder = tmp_path_factory.mktemp("small")
        tree = small_tree(folder / "tree", version, target, num_files)
        facts = {"version": version, "target": target, "arch": arch, "kernels": "", "epoch": int(EPOCH)}
        return pack.pack(tree, folder, **facts)

    return make


@pytest.fixture(scope="session")
def old(make_small) -> Path:
    return make_small("0.9.0")


@pytest.fixture(scope="session")
def new(make_small) -> Path:
    return make_small("0.10.0")


@pytest.fixture(params=SHELLS)
def shell(request) -> list[str]:
    """The command of each POSIX shell that runs installers."""
    if shutil.which(SHELLS[request.param][0]) is None:
        pytest.skip(f"no {request.param} on this machine: apt-get install {request.param}")
    return SHELLS[request.param]


@pytest.fixture(scope="session")
def builder(tmp_path_factory) -> Path:
    """bin of a Python environment that can make the wheel; build.sh then needs no network."""
    folder = tmp_path_factory.mktemp("builder") / "venv"
    run([sys.executable, "-m", "venv", folder])
    run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "setuptools>=77"])
    return folder / "bin"


@pytest.fixture(scope="session")
def built(builder, tmp_path_factory) -> Path:
    """A copy of the sources in which scripts/build.sh has built the CPU package."""
    for tool in ("cmake", "g++", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is needed to build the package")
    tree = tmp_path_factory.mktemp("tree")
    for source in TREE:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tree / source, ignore=MADE)
        else:
            shutil.copy2(ROOT / source, tree / source)
    path = f"{builder}:{os.environ['PATH']}"
    run(["bash", tree / "scripts" / "build.sh"], env=environment(PATH=path, SOURCE_DATE_EPOCH=EPOCH))
    return tree


@pytest.fixture(scope="session")
def package(built) -> Path:
    return next((built / "build" / "package").glob("avsg-*.run"))
