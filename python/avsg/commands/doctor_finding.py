# SPDX-License-Identifier: Apache-2.0
"""What the parts of avsg doctor share: a finding, key=value files, a Python process that may crash."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """One line of the report. state: ok, absent (advice says who needs it) or problem. needed: by the CPU."""

    name: str
    state: str
    found: str
    advice: str = ""
    needed: bool = False


def text_of(path: str | os.PathLike[str]) -> str:
    """What a file says, "" where there is none or this user may not read it."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def is_closed(folder: str | os.PathLike[str]) -> bool:
    """Whether this user may not look into a folder."""
    try:
        os.listdir(folder)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def info_value(paths: Iterable[str | os.PathLike[str]], key: str) -> str | None:
    """Value of key in the first of these key=value files that has it."""
    for path in paths:
        found = re.search(rf"^[ \t]*{key}[ \t]*=[ \t]*(.*?)[ \t\r]*$", text_of(path), re.M)
        if found:
            return found[1]
    return None


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison: 8.3.RC1 is (8, 3, 1)."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def run_python(code: str, *arguments: str, timeout: float = 60) -> str:
    """Output of code in a process of its own: what it loads may crash or hang, and stays out of this one.

    Its last line is "ok ..." or a reason; a crash or a hang is a reason too.
    """
    command = [sys.executable, "-c", code, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"no answer within {timeout:.0f} s"
    lines = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    return lines[-1].strip() if lines else f"ended with status {done.returncode}"
