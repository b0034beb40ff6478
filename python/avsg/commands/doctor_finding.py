# SPDX-License-Identifier: Apache-2.0
"""What the parts of avsg doctor share: a finding, key=value files, a Python process that may crash."""

from __future__ import annotations

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


def info_value(paths: Iterable[Path], key: str) -> str | None:
    """Value of key in the first of these key=value files that has it."""
    for path in paths:
        if not path.is_file():
            continue
        found = re.search(rf"^[ \t]*{key}[ \t]*=[ \t]*(\S*)", path.read_text(errors="replace"), re.M)
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
