#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accepts AVSG on a machine: golden data and assumptions about the silicon bit for bit, times, a report.

Called by scripts/npu_acceptance.sh, which can install a package first. Exit status: 0 nothing failed, 1 a
check failed, 2 it could not start.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "scripts")]

import golden  # noqa: E402
import report as reports  # noqa: E402
import silicon  # noqa: E402
import timing  # noqa: E402
from device import AscendDevice, CpuDevice, Device, DeviceError, Unavailable  # noqa: E402
from run import Run  # noqa: E402

from avsg import LibraryError, LibraryNotFoundError, __version__, _abi  # noqa: E402
from avsg.commands import doctor, doctor_device  # noqa: E402

TRIAL_REPEATS = 0.02


class CannotStart(click.ClickException):
    """The run has no library or device; the text is one sentence."""

    exit_code = 2


def npu_library() -> Path:
    """libavsg_npu.so of the installed package or of this tree."""
    path = doctor_device.npu_library()
    if path is None:
        looked = ", ".join(map(str, doctor_device.npu_library_paths()))
        raise CannotStart(
            f"There is none of {looked}: install the .run with --package FILE, or build it with "
            "cmake --build build --target avsg_npu."
        )
    return path


def open_device(library: str, index: int) -> tuple[_abi.NativeLibrary, Device]:
    """The library and the device that its memory belongs to."""
    if library == "reference":
        raise CannotStart("reference is what others are compared with: give --library npu, cpu or a path.")
    try:
        native = _abi.load(npu_library() if library == "npu" else Path(_abi.resolve(library)))
        return native, CpuDevice() if native.name.startswith("cpu") else AscendDevice(index)
    except (LibraryError, LibraryNotFoundError, Unavailable, DeviceError) as error:
        raise CannotStart(str(error)) from None


class Checks:
    """Runs checks one after the other and keeps what each gave; a device that failed is not asked again."""

    def __init__(self, is_chip: bool) -> None:
        self.results: list[dict[str, str]] = []
        self._passed = reports.PASS if is_chip else reports.PASS_ON_CPU
        self._broken = ""

    def run(self, group: str, name: str, shows: str, call: Callable[[], str]) -> None:
        result, detail = reports.NOT_RUN, f"the device failed in {self._broken}"
        if not self._broken:
            try:
                detail = call()
                result = self._passed
            except Unavailable as error:
                detail = str(error)
            except DeviceError as error:
                result, detail = reports.FAIL, str(error)
                self._broken = name if error.is_broken else ""
            except Exception as error:  # whatever it is, the others still have something to say
                result, detail = reports.FAIL, str(error) or type(error).__name__
        self.results.append(
            {"group": group, "name": name, "shows": shows, "result": result, "detail": detail}
        )
        click.echo(f"{result:<11} {name}" + (f": {detail}" if result != self._passed else ""))

    @property
    def failed(self) -> bool:
        return any(check["result"] == reports.FAIL for check in self.results)


def check_golden(checks: Checks, run: Run, folder: Path, names: list[str]) -> None:
    """Every vector through match, load and the fused step; then store."""

    def vector(name: str, row_bytes: tuple[int, ...]) -> Callable[[], str]:
        return lambda: (
            f"{golden.run_vector(run.library, run.device, folder / f'{name}.npz', row_bytes)} steps"
        )

    def store() -> str:
        golden.run_store(run.library, run.device)
        return "1 to 300 rows, one and two payloads"

    for i, name in enumerate(names):
        shows = "match, load and fused step equal the vector and its copies, CRC of the state included"
        checks.run("Golden data", name, shows, vector(name, golden.ROW_BYTES[i % len(golden.ROW_BYTES)]))
    checks.run("Golden data", "store", "new rows reach the host as SPEC.md says", store)


def check_silicon(checks: Checks, run: Run) -> None:
    for name, check in silicon.CHECKS.items():
        checks.run(
            "What the design assumes of the silicon",
            name,
            check.__doc__ or "",
            lambda check=check: check(run),
        )


def measure(run: Run, library: str, index: int, trial: bool) -> list[dict[str, object]]:
    """The table of times; a case that fails is a line with its reason, on a broken device the last one."""
    num_steps = 5 if trial else timing.STEPS
    lines: list[dict[str, object]] = []
    for case in timing.CASES[:2] if trial else timing.CASES:
        click.echo(f"timing {case.name}")
        try:
            line = timing.run_case(run.library, run.device, case, num_steps)
        except Exception as error:  # the results of the checks must reach their reader
            lines.append({"case": case.name, "failed": str(error) or type(error).__name__})
            if isinstance(error, DeviceError) and error.is_broken:
                break
            continue
        command = [sys.executable, __file__, "--library", library, "--device", str(index)]
        line["kernel_us"] = (
            timing.profile_case(case, [*command, *(["--trial"] if trial else [])], num_steps)
            if run.device.is_chip
            else "msprof times chips, not CPUs"
        )
        line["modelled_us"] = None if trial else timing.modelled_us(case)
        lines.append(line)
    return lines


@click.command(
    help=__doc__.split("\n\n")[0],
    epilog="Before these, scripts/npu_acceptance.sh takes --package FILE.run, which it installs first, and "
    "--install-path DIR, where to.",
)
@click.option("--library", default="npu", show_default=True, help="npu, cpu (to try the script), or a path.")
@click.option(
    "--device", "index", default=0, show_default=True, type=click.IntRange(0), help="Number of the NPU."
)
@click.option("--output", default="acceptance-report", show_default=True, type=click.Path(path_type=Path))
@click.option("--golden", "folder", default=ROOT / "tests" / "golden", type=click.Path(path_type=Path))
@click.option("--vectors", default="", help="Names of vectors, with commas; all by default.")
@click.option("--trial", is_flag=True, help="Few repeats, to try the script.")
@click.option("--times/--no-times", default=True, help="Time match and load as well.")
@click.option("--case", "case_index", hidden=True, type=click.IntRange(0), help="Only this case, to profile.")
def main(
    library: str,
    index: int,
    output: Path,
    folder: Path,
    vectors: str,
    trial: bool,
    times: bool,
    case_index: int | None,
) -> None:
    names = vectors.split(",") if vectors else golden.vector_names(folder)
    missing = [name for name in names if not (folder / f"{name}.npz").is_file()]
    if missing or not names:
        raise CannotStart(
            f"{folder} has no vector {', '.join(missing) or '*.npz'}: name others, or pass --golden."
        )
    native, device = open_device(library, index)
    run = Run(native, device, repeats=TRIAL_REPEATS if trial else 1.0)
    if case_index is not None:
        timing.run_case(native, device, timing.CASES[case_index], 5 if trial else timing.STEPS)
        return
    checks = Checks(device.is_chip)
    check_silicon(checks, run)
    check_golden(checks, run, folder, names)
    document = {
        "format": 2,
        "version": __version__,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": {"chip": device.is_chip, "name": device.name, "index": index},
        "library": str(native.path),
        "trial": trial,
        "vectors": {"run": len(names), "all": len(golden.vector_names(ROOT / "tests" / "golden"))},
        "checks": checks.results,
        "times": measure(run, library, index, trial) if times and not checks.failed else [],
        "no_times": "a check failed" if checks.failed else "" if times else "--no-times was given",
        "time_basis": "by events of the stream" if device.is_chip else "by the clock of this CPU",
        "machine": [asdict(finding) for finding in doctor.examine()],
    }
    paths = reports.write(document, output)
    click.echo(f"{reports.headline(document)} {reports.summary(document)}\n{reports.verdict(document)}")
    click.echo(f"Report: {' and '.join(map(str, paths))}")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main(prog_name="scripts/npu_acceptance.sh")
