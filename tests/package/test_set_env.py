# SPDX-License-Identifier: Apache-2.0
"""set_env.bash: relocatable, the same when sourced twice, safe in strict shells, no empty path elements."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from package_case import environment, home_of, run

PATHS = ("ASCEND_CUSTOM_OPP_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PATH")
PRINT = "".join(f'printf "%s\\n" "${{{name}-unset}}"; ' for name in PATHS)


@pytest.fixture
def home(new, tmp_path) -> Path:
    """An installed tree with the folders of a whole package."""
    run(["sh", new, f"--install-path={tmp_path / 'my opp'}"])
    home = home_of(tmp_path / "my opp")
    for folder in ("op_impl", "lib", "python"):
        (home / folder).mkdir()
    return home


def paths_after(script: str, *homes: Path, **variables: str) -> list[str]:
    """The four lists after a strict bash script whose $1... are set_env.bash of `homes`."""
    command = ["bash", "--norc", "-euo", "pipefail", "-c", f"{script}; {PRINT}", "bash"]
    command += [home / "bin" / "set_env.bash" for home in homes]
    return run(command, env={"PATH": environment()["PATH"], **variables}).stdout.splitlines()


def expected(
    home: Path, custom: str = "", libraries: str = "", python: str = "", path: str = ""
) -> list[str]:
    path = path or ":" + environment()["PATH"].strip(":")
    return [
        f"{home}{custom}",
        f"{home}/op_api/lib:{home}/lib{libraries}",
        f"{home}/python{python}",
        f"{home}/bin{path}",
    ]


def test_unset_variables_become_avsg_alone(home):
    assert paths_after('. "$1"', home) == expected(home)


def test_empty_elements_go_and_the_order_of_the_others_stays(home):
    variables = {
        "ASCEND_CUSTOM_OPP_PATH": ":/a/vendors/x::",
        "LD_LIBRARY_PATH": "::/l b:/k:",
        "PYTHONPATH": ":",
    }
    assert paths_after('. "$1"', home, **variables) == expected(home, ":/a/vendors/x", ":/l b:/k")


def test_sourcing_twice_changes_nothing_more(home):
    assert paths_after('. "$1"; . "$1"', home, PYTHONPATH="/p") == expected(home, python=":/p")


def test_last_sourced_comes_first_and_none_twice(home, tmp_path):
    other = Path(shutil.copytree(home, tmp_path / "vendors" / "avsg"))
    both = paths_after('. "$1"; . "$2"', home, other)
    assert both[0] == f"{other}:{home}"
    again = paths_after('. "$1"; . "$2"; . "$1"', home, other)
    assert again[0] == f"{home}:{other}" and again[2] == f"{home}/python:{other}/python"


def test_moved_tree_finds_itself(home, tmp_path):
    moved = Path(shutil.move(home, tmp_path / "elsewhere"))
    assert paths_after('. "$1"', moved) == expected(moved)


def test_relative_paths_and_cdpath_do_not_matter(home):
    script = 'cd "${1%/*}"; export CDPATH=/:/tmp; . ./set_env.bash; cd ..; . bin/set_env.bash'
    assert paths_after(script, home) == expected(home)


def test_path_of_cann_stays_as_it_is_without_operators(home):
    """A CPU package has none, so CANN need not look there."""
    (home / "op_impl").rmdir()
    assert paths_after('. "$1"', home)[0] == "unset"
    assert paths_after('. "$1"', home, ASCEND_CUSTOM_OPP_PATH="/a")[0] == "/a"


def test_nothing_but_the_four_lists_is_left_behind(home):
    script = (
        'before=$(compgen -v; declare -F); . "$1"; diff <(echo "$before") <(compgen -v; declare -F) || true'
    )
    changed = run(
        ["bash", "--norc", "-c", script, "bash", home / "bin" / "set_env.bash"], env=environment()
    ).stdout
    new = {line[2:] for line in changed.splitlines() if line.startswith(">")}
    assert new <= {*PATHS, "before", "BASH_REMATCH", "PIPESTATUS"}


def test_other_shells_are_told(home):
    if run(["sh", "-c", 'printf %s "${BASH_VERSION-}"']).stdout:
        pytest.skip("sh is bash on this machine, which can source it")
    refused = run(["sh", "-c", '. "$1"', "sh", home / "bin" / "set_env.bash"], status=1).stderr
    assert refused == "set_env.bash finds AVSG by its own path, which only bash tells: source it from bash.\n"
