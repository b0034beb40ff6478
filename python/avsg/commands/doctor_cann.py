# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on the machine: NPU, driver, CANN toolkit, and the Python modules of its kernel compiler."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .doctor_finding import Finding, info_value, is_closed, numbers

OLDEST_CANN = "8.3.RC1"  # the first with the build functions that the operator package uses
COMPILER_MODULES = {"attr": "attrs", "decorator": "decorator", "numpy": "numpy", "psutil": "psutil"}
TRY_MODULES = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        print(name, getattr(importlib.import_module(name), "__version__", "of unknown version"))
    except ImportError:
        pass
"""
TOOLKITS = ("/usr/local/Ascend/*/set_env.sh", "~/Ascend/*/set_env.sh")
INSTALL_INFO = "/etc/ascend_install.info"  # of the driver's installer
DRIVER_USERS = "HwHiAiUser"  # the group that the driver's installer makes
FAMILIES = {"910B": "ascend910b", "910_93": "ascend910_93"}  # by the start of a chip's name


def family_of(chip: str) -> str | None:
    """The family that kernels are built for: Ascend910B3 is ascend910b, Ascend910_9391 is ascend910_93."""
    name = chip.removeprefix("Ascend")
    return next((family for start, family in FAMILIES.items() if name.startswith(start)), None)


def smi(*arguments: str) -> str:
    """What npu-smi prints, "" where it is missing or fails."""
    tool = shutil.which("npu-smi")
    if tool is None:
        return ""
    try:
        run = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout


def chips() -> list[str]:
    """Names of the chips, such as 910B3. The list calls an A3 Ascend910; its board adds the rest: 9392."""
    listed = dict(re.findall(r"^\|\s*(\d+)\s+([\w-]+)\s*\|\s*[A-Za-z]", smi("info"), re.M))
    names = set(listed.values())
    if "Ascend910" in names:
        npu = next(npu for npu, name in listed.items() if name == "Ascend910")
        board = re.search(r"NPU Name\s*:\s*(\w+)", smi("info", "-t", "board", "-i", npu, "-c", "0"))
        names = names - {"Ascend910"} | {f"Ascend910_{board[1]}" if board else "Ascend910"}
    return sorted(names)


def check_npu(device_pattern: str = "/dev/davinci[0-9]*") -> Finding:
    """NPU devices, whether this user may open them, and their tool."""
    devices, tool = sorted(glob.glob(device_pattern)), shutil.which("npu-smi")
    if not devices:
        return Finding(
            "NPU",
            "absent",
            "no /dev/davinci*" + (f", but {tool}" if tool else ""),
            "Without an NPU everything runs on the CPU. In a container, pass the devices through.",
        )
    text = f"{len(devices)} device(s): {', '.join(Path(device).name for device in devices)}"
    closed = [device for device in devices if not os.access(device, os.R_OK | os.W_OK, effective_ids=True)]
    if closed:
        advice = f"Run: sudo usermod -aG {DRIVER_USERS} $USER, then log in again."
        return Finding("NPU", "problem", f"{text}; this user may not open {closed[0]}", advice)
    if tool is None:
        return Finding(
            "NPU", "problem", f"{text}, no npu-smi", "Install the driver's tools or add npu-smi to PATH."
        )
    if not smi("info"):
        advice = "Run: npu-smi info. In a container, mount /usr/local/dcmi and the driver beside it."
        return Finding("NPU", "problem", f"{text}, npu-smi failed", advice)
    return Finding("NPU", "ok", f"{text}; {', '.join(chips()) or 'unknown chip'}")


def check_driver(has_npu: bool, install_info: str = INSTALL_INFO) -> Finding:
    """The driver's version, from the file that it installs."""
    home = info_value([install_info], "Driver_Install_Path_Param") or "/usr/local/Ascend"
    path = f"{home}/driver/version.info"
    version = info_value([path], "Version")
    if version is not None:
        return Finding("driver", "ok", version)
    if has_npu:
        advice = f"In a container, mount it: -v {home}/driver:{home}/driver:ro. Elsewhere install the driver."
        return Finding("driver", "problem", f"no {path}", advice)
    advice = "Only needed on an NPU: install the driver and firmware that belong to the CANN toolkit."
    return Finding("driver", "absent", f"no {path}", advice)


def cann_version(home: str | os.PathLike[str]) -> str | None:
    """The release of the CANN in this folder, toolkit or runtime alone (nnae); None if there is none."""
    infos = sorted(glob.glob(os.path.join(glob.escape(os.fspath(home)), "*-linux", "ascend_*_install.info")))
    compiler = Path(home) / "compiler" / "version.info"
    # The compiler counts in its own way, 7.7.0.1.238 in CANN 8.1.RC1, and names the release beside it.
    version = info_value(infos, "[Vv]ersion") or info_value([compiler], "version_dir")
    return version.removeprefix("cann-") if version else info_value([compiler], "[Vv]ersion")


def compiler_version(home: str | os.PathLike[str]) -> str | None:
    """The version of a toolkit's compiler, which an operator package keeps of the toolkit that built it."""
    return info_value([Path(home) / "compiler" / "version.info"], "Version")


def newest_script(patterns: Sequence[str] = TOOLKITS) -> tuple[str, str] | None:
    """set_env.sh of the newest CANN in the usual places with its version; one with a compiler comes first.

    Other software, such as MindIE, has a set_env.sh beside them.
    """
    found = []
    for path in (path for pattern in patterns for path in glob.glob(os.path.expanduser(pattern))):
        for home in (os.path.dirname(path), os.path.join(os.path.dirname(path), "latest")):
            version = cann_version(home)
            if version:
                whole = bool(glob.glob(os.path.join(glob.escape(home), "*-linux", "ascend_toolkit*")))
                found.append((whole, numbers(version), path, version))
    return max(found)[2:] if found else None


def source_line(home: str, patterns: Sequence[str] = TOOLKITS) -> str | None:
    """The line that sources the CANN in this folder, else the newest there is; None where there is none."""
    beside = [os.path.join(folder, "set_env.sh") for folder in (home, os.path.dirname(home.rstrip("/")))]
    script = next(filter(os.path.isfile, beside), None) or (newest_script(patterns) or [None])[0]
    return f"source {script}" if script else None


def check_cann(home: str | None, toolkits: Sequence[str] = TOOLKITS) -> Finding:
    """The CANN toolkit that ASCEND_HOME_PATH names, and its version."""
    script, newest = newest_script(toolkits) or (None, None)
    if not home:
        what = (
            f"source {script}"
            if script
            else f"install CANN {OLDEST_CANN} or later and source its set_env.sh."
        )
        return Finding("CANN", "absent", "ASCEND_HOME_PATH is not set", f"Only needed on an NPU: {what}")
    version = cann_version(home)
    if version is None:
        if is_closed(home):
            advice = "Install CANN with --install-for-all, or run as the user that owns it."
            return Finding("CANN", "problem", f"{home} cannot be read by this user", advice)
        advice = f"Run: source {script}" if script else "Source the set_env.sh of the toolkit."
        return Finding("CANN", "problem", f"{home} is not a CANN toolkit", advice)
    if numbers(version)[:2] < numbers(OLDEST_CANN)[:2]:
        newer = script if numbers(newest or "")[:2] >= numbers(OLDEST_CANN)[:2] else None
        advice = f"Run: source {newer}" if newer else f"Install CANN {OLDEST_CANN} or later."
        return Finding("CANN", "problem", f"{home}, version {version}", advice)
    return Finding("CANN", "ok", f"{home}, version {version}")


def check_compiler_modules(home: str | None, python: str = "python3") -> list[Finding]:
    """Modules of the python3 that CANN's kernel compiler runs; they matter where there is a toolkit."""
    if not home:
        return []
    name, tool = "kernel compiler", shutil.which(python)
    if tool is None:
        return [Finding(name, "problem", f"no {python} in PATH", "To build kernels: install Python 3.")]
    run = subprocess.run([tool, "-c", TRY_MODULES, *COMPILER_MODULES], capture_output=True, text=True)
    versions = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    missing = [pip for module, pip in COMPILER_MODULES.items() if module not in versions]
    if missing:
        advice = f"To build kernels: {tool} -m pip install {' '.join(missing)}"
        return [Finding(name, "problem", f"{tool} lacks {', '.join(missing)}", advice)]
    text = ", ".join(f"{pip} {versions[module]}" for module, pip in COMPILER_MODULES.items())
    if numbers(versions["numpy"])[:1] >= (2,):
        advice = "Compilers up to CANN 8.2 need numpy 1; if kernels fail to compile: pip install 'numpy<2'"
        return [Finding(name, "ok", text, advice)]
    return [Finding(name, "ok", text)]
