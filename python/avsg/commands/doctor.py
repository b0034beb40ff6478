# SPDX-License-Identifier: Apache-2.0
"""avsg doctor: what this machine has, and what to do about what is missing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np
from rich.markup import escape

from .. import _abi
from ..errors import LibraryError
from . import common, doctor_binary, doctor_cann, doctor_device, doctor_package
from .doctor_cann import check_cann, check_npu
from .doctor_finding import Finding

STYLES = {"ok": "green", "absent": "yellow", "problem": "bold red"}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_python() -> list[Finding]:
    """Python, the kernel (host memory of an NPU depends on its version), numpy, and MindSpore beside them."""
    python = Finding(
        "Python", "ok", f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} threads"
    )
    system = Finding("system", "ok", f"{platform.system()} {platform.release()}")
    mindspore = _version("mindspore") or _version("mindspore-dev")
    numpy = Finding("numpy", "ok", np.__version__)
    if mindspore is None:
        glue = Finding(
            "MindSpore",
            "absent",
            "not installed",
            "Only needed for avsg.mindspore: pip install 'avsg[mindspore]'.",
        )
    elif int(np.__version__.split(".")[0]) >= 2:
        glue = Finding(
            "MindSpore",
            "problem",
            f"{mindspore} beside numpy {np.__version__}",
            "MindSpore needs numpy 1: pip install 'numpy<2'.",
        )
    else:
        glue = Finding("MindSpore", "ok", mindspore)
    return [python, system, numpy, glue]


def check_library(name: str) -> Finding:
    """Is libavsg_NAME.so there, loadable and of the right version?"""
    title, needed = f"library {name}", name != "npu"
    path = _abi.find_library(name)
    if path is None and name == "npu":
        path = doctor_device.npu_library()
    if path is None:
        if name == "npu":
            return Finding(
                title, "absent", "not built", "Only needed on an NPU: build it on a machine with CANN."
            )
        return Finding(
            title,
            "problem",
            "not built",
            "Run `pip install .` in the source tree (needs g++ and cmake).",
            needed,
        )
    try:
        library = _abi.load(path)
    except LibraryError as error:
        return Finding(title, "problem", str(path), str(error), needed)
    level = ""
    if name == "cpu":
        library.dll.avsg_cpu_level.restype = ctypes.c_char_p
        level = f", instruction set {library.dll.avsg_cpu_level().decode()}"
    return Finding(title, "ok", f"{path}, ABI {_abi.ABI_VERSION}{level}", needed=needed)


def check_choice() -> list[Finding]:
    """The environment variable that chooses a library, when it is set."""
    choice = os.environ.get("AVSG_LIBRARY")
    if not choice:
        return []
    try:
        library = _abi.resolve(choice)
        if library != "reference":
            _abi.load(library)
        return [Finding("AVSG_LIBRARY", "ok", f"{choice} ({library})")]
    except (OSError, LibraryError) as error:
        return [Finding("AVSG_LIBRARY", "problem", choice, str(error), needed=True)]


def check_operator_package(environment: Mapping[str, str], has_npu: bool) -> list[Finding]:
    """The operator package that CANN finds: order of vendors, version, operators, libraries."""
    here = doctor_package.installed_here()
    findings = doctor_package.check_paths(environment, here)
    findings += doctor_package.check_order(
        doctor_package.started_with(), Path("/proc/self/maps").read_text(), environment
    )
    vendors = doctor_package.vendors_of(environment)
    ours = next(
        (vendor for vendor in vendors if vendor.path.name == "avsg" and os.path.isdir(vendor.path)), None
    )
    if ours is None and here is not None:
        ours = doctor_package.Vendor(here, "this Python package")
    if ours is None:
        return findings
    chips = [chip for chip in doctor_cann.chips() if doctor_cann.family_of(chip)]
    home = environment.get("ASCEND_HOME_PATH")
    findings.append(doctor_package.check_package(ours, home, chips[0] if has_npu and chips else None))
    if os.path.isdir(ours.path / "op_impl"):
        findings.append(doctor_package.check_operators(ours, home))
    files = doctor_binary.libraries_of(ours.path)
    return findings + doctor_binary.check_libraries(files, doctor_binary.this_glibc())


def examine() -> list[Finding]:
    """All findings, in the order of the report."""
    libraries = [check_library(name) for name in _abi.LIBRARY_NAMES]
    home, npu = os.environ.get("ASCEND_HOME_PATH"), check_npu()
    has_npu = npu.state != "absent"
    return [
        *check_python(),
        *libraries,
        *check_choice(),
        npu,
        doctor_cann.check_driver(has_npu),
        check_cann(home),
        *doctor_cann.check_compiler_modules(home),
        *check_operator_package(os.environ, has_npu),
        *doctor_device.check_host_memory(has_npu, doctor_device.npu_library()),
    ]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Say what was found (libraries, CPU, NPU, CANN, package, MindSpore) and what to do about the rest.

    Exit status: 0, or 1 when something that the CPU needs is broken.
    """
    findings = examine()
    broken = [finding.name for finding in findings if finding.needed and finding.state == "problem"]
    if as_json:
        click.echo(
            json.dumps({"ok": not broken, "findings": [asdict(finding) for finding in findings]}, indent=1)
        )
    else:
        table = common.table("", "", "found", "what to do", left=4)
        for finding in findings:
            style = STYLES[finding.state]
            table.add_row(
                finding.name, f"[{style}]{finding.state}[/]", escape(finding.found), escape(finding.advice)
            )
        console = common.console()
        console.print(table)
        console.print(f"Broken: {', '.join(broken)}." if broken else "The CPU path is complete.")
        others = [finding.name for finding in findings if finding.state == "problem" and not finding.needed]
        if others:
            console.print(f"Beside it, see what to do about: {', '.join(others)}.")
    if broken:
        context.exit(1)
