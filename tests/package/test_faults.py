# SPDX-License-Identifier: Apache-2.0
"""Damaged packages, targets that cannot take one, installers at once: refused, with nothing changed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from package_case import run, snapshot, with_tool

NOBODY = 65534
BOOT_END = b"\n} #\n"
LINE_ENDS = "The line ends of this file were changed: copy it again as binary data.\n"
NO_FILE = "AVSG installs from a file, not from a pipe: save it, then run sh FILE --help.\n"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount and to become another user")


def damaged(package: Path, content: bytes, folder: Path) -> Path:
    copy = folder / package.name
    copy.write_bytes(content)
    return copy


@pytest.fixture
def mounted(tmp_path):
    """mounted(options): a small tmpfs in the test's folder."""
    folders = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"mount{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("this container may not mount a tmpfs: run it with CAP_SYS_ADMIN")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        run(["umount", folder])


@pytest.fixture
def open_folder():
    """A folder that other users can enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_flipped_byte_is_refused_before_anything_is_written(shell, new, tmp_path):
    content = new.read_bytes()
    first = content.index(BOOT_END) + len(BOOT_END)
    seed = random.randrange(1 << 30)
    chosen = random.Random(seed)
    script_end = content.index(b'exit "$?"\n', first)
    places = [first, script_end, len(content) - 1]
    places += [chosen.randrange(first, script_end) for _ in range(6)]
    places += [chosen.randrange(script_end, len(content)) for _ in range(6)]
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << chosen.randrange(8)
        package = damaged(new, bytes(flipped), tmp_path)
        refused = run([*shell, package, f"--install-path={tmp_path / 'opp'}"], status=7, cwd=tmp_path)
        assert refused.stderr == (
            f"{package} is damaged: some of its bytes are not those that were built; copy it again.\n"
        ), f"byte {place}, seed {seed}"
        assert not (tmp_path / "opp").exists()


def test_flipped_byte_in_the_first_block_never_installs_another_tree(new, tmp_path):
    """The block that checks the rest cannot check itself: a flip there fails, or changes its text only."""
    content = new.read_bytes()
    run(["sh", new, f"--install-path={tmp_path / 'whole'}"])
    whole = snapshot(tmp_path / "whole")
    end = content.index(BOOT_END) + len(BOOT_END)
    for place in random.Random(7).sample(range(end), 60):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        package = damaged(new, bytes(flipped), tmp_path)
        command = ["sh", str(package), f"--install-path={tmp_path / 'opp'}"]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert (done.returncode == 0) == (tmp_path / "opp").exists(), f"byte {place}"
        if done.returncode == 0:
            assert snapshot(tmp_path / "opp") == whole, f"byte {place}"
            shutil.rmtree(tmp_path / "opp")


def test_truncated_file_is_refused_before_anything_is_written(shell, new, tmp_path):
    content = new.read_bytes()
    end = content.index(BOOT_END) + len(BOOT_END)
    for length in (end // 2, end - 5, end, end + 1, end + 5000, len(content) // 2, len(content) - 1):
        package = damaged(new, content[:length], tmp_path)
        status = 7 if length >= end else 2  # a block without its end is the shell's own refusal
        run([*shell, package, f"--install-path={tmp_path / 'opp'}"], status=status)
        assert not (tmp_path / "opp").exists()


def test_changed_line_ends_and_appended_bytes_are_refused(shell, new, tmp_path):
    content = new.read_bytes()
    package = damaged(new, content.replace(b"\n", b"\r\n"), tmp_path)
    assert run([*shell, package, "--check"], status=7).stderr == LINE_ENDS
    package = damaged(new, content + b"\n", tmp_path)
    assert "is damaged" in run([*shell, package, "--check"], status=7).stderr


def test_pipe_is_refused(shell, new, tmp_path):
    with new.open() as file:
        assert run(shell, status=7, stdin=file, cwd=tmp_path).stderr == NO_FILE
    assert list(tmp_path.iterdir()) == []


def test_missing_program_is_named(new, tmp_path):
    for name in ("sh", "gzip"):
        (tmp_path / name).symlink_to(shutil.which(name))
    refused = run(["/bin/sh", new, "--check"], status=1, env={"PATH": str(tmp_path)}).stderr
    assert refused == "The program dirname is missing: install it or add it to PATH, then try again.\n"


@ROOT_ONLY
def test_target_of_another_user_is_refused(shell, new, open_folder):
    """As a user without rights: a directory of root, and one of their own, which works."""
    package = shutil.copy(new, open_folder / "package.run")
    (open_folder / "roots").mkdir()
    (open_folder / "own").mkdir()
    os.chown(open_folder / "own", NOBODY, NOBODY)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    refused = run(
        [*shell, package, f"--install-path={open_folder / 'roots'}"], status=5, cwd="/", **user
    ).stderr
    assert refused.startswith(f"{open_folder / 'roots'} cannot be written by user nobody: ")
    assert list((open_folder / "roots").iterdir()) == []
    run([*shell, package, f"--install-path={open_folder / 'own'}"], cwd="/", **user)
    run([*shell, open_folder / "own/vendors/avsg/scripts/uninstall.sh"], cwd="/", **user)
    assert list((open_folder / "own").iterdir()) == []


@ROOT_ONLY
def test_read_only_target_is_refused(shell, old, new, mounted):
    target = mounted("size=4m")
    run(["sh", old, f"--install-path={target}"])
    before = snapshot(target)
    run(["mount", "-o", "remount,ro", target])
    refused = run([*shell, new, f"--install-path={target}"], status=5).stderr
    assert refused.startswith(f"{target}/vendors cannot be written by user root: ")
    run([*shell, new, f"--install-path={target}", "--uninstall"], status=5)
    assert snapshot(target) == before


@ROOT_ONLY
def test_full_target_is_refused_and_keeps_the_old_version(shell, old, new, mounted, tmp_path):
    target = mounted("size=1m")
    run(["sh", old, f"--install-path={target}"])
    free = os.statvfs(target).f_bavail * os.statvfs(target).f_frsize
    (target / "filler").write_bytes(b"x" * (free - 60_000))
    before = snapshot(target)
    refused = run([*shell, new, f"--install-path={target}"], status=6).stderr
    assert f"{target}/vendors has " in refused and "make room" in refused
    assert snapshot(target) == before
    # A quota shows in no df: unpacking fails, then.
    roomy = with_tool(tmp_path, "df", "echo tmpfs 1000000 0 1000000 0% /")
    refused = run([*shell, new, f"--install-path={target}"], status=6, env=roomy).stderr
    assert "AVSG could not be unpacked" in refused
    assert snapshot(target) == before


def test_file_that_changes_on_the_way_to_the_disk_is_refused(shell, old, new, tmp_path):
    at = f"--install-path={tmp_path / 'opp'}"
    run([*shell, old, at])
    before = snapshot(tmp_path / "opp")
    changed = with_tool(tmp_path, "tar", f'{shutil.which("tar")} "$@" && echo x >>op_api/lib/part2.so')
    assert run([*shell, new, at], status=7, env=changed).stderr == (
        "These files of the package do not have their hash, so nothing was changed: op_api/lib/part2.so\n"
    )
    assert snapshot(tmp_path / "opp") == before
