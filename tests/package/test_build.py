# SPDX-License-Identifier: Apache-2.0
"""scripts/build.sh: the same bytes everywhere, operators with a toolkit, a sentence for what users lack."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from package_case import EPOCH, MADE, ROOT, environment, home_of, run, with_tool

pytestmark = pytest.mark.slow
VERSION = (ROOT / "VERSION").read_text().strip()
MACHINE = os.uname().machine
WITHOUT_SETUPTOOLS = f'case $* in *setuptools*|*venv*) exit 1;; esac; exec "{shutil.which("python3")}" "$@"'
FAMILIES = "use --soc ascend910b (Atlas A2)"
CPU_LINE = "CANN: not found (ASCEND_HOME_PATH is not set), so this builds the CPU package.\n"


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory) -> Path:
    """Looks like a CANN toolkit; its npu_op_* functions are stand-ins."""
    home = tmp_path_factory.mktemp("toolkit")
    functions = home / "compiler" / "tikcpp" / "ascendc_kernel_cmake"
    functions.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("fake_toolkit.cmake"), functions / "asc-config.cmake")
    shutil.copy(ROOT / "tests/ut/op_host/asc/asc-config.cmake", functions / "recording.cmake")
    (home / "compiler" / "version.info").write_text("Version=7.7.0\n")
    info = home / f"{MACHINE}-linux" / "ascend_toolkit_install.info"
    info.parent.mkdir()
    info.write_text("package_name=Ascend-cann-toolkit\nversion=8.5.0\n")
    return home


@pytest.fixture
def scripts(tmp_path) -> Path:
    """A tree with the scripts alone, for what is refused before it is built."""
    shutil.copytree(ROOT / "scripts", tmp_path / "tree" / "scripts", ignore=MADE)
    return tmp_path / "tree"


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> Path:
    """For PYTHONPATH: what CANN's kernel compiler imports."""
    folder = tmp_path_factory.mktemp("modules")
    for name in ("attr", "decorator", "psutil", "numpy"):
        (folder / f"{name}.py").write_text('__version__ = "1.26.4"\n')
    return folder


def refused(tree: Path, *arguments: str, status: int = 1, **variables: str) -> str:
    """The sentence of a build that is refused before anything is built."""
    command = ["bash", tree / "scripts" / "build.sh", *arguments]
    done = run(command, status, env=environment(**variables))
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_two_folders_give_the_same_bytes_without_network(built, package, builder, tmp_path):
    """Another folder, with a space in its name, another umask, Ninja as preset generator, and no network."""
    second = shutil.copytree(built, tmp_path / "second folder", ignore=shutil.ignore_patterns("build"))
    command = ["bash", second / "scripts" / "build.sh", "--output", "my output"]
    if os.geteuid() == 0 and subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0:
        command = ["unshare", "-n", *command]
    changes = {"SOURCE_DATE_EPOCH": EPOCH, "CMAKE_GENERATOR": "Ninja", "CMAKE_BUILD_TYPE": "Debug"}
    changes |= {"PIP_INDEX_URL": "http://127.0.0.1:9"}
    path = f"{builder}:{os.environ['PATH']}"
    said = run(command, env=environment(PATH=path, **changes), umask=0o077, cwd=tmp_path).stdout
    made = tmp_path / "my output" / package.name
    assert said.startswith(CPU_LINE) and said.splitlines()[-1] == str(made)
    assert made.read_bytes() == package.read_bytes()
    assert not (second / "python" / "avsg.egg-info").exists()


@pytest.fixture(scope="module")
def npu(built, toolkit, modules, builder, tmp_path_factory) -> tuple[Path, str, Path]:
    """A tree in which build.sh has built the NPU package, what it said, and the package."""
    tree = shutil.copytree(built, tmp_path_factory.mktemp("npu") / "tree", symlinks=True)
    variables = {"ASCEND_HOME_PATH": str(toolkit), "PYTHONPATH": str(modules), "SOURCE_DATE_EPOCH": EPOCH}
    variables |= {"PATH": f"{builder}:{os.environ['PATH']}", "CMAKE_GENERATOR": "Ninja"}
    said = run(["bash", tree / "scripts" / "build.sh"], env=environment(**variables)).stdout
    return tree, said, tree / "build" / "package" / f"avsg-{VERSION}-npu-{MACHINE}.run"


def test_toolkit_is_driven_with_both_families_and_makefiles(npu):
    tree, said, package = npu
    assert (
        "have changed since build/packing/source/build was made: configuring afresh." in said
    )  # the tree has moved
    assert "Building the operators for ascend910b,ascend910_93 with CANN 8.5.0" in said
    assert said.splitlines()[-1] == f"build/package/{package.name}"
    build = tree / "build" / "packing" / "cann-8.5.0-ascend910b-ascend910_93"
    calls = (build / "calls").read_text().splitlines()
    assert calls[0] == "find_package|ascend910b|ascend910_93"
    assert (
        calls[-1] == "npu_op_package_add|avsg|LIBRARY|cust_optiling|cust_opapi|cust_op_proto|ascendc_kernels"
    )
    assert "CMAKE_GENERATOR:INTERNAL=Unix Makefiles" in (build / "CMakeCache.txt").read_text()


def test_npu_package_holds_the_operators_beside_the_rest(npu, tmp_path):
    run(["sh", npu[2], f"--install-path={tmp_path}"])
    home = home_of(tmp_path)
    info = dict(line.split("=", 1) for line in (home / "version.info").read_text().splitlines())
    assert info.pop("manifest_sha256")
    assert info == {
        "custom_opp_compiler_version": "8.5.0",
        "version": VERSION,
        "target": "npu",
        "arch": MACHINE,
        "kernels": "ascend910b,ascend910_93",
    }
    assert (home / "op_api" / "lib" / "libcust_opapi.so").read_text() == "opapi"
    kernels = home / "op_impl" / "ai_core" / "tbe" / "kernel"
    assert {path.name for path in kernels.iterdir()} == {"ascend910b.o", "ascend910_93.o"}
    assert (
        os.readlink(home / "op_impl/ai_core/tbe/op_tiling/liboptiling.so") == "lib/libcust_opmaster_rt2.0.so"
    )
    assert not (home / "install.sh").exists()
    for library in ("cpu", "npu"):
        assert (
            f"avsg/lib/libavsg_{library}.so" in zipfile.ZipFile(next((home / "wheel").iterdir())).namelist()
        )
        assert (home / "lib" / f"libavsg_{library}.so").exists()
    script = 'source "$1"; printf "%s " "$ASCEND_CUSTOM_OPP_PATH" "$LD_LIBRARY_PATH"'
    printed = run(["bash", "-euc", script, "bash", home / "bin" / "set_env.bash"]).stdout
    assert printed == f"{home} {home}/op_api/lib:{home}/lib "


def test_cpu_package_has_no_library_for_npus(package, tmp_path):
    run(["sh", package, f"--install-path={tmp_path}"])
    assert list(tmp_path.rglob("libavsg_npu.so")) == []


def test_another_toolkit_at_the_same_version_is_configured_afresh(npu, toolkit, modules, builder, tmp_path):
    other = shutil.copytree(toolkit, tmp_path / "other")
    variables = {"ASCEND_HOME_PATH": str(other), "PYTHONPATH": str(modules), "SOURCE_DATE_EPOCH": EPOCH}
    variables["PATH"] = f"{builder}:{os.environ['PATH']}"
    before = npu[2].read_bytes()
    said = run(["bash", npu[0] / "scripts" / "build.sh"], env=environment(**variables)).stdout
    assert "configuring afresh" in said and npu[2].read_bytes() == before


def test_failing_kernel_compiler_is_shown(npu, toolkit, modules, builder, tmp_path):
    """The end of the log, and where all of it is."""
    broken = shutil.copytree(toolkit, tmp_path / "broken")
    with (broken / "compiler/tikcpp/ascendc_kernel_cmake/asc-config.cmake").open("a") as file:
        file.write("add_custom_command(TARGET binary POST_BUILD COMMAND echo no such intrinsic && false)\n")
    variables = {"ASCEND_HOME_PATH": str(broken), "PYTHONPATH": str(modules)}
    variables["PATH"] = f"{builder}:{os.environ['PATH']}"
    said = run(["bash", npu[0] / "scripts" / "build.sh"], status=1, env=environment(**variables)).stderr
    assert "no such intrinsic" in said and said.splitlines()[-1].endswith(
        "are the end of build/packing/cann.log."
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--fast"], "--fast is no option: see bash scripts/build.sh --help."),
        (["--soc"], "--soc has no value: see bash scripts/build.sh --help."),
        (["--soc=,"], f"--soc names no family: {FAMILIES} or ascend910_93 (Atlas A3)."),
        (["--soc="], "--soc has no value: see bash scripts/build.sh --help."),
        (
            ["--cpu", "--soc", "ascend910b"],
            "--cpu and --soc exclude each other: a CPU package has no kernels for NPUs.",
        ),
        (["--soc=ascend910b1"], "ascend910b1 is a chip, not a family: use --soc ascend910b (Atlas A2)."),
        (["--soc", "Ascend910B3"], "Ascend910B3 is a chip, not a family: use --soc ascend910b (Atlas A2)."),
        (
            ["--soc", "ascend910_9391"],
            "ascend910_9391 is a chip, not a family: use --soc ascend910_93 (Atlas A3).",
        ),
        (
            ["--soc", "ascend910b,ascend310p"],
            f"ascend310p is no family that AVSG has kernels for: {FAMILIES} or ascend910_93 (Atlas A3).",
        ),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(scripts, arguments, sentence):
    assert refused(scripts, *arguments, status=2) == sentence + "\n"


def test_help_names_every_option():
    text = run(["bash", ROOT / "scripts" / "build.sh", "--help"]).stdout
    assert all(
        option in text for option in ("--soc", "--cpu", "--clean", "--output", "--help", "Exit status: 0")
    )


def test_families_without_a_toolkit_are_refused(
    scripts,
):
    assert refused(scripts, "--soc", "ascend910b") == (
        "--soc needs a CANN toolkit and ASCEND_HOME_PATH is not set: source the set_env.sh of one.\n"
    )


def test_folder_that_is_no_toolkit_is_refused(scripts, tmp_path):
    assert refused(scripts, ASCEND_HOME_PATH=str(tmp_path)) == (
        f"ASCEND_HOME_PATH={tmp_path} is not a CANN toolkit: source the set_env.sh of one, or use --cpu.\n"
    )


def test_old_toolkit_is_refused(scripts, tmp_path):
    (tmp_path / "compiler").mkdir()
    (tmp_path / "compiler" / "version.info").write_text("Version=7.6.0\nversion_dir=8.2.RC1\n")
    assert refused(scripts, ASCEND_HOME_PATH=str(tmp_path)) == (
        "CANN 8.2.RC1 found, 8.3.RC1 or later is needed (it has no npu_op_package): install a newer toolkit "
        "and source its set_env.sh, or use --cpu.\n"
    )


def test_path_with_a_space_is_refused_for_npus(scripts, toolkit, tmp_path):
    tree = scripts.rename(tmp_path / "my tree")
    assert refused(tree, ASCEND_HOME_PATH=str(toolkit)) == (
        f"The path {tree} has a space, which CANN's makefiles split: move the tree, or use --cpu.\n"
    )


def test_missing_modules_of_the_kernel_compiler_are_named(scripts, toolkit, modules, builder, tmp_path):
    shutil.copy(modules / "numpy.py", tmp_path)
    sentence = refused(
        scripts,
        PATH=f"{builder}:{os.environ['PATH']}",
        ASCEND_HOME_PATH=str(toolkit),
        PYTHONPATH=str(tmp_path),
    )
    assert sentence == (
        f"CANN's kernel compiler needs Python modules that {builder}/python3 does not have: run "
        "python3 -m pip install 'attrs' 'decorator' 'psutil'.\n"
    )


@pytest.mark.parametrize("name", ["cmake", "g++", "make"])
def test_missing_tool_is_named(tmp_path, name):
    folder = tmp_path / "bin"
    folder.mkdir()
    for other in ("bash", "dirname", "python3", "cmake", "g++", "make", "sed", "cat"):
        if other != name:
            (folder / other).symlink_to(shutil.which(other))
    done = run(["bash", ROOT / "scripts" / "build.sh"], status=1, env={"PATH": str(folder)})
    assert (
        done.stderr
        == f"{name} is missing: install Python 3.9 or later, g++, make and cmake, then try again.\n"
    )


def test_old_cmake_is_refused(scripts, tmp_path):
    variables = with_tool(tmp_path / "bin", "cmake", "echo cmake version 3.16.3")
    sentence = "cmake 3.16.3 is too old, 3.18 or later is needed: pip install cmake.\n"
    assert refused(scripts, **variables) == sentence


def test_unreachable_index_is_a_sentence(scripts, tmp_path):
    """A Python without setuptools 77, and no way to fetch it."""
    variables = with_tool(tmp_path / "bin", "python3", WITHOUT_SETUPTOOLS)
    assert refused(scripts, "--cpu", **variables) == (
        "setuptools 77 is missing and could not be fetched (log: build/packing/venv.log): run "
        "python3 -m pip install 'setuptools>=77', then try again.\n"
    )


def test_toolkit_that_was_not_sourced_is_pointed_out(built, builder, tmp_path):
    script = tmp_path / "Ascend" / "cann" / "set_env.sh"
    (script.parent / "latest" / "compiler").mkdir(parents=True)
    other = tmp_path / "Ascend" / "before-cann" / "set_env.sh"  # as MindIE's
    other.parent.mkdir()
    for path in (script, other):
        path.write_text("")
    variables = {"PATH": f"{builder}:{os.environ['PATH']}", "SOURCE_DATE_EPOCH": EPOCH, "HOME": str(tmp_path)}
    said = run(["bash", built / "scripts" / "build.sh"], env=environment(**variables)).stdout
    assert said.splitlines()[0] == CPU_LINE[:-2] + f"; for NPUs run: source {script}."


def test_clean_removes_what_was_built(scripts, tmp_path):
    """Before anything new is built: here it ends for want of setuptools."""
    for folder in ("packing", "package"):
        (scripts / "build" / folder / "stray").mkdir(parents=True)
    refused(scripts, "--clean", **with_tool(tmp_path / "bin", "python3", WITHOUT_SETUPTOOLS))
    assert [path.name for path in scripts.glob("build/*/*")] == ["venv.log"]
