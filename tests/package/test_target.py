# SPDX-License-Identifier: Apache-2.0
"""Where a package goes, what it refuses there, and what becomes of what was there before."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest
from package_case import config_of, environment, home_of, run, snapshot, with_tool

MACHINE = os.uname().machine
OTHER_MACHINE = "aarch64" if MACHINE == "x86_64" else "x86_64"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--instal-path=/x"], "--instal-path=/x is no option of this installer: see sh {} --help."),
        (["--install-path="], "--install-path is empty: give --install-path=DIRECTORY."),
        (["--install-path"], "--install-path names no directory: give --install-path=DIRECTORY."),
        (["--priority=middle"], "--priority is middle: give first or last."),
        (["--check", "--uninstall"], "--check and --uninstall exclude each other: give one of them."),
        (
            ["--install-path=/a:b"],
            "/a:b has a colon, which lists of paths cannot hold: choose another --install-path.",
        ),
        (
            [],
            "There is no target: give --install-path=DIRECTORY, or source CANN's set_env.sh for "
            "ASCEND_OPP_PATH.",
        ),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(shell, new, arguments, sentence):
    assert run([*shell, new, *arguments], status=2).stderr == sentence.format(new) + "\n"


def test_help_lists_every_option_and_status(shell, new):
    text = run([*shell, new, "--help"]).stdout
    for option in ("install-path", "priority", "force", "check", "uninstall", "status", "quiet", "help"):
        assert f"--{option}" in text
    for status in range(11):
        assert f" {status} " in text.split("Exit status:")[1].replace(";", " ")


def test_check_and_bare_dashes_change_nothing(shell, new, tmp_path):
    done = run(
        [*shell, new, "--quiet", "--", "--install-for-all", f"--install-path={tmp_path / 'a'}", "--check"]
    )
    assert done.stdout == "" and list(tmp_path.iterdir()) == []
    assert f"AVSG 0.10.0 for cpu on {MACHINE}: the file is whole" in run([*shell, new, "--check"]).stdout


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"ASCEND_OPP_PATH": "{}/opp"}, "opp"),
        ({"ASCEND_OPP_PATH": "{}/opp", "ASCEND_CUSTOM_OPP_PATH": "{}/own"}, "own"),
        ({"ASCEND_CUSTOM_OPP_PATH": "{}/own/vendors/other:"}, "own"),
        ({"ASCEND_CUSTOM_OPP_PATH": ":{}/own/vendors/avsg/::{}/own/vendors/x"}, "own"),
        ({"ASCEND_CUSTOM_OPP_PATH": "", "ASCEND_OPP_PATH": "{}/opp/"}, "opp"),
        ({"ASCEND_CUSTOM_OPP_PATH": "{}/vendors/of/opp"}, "vendors/of/opp"),
    ],
)
def test_target_follows_the_variables_of_cann(shell, new, tmp_path, variables, root):
    """A list of vendor directories, as set_env.bash makes it, is not taken for the directory above them."""
    variables = {name: value.replace("{}", str(tmp_path)) for name, value in variables.items()}
    run([*shell, new], env=environment(**variables))
    assert home_of(tmp_path / root).is_dir()
    assert {path.name for path in tmp_path.iterdir()} == {root.split("/")[0]}


def test_several_targets_in_the_list_are_refused(shell, new, tmp_path):
    listed = f"{tmp_path}/a/vendors/x:{tmp_path}/b/vendors/y"
    refused = run([*shell, new], status=2, env=environment(ASCEND_CUSTOM_OPP_PATH=listed)).stderr
    assert refused == (
        f"ASCEND_CUSTOM_OPP_PATH names several directories, {tmp_path}/a and {tmp_path}/b: choose one with "
        "--install-path=DIRECTORY.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a'b", 'say "x"', "two\nlines", "-dash", "$HOME", "*", "trailing ", "back\\slash"]
)
def test_any_name_can_be_a_target(shell, new, old, tmp_path, name):
    target = tmp_path / name
    run([*shell, old, f"--install-path={target}"])
    run([*shell, new, f"--install-path={name}"], cwd=tmp_path)  # relative: from here
    run([*shell, home_of(target) / "scripts" / "uninstall.sh", "--status"], cwd="/")
    command = 'source "$1"; printf %s "$PYTHONPATH"; [ -z "${LD_LIBRARY_PATH##*op_api/lib*}" ]'
    (home_of(target) / "python").mkdir()
    printed = run(["bash", "-euc", command, "bash", home_of(target) / "bin" / "set_env.bash"]).stdout
    assert printed == f"{home_of(target)}/python"
    run([*shell, "uninstall.sh"], cwd=home_of(target) / "scripts")
    assert list(target.iterdir()) == []


def test_variables_of_the_user_do_not_reach_tar_and_gzip(shell, new, tmp_path):
    variables = {"TAR_OPTIONS": "--exclude=op_api", "GZIP": "-l", "CDPATH": "/", "IFS": "/", "missing": "tar"}
    run([*shell, new, f"--install-path={tmp_path}"], env=environment(**variables))
    run([*shell, home_of(tmp_path) / "scripts" / "uninstall.sh", "--status"])


def test_linked_target_and_linked_tree_keep_what_they_point_to(shell, new, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    (tmp_path / "real" / "vendors").mkdir()
    home_of(tmp_path / "real").symlink_to(elsewhere)
    run([*shell, new, f"--install-path={tmp_path / 'link'}"])
    assert home_of(tmp_path / "real").is_dir() and not home_of(tmp_path / "real").is_symlink()
    run([*shell, home_of(tmp_path / "link") / "scripts" / "uninstall.sh"])
    assert list((tmp_path / "real").iterdir()) == []
    assert snapshot(elsewhere).keys() == {"mine"}


def test_file_in_the_way_is_refused(shell, new, tmp_path):
    (tmp_path / "file").write_text("")
    assert run([*shell, new, f"--install-path={tmp_path / 'file'}"], status=5).stderr == (
        f"{tmp_path}/file is no directory: use another --install-path.\n"
    )


def test_failed_install_leaves_no_directory(shell, new, tmp_path):
    """Also those above the target that it had made."""
    broken = with_tool(tmp_path, "tar", "exit 1")
    run([*shell, new, f"--install-path={tmp_path}/a/b"], status=6, env=broken)
    assert [file.name for file in tmp_path.iterdir()] == ["tar"]


def test_other_hardware_is_refused_without_force(shell, make_small, tmp_path):
    at = f"--install-path={tmp_path}"
    foreign = make_small("0.10.0", arch=OTHER_MACHINE)
    assert run([*shell, foreign, at], status=4).stderr == (
        f"This package is for {OTHER_MACHINE} and this machine is {MACHINE}: use the package for {MACHINE}.\n"
    )
    assert list(tmp_path.iterdir()) == []
    run([*shell, make_small("0.10.0", target="npu"), at])
    refused = run([*shell, make_small("0.11.0"), at], status=4).stderr
    assert refused == (
        f"AVSG in {home_of(tmp_path)} has kernels for NPUs and this package has none: keep it, or use "
        "--force.\n"
    )
    run([*shell, foreign, at, "--force"])
    assert f"AVSG 0.10.0 for cpu on {OTHER_MACHINE}" in run([*shell, foreign, at, "--status"]).stdout


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("0.9", "0.10"),
        ("1.0rc1", "1.0"),
        ("1.0", "1.0.1"),
        ("08.1", "8.2"),
        ("1.9.9", "2.0rc1"),
        ("1.0.dev3", "1"),
    ],
)
def test_older_version_is_refused_without_force(make_small, tmp_path, older, newer):
    at = f"--install-path={tmp_path}"
    first, second = make_small(older), make_small(newer)
    run(["sh", first, at])
    run(["sh", second, at])
    before = snapshot(tmp_path)
    run(["sh", first, at], status=3)
    assert snapshot(tmp_path) == before
    run(["sh", first, at, "--force"])


def test_same_version_repairs_what_was_changed(shell, new, tmp_path):
    at = f"--install-path={tmp_path}"
    run([*shell, new, at])
    before = snapshot(tmp_path)
    part = home_of(tmp_path) / "op_api" / "lib" / "part3.so"
    for damage in (lambda: part.write_text("x"), part.unlink, lambda: config_of(tmp_path).unlink()):
        damage()
        refused = run([*shell, new, at, "--status"], status=10).stderr
        assert "install the package again" in refused and ("part3.so" in refused or "config.ini" in refused)
        run([*shell, new, at])
        assert snapshot(tmp_path) == before
    (home_of(tmp_path) / "MANIFEST.sha256").write_text("")
    assert "MANIFEST.sha256" in run([*shell, new, at, "--status"], status=10).stderr


def test_nothing_installed_is_a_status_of_its_own(shell, new, tmp_path):
    for option in ("--status", "--uninstall"):
        refused = run([*shell, new, f"--install-path={tmp_path}", option], status=9).stderr
        assert refused == f"AVSG is not installed in {tmp_path}.\n"
        (tmp_path / "vendors").mkdir(exist_ok=True)
    assert list(tmp_path.iterdir()) == [] or [path.name for path in tmp_path.iterdir()] == ["vendors"]


def test_copied_uninstaller_removes_nothing_of_others(shell, new, tmp_path):
    run([*shell, new, f"--install-path={tmp_path}"])
    copy = shutil.copytree(home_of(tmp_path), tmp_path / "backup" / "avsg", symlinks=True)
    before = snapshot(tmp_path)
    refused = run([*shell, copy / "scripts" / "uninstall.sh"], status=9).stderr
    assert "is not in vendors/avsg/scripts" in refused
    run([*shell, home_of(tmp_path) / "scripts" / "uninstall.sh", "--force"], status=2)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_installed_files_can_be_read_by_all_whatever_the_umask(shell, new, tmp_path, umask):
    run([*shell, new, f"--install-path={tmp_path / 'opp'}"], umask=umask)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "opp").rglob("*")}
    assert modes == {0o755, 0o644}


def test_read_only_files_of_the_old_version_do_not_stop_the_new(shell, old, new, tmp_path):
    at = f"--install-path={tmp_path}"
    run([*shell, old, at])
    for path in home_of(tmp_path).rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    run([*shell, new, at])
    assert [path.name for path in (tmp_path / "vendors").glob(".*")] == []


def test_busybox_alone_is_enough(new, tmp_path):
    """No program but busybox: no HOME, no TMPDIR, no bash."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox on this machine: apt-get install busybox")
    (tmp_path / "bin").mkdir()
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True).stdout.split():
        if "[" not in name:
            (tmp_path / "bin" / name).symlink_to(busybox)
    for option in ("--quiet", "--status", "--uninstall"):
        command = [tmp_path / "bin" / "sh", new, f"--install-path={tmp_path / 'opp'}", option]
        run(command, env={"PATH": str(tmp_path / "bin")})
    assert list((tmp_path / "opp").iterdir()) == []


def test_nothing_is_written_outside_the_target(shell, old, new, tmp_path):
    """Where strace is: every file that is opened for writing, made, renamed or removed."""
    if shutil.which("strace") is None:
        pytest.skip("no strace on this machine: apt-get install strace")
    calls = "trace=open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,symlink"
    target = tmp_path / "opp"
    for package, option in ((old, "--quiet"), (new, "--quiet"), (new, "--uninstall")):
        command = ["strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", calls, *shell, package]
        run([*command, f"--install-path={target}", option])
        lines = [line for line in (tmp_path / "trace").read_text().splitlines() if " = -1 E" not in line]
        writes = [line for line in lines if "open" not in line or "O_WRONLY" in line or "O_RDWR" in line]
        absolute = [line for line in writes if '"/' in line and f'"{target}' not in line]
        assert [line for line in absolute if "/dev/null" not in line and "/dev/tty" not in line] == []
