# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on a machine for NPUs, with made-up trees: each fault is one finding with the line to run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from doctor_trees import SMI, environment, make_package, make_toolkit, nobody

import fake_cann
from avsg.cli import main
from avsg.commands import doctor, doctor_cann, doctor_package


@pytest.fixture
def vendors(tmp_path: Path) -> Path:
    folder = tmp_path / "opp" / "vendors"
    folder.mkdir(parents=True)
    return folder


def test_folders_that_this_user_may_not_read_are_told(vendors: Path, tmp_path: Path) -> None:
    home, variables = (
        make_toolkit(tmp_path / "toolkit", "8.5.0"),
        environment(vendors, custom=f"{vendors}/avsg"),
    )
    make_package(vendors).chmod(0)
    Path(home).chmod(0)
    with nobody():
        cann = doctor_cann.check_cann(home, ())
        (paths,) = doctor_package.check_paths(variables, None)
    assert cann.found == f"{home} cannot be read by this user" and "--install-for-all" in cann.advice
    assert paths.found.startswith(f"{vendors}/avsg cannot be read by this user") and "chmod" in paths.advice
    (vendors / "avsg").chmod(0o755)
    Path(home).chmod(0o755)


def test_vendors_come_in_canns_order(vendors: Path) -> None:
    variables = environment(vendors, "b", "a", custom="/custom/vendors/x::/custom/vendors/y:")
    paths = [str(vendor.path) for vendor in doctor_package.vendors_of(variables)]
    assert paths == ["/custom/vendors/x", "/custom/vendors/y", f"{vendors}/b", f"{vendors}/a"]
    assert doctor_package.vendors_of({}) == []


def test_a_vendor_with_our_operators_before_ours_is_named(vendors: Path) -> None:
    make_package(vendors)
    make_package(vendors, "old_avsg")
    make_package(vendors, "other", operators=False)
    (finding,) = doctor_package.check_paths(environment(vendors, "other", "old_avsg", "avsg"), None)
    assert (
        finding.state == "problem"
        and f"{vendors}/old_avsg (load_priority) has our operators" in finding.found
    )
    assert finding.advice == "AVSG comes second: sh avsg-*.run --priority=first"
    (finding,) = doctor_package.check_paths(environment(vendors, "avsg", "old_avsg"), None)
    assert finding.state == "ok" and finding.found.index("/avsg (") < finding.found.index("/old_avsg (")


def test_a_path_that_does_not_exist_is_named_with_its_variable(vendors: Path) -> None:
    make_package(vendors)
    (finding,) = doctor_package.check_paths(environment(vendors, "avsg", custom="/gone/vendors/avsg"), None)
    assert finding.state == "problem" and finding.found.startswith("/gone/vendors/avsg does not exist")
    assert finding.advice == "Run: export ASCEND_CUSTOM_OPP_PATH="
    (finding,) = doctor_package.check_paths(environment(vendors, "gone", "avsg"), None)
    assert finding.advice == f"Take gone out of load_priority in {vendors}/config.ini."


def test_an_installed_package_that_no_path_names_gets_its_source_line(vendors: Path) -> None:
    home = make_package(vendors)
    (finding,) = doctor_package.check_paths({}, home)
    assert finding.state == "problem"
    assert finding.advice == f"Before Python or any framework starts: source {home}/bin/set_env.bash"
    assert doctor_package.check_paths({"ASCEND_CUSTOM_OPP_PATH": f"{home}:"}, home)[0].state == "ok"
    shutil.rmtree(home / "op_impl")  # a package for CPUs
    assert doctor_package.check_paths({}, home)[0].state == "absent"


@pytest.mark.parametrize(
    ("toolkit", "chip", "state", "advice"),
    [
        ("7.7.0.1.238", "910B3", "ok", ""),
        ("7.7.0.1.238", None, "ok", ""),
        (None, "310P3", "ok", ""),
        (
            "7.8.0.1.1",
            "910B3",
            "problem",
            "This toolkit's compiler is 7.8.0.1.1; build with it and install: bash scripts/build.sh",
        ),
        ("7.7.0.1.238", "Ascend910_9391", "problem", "bash scripts/build.sh --soc ascend910_93"),
    ],
)
def test_a_package_for_another_toolkit_or_chip_is_built_again(
    vendors: Path, tmp_path: Path, toolkit: str | None, chip: str | None, state: str, advice: str
) -> None:
    vendor = doctor_package.Vendor(make_package(vendors), "load_priority")
    home = make_toolkit(tmp_path / "toolkit", "8.5.0", toolkit) if toolkit else None
    finding = doctor_package.check_package(vendor, home, chip)
    assert finding.state == state and finding.advice.endswith(advice)
    assert (
        "1.0 in" in finding.found and "kernels for ascend910b, built by CANN's compiler 7.7" in finding.found
    )


def test_both_functions_of_each_operator_are_looked_for_by_absolute_path(
    vendors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(doctor_package.SYMBOLS) == 8
    libraries = fake_cann.libraries()
    toolkit = fake_cann.make_tree(tmp_path / "cann")["ASCEND_HOME_PATH"]
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{toolkit}/lib64")
    for name, words in (
        ("libcust_opapi.so", "AvsgMatch, AvsgLoad, AvsgStore, Avsg"),
        ("old", "has no aclnnAvsgStore"),
    ):
        home = make_package(vendors, name.replace(".so", ""))
        (home / "op_api" / "lib").mkdir(parents=True)
        library = home / "op_api" / "lib" / "libcust_opapi.so"
        vendor = doctor_package.Vendor(home, "load_priority")
        assert doctor_package.check_operators(vendor, None).found == f"no {library}"
        library.symlink_to(libraries[name])
        finding = doctor_package.check_operators(vendor, None)
        assert words in finding.found and finding.state == ("ok" if name != "old" else "problem")
    monkeypatch.delenv("LD_LIBRARY_PATH")
    finding = doctor_package.check_operators(vendor, None)
    assert finding.state == "problem" and "libascendcl.so: cannot open" in finding.found
    assert finding.advice == "Source the set_env.sh of the CANN toolkit it was built for."
    (tmp_path / "set_env.sh").touch()  # beside the toolkit that it sets, as beside .../ascend-toolkit/latest
    line = f"Run: source {tmp_path}/set_env.sh"
    assert doctor_package.check_operators(vendor, str(tmp_path / "latest")).advice == line


def test_a_package_for_cpus_has_kernels_for_no_chip(vendors: Path) -> None:
    """Its value is empty, and the next line is not taken for it."""
    vendor = doctor_package.Vendor(make_package(vendors, kernels=""), "load_priority")
    assert "kernels for none" in doctor_package.check_package(vendor, None, None).found
    assert doctor_package.check_package(vendor, None, "910B1").advice.endswith("--soc ascend910b")


def test_a_path_that_came_after_cann_was_loaded_is_told() -> None:
    start, now = {"ASCEND_CUSTOM_OPP_PATH": "/a"}, {"ASCEND_CUSTOM_OPP_PATH": "/b:/a"}
    loaded = "7f00-7f01 r-xp 00000000 00:00 1 /usr/local/Ascend/lib64/libascendcl.so\n"
    (finding,) = doctor_package.check_order(start, loaded, now)
    assert finding.state == "problem" and "Source set_env.bash in the shell" in finding.advice
    assert doctor_package.check_order(start, "libc.so.6", now) == []
    assert doctor_package.check_order(now, loaded, now) == []


def test_the_environment_of_the_start_is_read() -> None:
    code = "import os; os.environ['ASCEND_CUSTOM_OPP_PATH'] = 'late'\n"
    code += "from avsg.commands.doctor_package import started_with\n"
    code += "print(started_with()['ASCEND_CUSTOM_OPP_PATH'])"
    done = fake_cann.run_python(code, ASCEND_CUSTOM_OPP_PATH="early")
    assert done.stdout.strip() == "early", done.stderr


def test_the_report_has_every_part_of_a_machine_for_npus(vendors: Path, tmp_path: Path, monkeypatch) -> None:
    """A complete fake machine, but the package is for the other family."""
    tree = fake_cann.make_tree(tmp_path / "cann")
    make_package(vendors)
    api = vendors / "avsg" / "op_api" / "lib"
    api.mkdir(parents=True)
    (api / "libcust_opapi.so").symlink_to(fake_cann.libraries()["libcust_opapi.so"])
    make_toolkit(Path(tree["ASCEND_HOME_PATH"]), "8.5.0")
    smi = tmp_path / "npu-smi"
    smi.write_text(SMI.format(python=sys.executable, names=["Ascend910"]))
    smi.chmod(0o755)
    monkeypatch.setattr(doctor, "check_npu", lambda: doctor_cann.check_npu("/dev/null"))
    for name, value in {**environment(vendors, "avsg"), "ASCEND_HOME_PATH": tree["ASCEND_HOME_PATH"]}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tree['ASCEND_HOME_PATH']}/lib64")
    result = CliRunner().invoke(main, ["doctor", "--json"])
    document = json.loads(result.stdout)
    states = {finding["name"]: finding["state"] for finding in document["findings"]}
    assert states["NPU"] == states["CANN"] == states["OPP paths"] == states["operators"] == "ok"
    assert states["package"] == "problem" and states["host memory"] == "ok"
    assert document["ok"] and result.exit_code == 0
    *_, last = CliRunner().invoke(main, ["doctor"]).stdout.splitlines()
    assert last.startswith("Beside it, see what to do about: driver, ") and last.endswith("package.")
    advice = {finding["name"]: finding["advice"] for finding in document["findings"]}
    assert advice["package"].endswith("bash scripts/build.sh --soc ascend910_93")
