# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any point leaves the old version or the new one, and the next run tidies up."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from package_case import environment, run, snapshot, with_tool

FOREIGN = "# priorities of this machine\nload_priority=first,last\n"
LISTED = FOREIGN.replace("=first", "=avsg,first")
TOOLS = (
    "chmod",
    "cp",
    "df",
    "gzip",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "rmdir",
    "sha256sum",
    "tail",
    "tar",
    "uname",
)


@pytest.fixture
def target(tmp_path) -> Path:
    """A target with two foreign vendors in a config.ini with a comment."""
    for vendor in ("first", "last"):
        (tmp_path / "opp" / "vendors" / vendor).mkdir(parents=True)
        (tmp_path / "opp" / "vendors" / vendor / "kernel.o").write_text(vendor)
    (tmp_path / "opp" / "vendors" / "config.ini").write_text(FOREIGN)
    return tmp_path / "opp"


@pytest.fixture(scope="module")
def trees(old, new, tmp_path_factory) -> dict[str, dict]:
    """What vendors/avsg holds when nothing goes wrong, and without AVSG."""
    clean = {"none": {}}
    for name, package in (("old", old), ("new", new)):
        target = tmp_path_factory.mktemp(name)
        run(["sh", package, f"--install-path={target}"])
        clean[name] = snapshot(target / "vendors" / "avsg")
    return clean


def killing_tools(folder: Path) -> dict[str, str]:
    """An environment of stand-ins for every program of the installer; call number KILL_AT ends them all."""
    text = (
        'printf x >>"$CALLS"\n'
        '[ "$(wc -c <"$CALLS")" -lt "$KILL_AT" ] || kill -9 0\n'
        f'exec env PATH="{os.environ["PATH"]}" "${{0##*/}}" "$@"'
    )
    variables = [with_tool(folder, name, text) for name in TOOLS]
    return variables[0]


def state_of(target: Path, trees: dict) -> str:
    """Which tree is installed: the name of the one that it equals. A mixture equals none."""
    vendors = target / "vendors"
    found = snapshot(vendors / "avsg")
    (name,) = [name for name, tree in trees.items() if tree == found]
    assert (vendors / "config.ini").read_text() in (FOREIGN, LISTED)
    for vendor in ("first", "last"):
        assert [path.read_text() for path in (vendors / vendor).iterdir()] == [vendor]
    return name


def leftovers(target: Path) -> list[str]:
    return sorted(
        {path.name for path in (target / "vendors").iterdir()} - {"avsg", "config.ini", "first", "last"}
    )


def check_healing(target: Path, trees: dict, new: Path) -> None:
    """The next run, whatever it does, finds a whole version and leaves nothing but what it should."""
    copy = target.parent / "copy"
    shutil.copytree(target, copy, symlinks=True)
    run(["sh", new, f"--install-path={target}"])
    assert state_of(target, trees) == "new" and leftovers(target) == []
    assert (target / "vendors" / "config.ini").read_text() == LISTED
    removed = subprocess.run(["sh", new, f"--install-path={copy}", "--uninstall"], capture_output=True)
    assert removed.returncode in (0, 9)
    assert state_of(copy, trees) == "none" and leftovers(copy) == []
    shutil.rmtree(copy)


def start(command: list, variables: dict[str, str]) -> subprocess.Popen:
    """In a process group of its own."""
    command = [str(part) for part in command]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=variables, start_new_session=True, **pipe)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["install", "upgrade", "uninstall"])
def test_kill_before_any_command_leaves_old_or_new(job, target, trees, old, new, make_small, tmp_path):
    """Every program that the installer calls, in turn, is where it dies."""
    tools = killing_tools(tmp_path / "tools")
    allowed = {"install": {"none", "new"}, "upgrade": {"old", "new"}, "uninstall": {"new", "none"}}[job]
    before = {"install": None, "upgrade": old, "uninstall": new}[job]
    shutil.copytree(target, tmp_path / "clean")
    older = make_small("0.1")
    seen, swaps = set(), 0
    for kill_at in range(1, 200):
        shutil.rmtree(target)
        shutil.copytree(tmp_path / "clean", target)
        if before is not None:
            run(["sh", before, f"--install-path={target}"])
        (tmp_path / "calls").write_text("")
        arguments = [f"--install-path={target}"] + (["--uninstall"] if job == "uninstall" else [])
        changes = {**tools, "CALLS": str(tmp_path / "calls"), "KILL_AT": str(kill_at)}
        process = start(["sh", new, *arguments], changes)
        process.communicate()
        state = state_of(target, trees)
        if job == "upgrade" and state == "none":  # between two renames: the old version waits beside
            swaps += 1
            (aside,) = (target / "vendors").glob(".avsg.old.*")
            assert snapshot(aside) == trees["old"]
            run(["sh", new, f"--install-path={target}", "--status"], status=10)
            run(["sh", older, f"--install-path={target}"], status=3)  # a run that is refused brings it back
            assert state_of(target, trees) == "old" and leftovers(target) == []
        else:
            assert state in allowed
            seen.add(state)
        check_healing(target, trees, new)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
    assert kill_at > 8 and seen == allowed and swaps == (1 if job == "upgrade" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["install", "upgrade"])
def test_kill_at_random_moments_leaves_old_or_new(job, target, trees, old, make_small, tmp_path):
    """Twenty moments each, with a package that takes a while; only the shell dies, its children run on."""
    new = make_small("0.10.0", num_files=60)
    run(["sh", new, f"--install-path={tmp_path / 'whole'}"])
    trees = {**trees, "new": snapshot(tmp_path / "whole" / "vendors" / "avsg")}
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    shutil.copytree(target, tmp_path / "clean")
    begin = time.monotonic()
    run(["sh", new, f"--install-path={tmp_path / 'timed'}"])
    duration = time.monotonic() - begin
    for _ in range(20):
        shutil.rmtree(target)
        shutil.copytree(tmp_path / "clean", target)
        if job == "upgrade":
            run(["sh", old, f"--install-path={target}"])
        process = start(["sh", new, f"--install-path={target}"], environment())
        time.sleep(moments.random() * duration)
        process.kill()
        process.communicate()  # until tar and rm, which outlive their shell, have closed the pipe
        found = {path.name: snapshot(path) for path in (target / "vendors").glob(".avsg.old.*")}
        present = (target / "vendors" / "avsg").exists()
        if job == "upgrade" and not present:
            assert list(found.values()) == [trees["old"]], f"seed {seed}"
        else:
            assert state_of(target, trees) in ("none" if job == "install" else "old", "new"), f"seed {seed}"
        check_healing(target, trees, new)
