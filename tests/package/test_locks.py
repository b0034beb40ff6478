# SPDX-License-Identifier: Apache-2.0
"""Several installers at once, locks of dead ones, and signals: one whole version stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from package_case import environment, run, snapshot, with_tool


def waiting_tar(folder: Path) -> dict[str, str]:
    """A tar that waits for the file `go` before it unpacks, and a sleep that takes no time."""
    with_tool(folder, "sleep", "")
    return with_tool(
        folder,
        "tar",
        'HERE=${0%/*}\ntouch "$HERE/waits"\n'
        f'while [ ! -e "$HERE/go" ]; do {shutil.which("sleep")} 0.01; done\n'
        f'exec {shutil.which("tar")} "$@"',
    )


def test_second_installer_waits_or_is_refused(shell, old, new, tmp_path):
    """While one unpacks, another gives up after its time and changes nothing; then both may come."""
    tools = tmp_path / "tools"
    changed = waiting_tar(tools)
    at = f"--install-path={tmp_path / 'opp'}"
    first = subprocess.Popen([*shell, str(old), at], env=changed, stdout=subprocess.DEVNULL)
    try:
        while not (tools / "waits").exists():
            assert first.poll() is None
            time.sleep(0.01)
        refused = run([*shell, new, at], status=8, env=changed, timeout=60).stderr
        assert f"Another installer (process {first.pid}) is at work in {tmp_path}/opp/vendors: " in refused
        second = subprocess.Popen([*shell, str(new), at], env=environment(), stdout=subprocess.DEVNULL)
    finally:
        (tools / "go").touch()
    assert (first.wait(), second.wait()) == (0, 0)
    assert f"AVSG 0.10.0 for cpu on {os.uname().machine}" in run([*shell, new, at, "--status"]).stdout
    assert sorted(path.name for path in (tmp_path / "opp" / "vendors").iterdir()) == ["avsg", "config.ini"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_signal_while_unpacking_leaves_the_old_version(shell, old, new, tmp_path, number):
    tools = tmp_path / "tools"
    changed = waiting_tar(tools)
    at = f"--install-path={tmp_path / 'opp'}"
    run([*shell, old, at])
    before = snapshot(tmp_path / "opp")
    process = subprocess.Popen([*shell, str(new), at], env=changed, start_new_session=True)
    while not (tools / "waits").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, number)
    assert process.wait() == 128 + number
    assert snapshot(tmp_path / "opp") == before


@pytest.mark.parametrize("option", ["--quiet", "--uninstall"])
def test_signal_while_renaming_is_too_late(shell, old, new, tmp_path, option):
    """A mv that sends SIGTERM to its shell: what has begun to change is finished."""
    at = f"--install-path={tmp_path / 'opp'}"
    run([*shell, old, at])
    signalling = with_tool(tmp_path, "mv", f'kill -TERM $PPID\nexec {shutil.which("mv")} "$@"')
    run([*shell, new, at, option], env=signalling)
    run([*shell, new, at, "--status"], status=0 if option == "--quiet" else 9)
    assert list((tmp_path / "opp").rglob(".avsg*")) == []


@pytest.mark.slow
def test_many_installers_at_once_leave_one_whole_version(old, new, tmp_path):
    at = f"--install-path={tmp_path / 'opp'}"
    commands = [["sh", old, at, "--force"], ["sh", new, at], ["sh", new, at, "--uninstall"]] * 2
    running = [
        subprocess.Popen([str(part) for part in command], env=environment(), stdout=subprocess.DEVNULL)
        for command in commands
    ]
    assert {process.wait() for process in running} <= {0, 9}
    run(["sh", new, at, "--force"])
    run(["sh", new, at, "--status"])
    assert sorted(path.name for path in (tmp_path / "opp" / "vendors").iterdir()) == ["avsg", "config.ini"]


def test_lock_of_a_dead_process_is_taken_over(shell, new, tmp_path):
    """Also where its number belongs to another process now, and where it died on another machine long ago."""
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    namespace = os.readlink("/proc/self/ns/pid")[5:-1]
    here = f"{os.uname().nodename}-{namespace}"
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    abroad = vendors / ".avsg.lock.elsewhere-1.77.5"
    for lock in (
        vendors / f".avsg.lock.{here}.{int(dead.stdout)}.1",
        vendors / f".avsg.lock.{here}.1.1",
        abroad,
    ):
        lock.touch()
    os.utime(abroad, (1, 1))
    run([*shell, new, f"--install-path={tmp_path}"])
    assert sorted(path.name for path in vendors.iterdir()) == ["avsg", "config.ini"]


def test_lock_of_another_machine_is_respected(new, tmp_path):
    lock = tmp_path / "opp" / "vendors" / ".avsg.lock.elsewhere-1.77.5"
    lock.parent.mkdir(parents=True)
    lock.touch()
    changed = waiting_tar(tmp_path / "tools")
    refused = run(["sh", new, f"--install-path={tmp_path / 'opp'}"], status=8, env=changed).stderr
    assert f"if none runs, remove {lock}." in refused
    assert [path.name for path in lock.parent.iterdir()] == [lock.name]
