# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on the machine: NPU, driver, CANN toolkit, and the Python modules of its kernel compiler."""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .doctor_finding import Finding, info_value, numbers

OLDEST_CANN = "8.3.RC1"  # the first with the build functions that the operator package uses
COMPILER_MODULES = {"attr": "attrs", "decorator": "decorator", "numpy": "numpy", "psutil": "psutil"}
TOOLKITS = ("/usr/local/Ascend/*/set_env.sh", "~/Ascend/*/set_env.sh")
DRIVER_INFO = ("/usr/local/Ascend/driver/version.info", "/etc/ascend_install.info")
FAMILIES = {"910B": "ascend910b", "910_93": "ascend910_93"}  # by the start of a chip's name


def family_of(chip: str) -> str | None:
    """The family that kernels are built for: Ascend910B3 is ascend910b, Ascend910_9391 is ascend910_93."""
    name = chip.removeprefix("Ascend")
    return next((family for start, family in FAMILIES.items() if name.startswith(start)), None)


def chips(output: str) -> list[str]:
    """Chip names in what `npu-smi info` prints."""
    return sorted(set(re.findall(r"\b(?:Ascend)?(?:910[0-9A-Z_]*|310P[0-9]*)\b", output)))


def smi_output() -> str:
    """What `npu-smi info` prints, "" where it is missing or fails."""
    tool = shutil.which("npu-smi")
    if tool is None:
        return ""
    try:
        return subprocess.run([tool, "info"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


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
    output = smi_output()
    if not output:
        return Finding("NPU", "problem", f"{text}, npu-smi failed", "Run: npu-smi info")
    return Finding("NPU", "ok", f"{text}; {', '.join(chips(output)) or 'unknown chip'}")


def check_driver(paths: tuple[str, ...] = DRIVER_INFO) -> Finding:
    """The driver's version, from the file that it installs."""
    version = info_value(map(Path, paths), "Version")
    if version is None:
        return Finding(
            "driver",
            "absent",
            f"no {paths[0]}",
            "Only needed on an NPU: install the driver and firmware that belong to the CANN toolkit.",
        )
    return Finding("driver", "ok", version)


def cann_version(home: str) -> str | None:
    """The version of a toolkit, or None if there is none in this folder."""
    files = [
        *sorted(Path(home).glob("*-linux/ascend_toolkit_install.info")),
        Path(home) / "compiler/version.info",
    ]
    return info_value(files, "[Vv]ersion")


def source_line(patterns: Sequence[str] = TOOLKITS) -> str | None:
    """The line that sources the newest toolkit in the usual places, None where there is none."""
    scripts = [path for pattern in patterns for path in glob.glob(os.path.expanduser(pattern))]
    return f"source {max(scripts, key=numbers)}" if scripts else None


def check_cann(home: str | None, toolkits: Sequence[str] = TOOLKITS) -> Finding:
    """The CANN toolkit that ASCEND_HOME_PATH names, and its version."""
    line = source_line(toolkits)
    if not home:
        what = line or f"install CANN {OLDEST_CANN} or later and source its set_env.sh."
        return Finding("CANN", "absent", "ASCEND_HOME_PATH is not set", f"Only needed on an NPU: {what}")
    version = cann_version(home)
    if version is None:
        advice = f"Run: {line}" if line else "Source the set_env.sh of the toolkit."
        return Finding("CANN", "problem", f"{home} is not a CANN toolkit", advice)
    if numbers(version)[:2] < numbers(OLDEST_CANN)[:2]:
        advice = f"Install CANN {OLDEST_CANN} or later."
        return Finding("CANN", "problem", f"{home}, version {version}", advice)
    return Finding("CANN", "ok", f"{home}, version {version}")


def check_compiler_modules(home: str | None) -> list[Finding]:
    """Python modules of CANN's kernel compiler; they matter where there is a toolkit to build with."""
    if not home:
        return []
    name = "kernel compiler"
    missing = [pip for module, pip in COMPILER_MODULES.items() if importlib.util.find_spec(module) is None]
    if missing:
        text = f"Python lacks {', '.join(missing)}"
        return [Finding(name, "problem", text, f"To build kernels: pip install {' '.join(missing)}")]
    versions = [f"{pip} {importlib.metadata.version(pip)}" for pip in COMPILER_MODULES.values()]
    text = ", ".join(versions)
    if numbers(importlib.metadata.version("numpy"))[0] >= 2:
        advice = "Compilers up to CANN 8.2 need numpy 1; if kernels fail to compile: pip install 'numpy<2'"
        return [Finding(name, "ok", text, advice)]
    return [Finding(name, "ok", text)]
