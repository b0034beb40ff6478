# SPDX-License-Identifier: Apache-2.0
"""What a package does to vendors/config.ini and to other vendors: its own name there, and nothing else."""

from __future__ import annotations

import stat

import pytest
from package_case import config_of, run, snapshot, with_tool

ADDED = [
    ("", "load_priority=avsg\n"),
    ("load_priority=avsg-dev,x\n", "load_priority=avsg,avsg-dev,x\n"),
    ("load_priority=xavsg,avsg2,my.avsg\n", "load_priority=avsg,xavsg,avsg2,my.avsg\n"),
    ("load_priority=a,avsg,b\n", "load_priority=a,avsg,b\n"),
    ("load_priority=a", "load_priority=avsg,a\n"),
    ("load_priority=\n", "load_priority=avsg\n"),
    ("# why\nother=avsg\nload_priority=a, b\n\n", "# why\nother=avsg\nload_priority=avsg,a,b\n\n"),
    ("other=1\n", "other=1\nload_priority=avsg\n"),
    ("load_priority=*,$HOME\n", "load_priority=avsg,*,$HOME\n"),
]
REMOVED = [
    ("load_priority=avsg,avsg-dev,x\n", "load_priority=avsg-dev,x\n"),
    ("load_priority=a,avsg\n", "load_priority=a\n"),
    ("load_priority=avsg\n", None),
    ("# why\nload_priority=avsg\n", "# why\n"),
]


@pytest.mark.parametrize(("before", "after"), ADDED)
def test_install_adds_avsg_to_the_priorities_by_exact_name(shell, new, tmp_path, before, after):
    if before:
        config_of(tmp_path).write_text(before)
    for _ in range(2):
        run([*shell, new, f"--install-path={tmp_path}"])
        assert config_of(tmp_path).read_text() == after


@pytest.mark.parametrize(("before", "after"), REMOVED)
def test_uninstall_takes_avsg_out_by_exact_name(shell, new, tmp_path, before, after):
    run([*shell, new, f"--install-path={tmp_path}"])
    config_of(tmp_path).write_text(before)
    run([*shell, new, f"--install-path={tmp_path}", "--uninstall"])
    assert (config_of(tmp_path).read_text() if after else list(config_of(tmp_path).parent.iterdir())) == (
        after or []
    )


def test_priority_moves_avsg(shell, new, tmp_path):
    config_of(tmp_path).write_text("load_priority=a,b\n")
    for option, after in (
        ("last", "a,b,avsg"),
        ("first", "avsg,a,b"),
        ("first", "avsg,a,b"),
        ("last", "a,b,avsg"),
    ):
        run([*shell, new, f"--install-path={tmp_path}", f"--priority={option}"])
        assert config_of(tmp_path).read_text() == f"load_priority={after}\n"


def test_mode_of_config_and_other_vendors_stay(shell, old, new, tmp_path):
    at = f"--install-path={tmp_path}"
    config_of(tmp_path).write_text("# mine\nload_priority=avsg-dev,other\n")
    config_of(tmp_path).chmod(0o640)
    for vendor in ("avsg-dev", "other"):
        (tmp_path / "vendors" / vendor).mkdir()
        (tmp_path / "vendors" / vendor / "kernel.o").write_text(vendor)
    before = snapshot(tmp_path)
    for package, option in ((old, "--quiet"), (new, "--quiet"), (new, "--uninstall")):
        run([*shell, package, at, option])
        assert stat.S_IMODE(config_of(tmp_path).stat().st_mode) == 0o640
    assert snapshot(tmp_path) == before


def test_config_that_cannot_be_read_or_written_stops_everything(shell, old, new, tmp_path):
    target = tmp_path / "opp"
    at, config = f"--install-path={target}", config_of(target)
    config.mkdir()
    before = snapshot(target)
    refused = run([*shell, new, at], status=5).stderr
    assert refused == f"{config} is no file that this user can read: make it one, then run this again.\n"
    assert snapshot(target) == before
    config.rmdir()
    run([*shell, old, at])
    config.write_text("load_priority=a\n")
    before = snapshot(target)
    refused = run([*shell, new, at], status=5, env=with_tool(tmp_path, "cp", "exit 1")).stderr
    assert refused == f"{config} cannot be written anew (see above), so nothing was changed.\n"
    assert snapshot(target) == before
