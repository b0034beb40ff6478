# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on chips, driver and toolkits: what users' machines have, each fault with the line to run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from doctor_trees import SMI, make_toolkit, nobody

from avsg.commands import doctor_cann
from avsg.commands.doctor_finding import Finding


@pytest.mark.parametrize(
    ("chip", "family"),
    [
        ("Ascend910B3", "ascend910b"),
        ("910B4-1", "ascend910b"),
        ("Ascend910_9391", "ascend910_93"),
        ("310P3", None),
    ],
)
def test_a_chip_has_the_family_that_kernels_are_built_for(chip: str, family: str | None) -> None:
    assert doctor_cann.family_of(chip) == family


def test_the_drivers_version_is_read_where_its_installer_says(tmp_path: Path) -> None:
    info = tmp_path / "ascend_install.info"
    info.write_text(f"Driver_Install_Path_Param={tmp_path}\nUserName=HwHiAiUser\n")
    finding = doctor_cann.check_driver(False, str(info))
    assert finding.state == "absent" and finding.found == f"no {tmp_path}/driver/version.info"
    finding = doctor_cann.check_driver(True, str(info))
    assert (
        finding.state == "problem"
        and f"mount it: -v {tmp_path}/driver:{tmp_path}/driver:ro" in finding.advice
    )
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "version.info").write_text("Version=24.1.rc3\nascendhal_version=7\n")
    assert doctor_cann.check_driver(True, str(info)) == Finding("driver", "ok", "24.1.rc3")


@pytest.mark.parametrize(
    ("listed", "chips"),
    [(["910B4-1"], ["910B4-1"]), (["Ascend910", "Ascend910"], ["Ascend910_9392"]), (["310P3"], ["310P3"])],
)
def test_chips_are_the_names_of_npu_smis_list_and_of_an_a3s_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: list[str], chips: list[str]
) -> None:
    """The list of an A3 names no family; numbers beside the names are no chips."""
    (tmp_path / "npu-smi").write_text(SMI.format(python=sys.executable, names=listed))
    (tmp_path / "npu-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor_cann.chips() == chips


def test_a_device_that_this_user_may_not_open_is_told() -> None:
    with nobody():
        finding = doctor_cann.check_npu("/proc/1/mem")
    assert finding.state == "problem" and "may not open /proc/1/mem" in finding.found
    assert finding.advice == "Run: sudo usermod -aG HwHiAiUser $USER, then log in again."


def test_modules_of_the_kernel_compilers_python_are_one_pip_line(tmp_path: Path) -> None:
    """The compiler runs the python3 in PATH, which need not be the one that runs doctor."""
    assert doctor_cann.check_compiler_modules(None) == []
    tool = tmp_path / "python3"
    tool.write_text("#!/bin/sh\necho decorator 5.1; echo numpy 2.1\n")
    tool.chmod(0o755)
    (finding,) = doctor_cann.check_compiler_modules("toolkit", str(tool))
    assert finding.state == "problem" and finding.found == f"{tool} lacks attrs, psutil"
    assert finding.advice == f"To build kernels: {tool} -m pip install attrs psutil"
    tool.write_text("#!/bin/sh\nfor name in attr decorator numpy psutil; do echo $name 2.1; done\n")
    (finding,) = doctor_cann.check_compiler_modules("toolkit", str(tool))
    assert finding.state == "ok" and "pip install 'numpy<2'" in finding.advice
    (finding,) = doctor_cann.check_compiler_modules("toolkit", sys.executable)
    assert "numpy" not in finding.found or finding.state == "ok"


def test_a_toolkit_that_was_not_sourced_gets_its_source_line(tmp_path: Path) -> None:
    """By release, not by the numbers in the path; a runtime alone only where there is no toolkit."""
    users = tmp_path / "user99"
    for name, release, kind in (
        ("user99/ascend-toolkit/latest", "8.3.RC1", "toolkit"),
        ("cann-8.5.0", "8.5.0", "toolkit"),
        ("cann-8.10.0", "8.10.0", "toolkit"),
        ("nnae/latest", "9.0.0", "nnae"),
    ):
        make_toolkit(tmp_path / name, release, kind=kind)
        script = tmp_path / name.removesuffix("/latest") / "set_env.sh"
        script.touch()
    patterns = (f"{tmp_path}/*/set_env.sh", f"{users}/*/set_env.sh")
    assert doctor_cann.check_cann(None, patterns).advice.endswith(
        f": source {tmp_path}/cann-8.10.0/set_env.sh"
    )
    line = f"Run: source {tmp_path}/cann-8.10.0/set_env.sh"
    assert doctor_cann.check_cann(str(tmp_path), patterns).advice == line
    old = make_toolkit(tmp_path / "old", "8.1.RC1")
    assert doctor_cann.check_cann(old, patterns) == Finding(
        "CANN", "problem", f"{old}, version 8.1.RC1", line
    )
    assert doctor_cann.check_cann(None, patterns[1:]).advice.endswith(
        f": source {users}/ascend-toolkit/set_env.sh"
    )
    only = doctor_cann.check_cann(None, (f"{tmp_path}/nnae/set_env.sh",))
    assert only.advice.endswith(f"source {tmp_path}/nnae/set_env.sh")
    (tmp_path / "mindie").mkdir()
    (tmp_path / "mindie" / "set_env.sh").touch()  # not of a CANN
    for patterns in ((), (f"{tmp_path}/mindie/set_env.sh",)):
        assert "install CANN" in doctor_cann.check_cann(None, patterns).advice
    for home in ("cann-8.5.0", "user99/ascend-toolkit/latest"):
        script = tmp_path / home.removesuffix("/latest") / "set_env.sh"
        assert doctor_cann.source_line(str(tmp_path / home), ()) == f"source {script}"


def test_the_release_is_canns_and_not_its_compilers(tmp_path: Path) -> None:
    for kind in ("toolkit", "nnae", ""):  # without an install.info the compiler's file names the release
        home = make_toolkit(tmp_path / f"{kind}home", "8.3.RC1", compiler="7.8.0.1.238", kind=kind)
        assert doctor_cann.check_cann(home, ()).found == f"{home}, version 8.3.RC1"
        assert doctor_cann.check_cann(home, ()).state == "ok"
