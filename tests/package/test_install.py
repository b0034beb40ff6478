# SPDX-License-Identifier: Apache-2.0
"""From scripts/build.sh to an installed, used, upgraded and removed package, in each POSIX shell."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from package_case import EPOCH, ROOT, environment, pack, run, snapshot

pytestmark = pytest.mark.slow
VERSION = (ROOT / "VERSION").read_text().strip()


def packed_again(built: Path, folder: Path, version: str) -> Path:
    """The tree that the build has laid out, as a package of another version."""
    tree = shutil.copytree(built / "build" / "packing" / "avsg", folder / "tree", symlinks=True)
    arch = os.uname().machine
    return pack.pack(tree, folder, version=version, target="cpu", arch=arch, kernels="", epoch=int(EPOCH))


def sourced(home: Path, command: str, folder: Path) -> str:
    """Runs a command in bash -eu after sourcing set_env.bash, with this interpreter as python."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = f'source "$1"; cd "$2"; {command}'
    arguments = [home / "bin" / "set_env.bash", folder]
    return run(["bash", "-euc", script, "bash", *arguments], env=environment(PATH=path)).stdout


def test_package_from_build_to_nothing_left(built, package, shell, tmp_path):
    """build.sh, install below a path with a space, import, replay, --status, upgrade, refusal, uninstall."""
    target = tmp_path / "my operators"
    home = target / "vendors" / "avsg"
    at = f"--install-path={target}"

    said = run([*shell, package, at]).stdout
    assert f"AVSG {VERSION} for cpu is installed in {home}" in said
    assert (target / "vendors" / "config.ini").read_text() == "load_priority=avsg\n"

    imported = sourced(
        home, 'python -c "import avsg; print(avsg.__file__); print(avsg.__version__)"', tmp_path
    )
    assert imported.splitlines() == [f"{home}/python/avsg/__init__.py", VERSION]
    replayed = sourced(home, "avsg replay agent_L09_K256 --slots 4x --policy avsg", tmp_path)
    assert "agent_L09_K256" in replayed and " 0 of " in replayed
    assert f"avsg {VERSION}" in sourced(home, "avsg --version", tmp_path)

    status = run([*shell, package, at, "--status"]).stdout
    assert f"AVSG {VERSION} for cpu on {os.uname().machine} in {home}" in status
    assert "All files are as installed. Vendors, first wins: avsg" in status

    newer = packed_again(built, tmp_path / "newer", "99.0")
    run([*shell, newer, at])
    assert "AVSG 99.0 for cpu" in run([*shell, home / "scripts" / "uninstall.sh", "--status"]).stdout
    before = snapshot(target)
    refused = run([*shell, package, at], status=3).stderr
    assert refused == f"AVSG 99.0 in {home} is newer than {VERSION}: keep it, or use --force.\n"
    assert snapshot(target) == before

    run([*shell, home / "scripts" / "uninstall.sh"])
    assert list(target.iterdir()) == []


def test_c_caller_links_the_installed_library(package, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    run(["sh", package, f"--install-path={tmp_path / 'opp'}", "--quiet"])
    home = tmp_path / "opp" / "vendors" / "avsg"
    source = Path(__file__).with_name("steps.c")
    run(["gcc", f"-I{home / 'include'}", source, "-o", tmp_path / "steps", "-ldl"])
    printed = sourced(home, f"{tmp_path}/steps libavsg_cpu.so", tmp_path)
    assert int(printed.split()[1]) > 0


def test_package_holds_wheel_libraries_header_and_sources(package, tmp_path):
    run(["sh", package, f"--install-path={tmp_path}"])
    home = tmp_path / "vendors" / "avsg"
    listed = [line.split("  ", 1)[1] for line in (home / "MANIFEST.sha256").read_text().splitlines()]
    assert sorted(listed) == listed
    present = {path for path in snapshot(home) if not (home / path).is_dir()}
    assert present == {*listed, "MANIFEST.sha256", "version.info"}
    assert f"wheel/avsg-{VERSION}-py3-none-linux_{os.uname().machine}.whl" in listed
    for folder in ("framework", "op_host", "op_kernel"):
        sources = {
            path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.cpp") if path.is_file()
        }
        assert sources and sources <= set(listed)
    assert {"lib/libavsg_cpu.so", "include/avsg.h", "LICENSE", "bin/avsg"} <= set(listed)
    assert (home / "include" / "avsg.h").read_bytes() == (ROOT / "framework/c_api/avsg.h").read_bytes()


def test_installed_wheel_is_the_unpacked_package(package, tmp_path):
    run(["sh", package, f"--install-path={tmp_path}"])
    home = tmp_path / "vendors" / "avsg"
    shutil.unpack_archive(next((home / "wheel").glob("*.whl")), tmp_path / "wheel", "zip")
    contents = [
        {name: entry[1] for name, entry in snapshot(folder).items()}
        for folder in (home / "python", tmp_path / "wheel")
    ]
    assert contents[0] == contents[1]


def test_command_names_what_python_lacks(package, tmp_path):
    run(["sh", package, f"--install-path={tmp_path}"])
    command = tmp_path / "vendors" / "avsg" / "bin" / "avsg"
    # -S: without site-packages
    refused = run([sys.executable, "-I", "-S", command, "--help"], status=1).stderr
    python = sys.executable
    assert refused == (
        f"avsg needs click, numpy, rich, which {python} does not have: run {python} -m pip install "
        "click numpy rich.\n"
    )
