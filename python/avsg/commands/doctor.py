# SPDX-License-Identifier: Apache-2.0
"""avsg doctor: what this machine has, and what to do about what is missing."""

from __future__ import annotations

import ctypes
import glob
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from rich.markup import escape

from .. import _abi
from ..errors import LibraryError
from . import common

OLDEST_CANN = "8.3.RC1"  # the first with the build functions that the operator package uses
OLDEST_CANN_NUMBERS = (8, 3)
STYLES = {"ok": "green", "absent": "yellow", "problem": "bold red"}


@dataclass(frozen=True)
class Finding:
    """One line of the report. state: ok, absent (advice says who needs it) or problem. needed: by the CPU."""

    name: str
    state: str
    found: str
    advice: str = ""
    needed: bool = False


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_python() -> list[Finding]:
    """Python, numpy, and MindSpore beside them."""
    python = Finding(
        "Python", "ok", f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} threads"
    )
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
    return [python, numpy, glue]


def check_library(name: str) -> Finding:
    """Is libavsg_NAME.so there, loadable and of the right version?"""
    title, needed = f"library {name}", name != "npu"
    path = _abi.find_library(name)
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


def check_npu(device_pattern: str = "/dev/davinci[0-9]*") -> Finding:
    """NPU devices and their tool."""
    devices, tool = sorted(glob.glob(device_pattern)), shutil.which("npu-smi")
    if not devices:
        return Finding(
            "NPU",
            "absent",
            "no /dev/davinci*" + (f", but {tool}" if tool else ""),
            "Without an NPU everything runs on the CPU. In a container, pass the devices through.",
        )
    text = f"{len(devices)} device(s): {', '.join(Path(device).name for device in devices)}"
    if tool is None:
        return Finding(
            "NPU", "problem", f"{text}, no npu-smi", "Install the driver's tools or add npu-smi to PATH."
        )
    try:
        output = subprocess.run([tool, "info"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("NPU", "problem", f"{text}, npu-smi failed", f"`npu-smi info` says: {error}.")
    chips = sorted(set(re.findall(r"\b(?:Ascend)?(?:910[0-9A-Z_]*|310P[0-9]*)\b", output)))
    return Finding("NPU", "ok", f"{text}; {', '.join(chips) or 'unknown chip'}")


def check_cann(home: str | None) -> Finding:
    """The CANN toolkit that ASCEND_HOME_PATH names, and its version."""
    if not home:
        return Finding(
            "CANN",
            "absent",
            "ASCEND_HOME_PATH is not set",
            f"Only needed on an NPU: install CANN {OLDEST_CANN} or later and source its set_env.sh.",
        )
    release = _info(sorted(Path(home).glob("*-linux/ascend_toolkit_install.info")), "version")
    if release is None:
        component = _info([Path(home) / "compiler" / "version.info"], "Version")
        if component is None:
            return Finding(
                "CANN", "problem", f"{home} is not a CANN toolkit", "Source the set_env.sh of the toolkit."
            )
        return Finding(
            "CANN", "ok", f"{home}, compiler {component}", f"AVSG needs CANN {OLDEST_CANN} or later."
        )
    numbers = tuple(int(part) for part in re.findall(r"[0-9]+", release)[:2])
    if numbers < OLDEST_CANN_NUMBERS:
        return Finding(
            "CANN", "problem", f"{home}, version {release}", f"Install CANN {OLDEST_CANN} or later."
        )
    return Finding("CANN", "ok", f"{home}, version {release}")


def _info(paths: list[Path], key: str) -> str | None:
    """Value of key in the first of these key=value files that has it."""
    for path in paths:
        found = (
            re.search(rf"^{key}\s*=\s*(\S+)", path.read_text(errors="replace"), re.M)
            if path.is_file()
            else None
        )
        if found:
            return found[1]
    return None


def examine() -> list[Finding]:
    """All findings, in the order of the report."""
    libraries = [check_library(name) for name in _abi.LIBRARY_NAMES]
    return [
        *check_python(),
        *libraries,
        *check_choice(),
        check_npu(),
        check_cann(os.environ.get("ASCEND_HOME_PATH")),
    ]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Say what was found (libraries, CPU, NPU, CANN, MindSpore) and what to do about what is missing.

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
    if broken:
        context.exit(1)
