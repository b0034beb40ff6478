# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on shared objects: the C library they need and the C++ ABI they speak, read with nm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .doctor_finding import Finding, numbers

CXX11 = "std::__cxx11::"


def undefined_symbols(path: Path) -> str | None:
    """What the file needs of others, names demangled and versions kept; None if nm cannot read it."""
    done = subprocess.run(["nm", "-DC", "--undefined-only", str(path)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def newest_glibc(symbols: str) -> str:
    """The highest GLIBC_ version among needed symbols, "0" where there is none."""
    return max(re.findall(r"@GLIBC_([0-9.]+)", symbols), key=numbers, default="0")


def this_glibc() -> str:
    """The version of this machine's C library, "0" if it is another one."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return "0"
    return version if name == "glibc" else "0"


def libraries_of(package: Path) -> list[Path]:
    """Every shared object of an installed package, without those that are links to others."""
    return sorted(path for path in package.rglob("*.so") if path.is_file() and not path.is_symlink())


def check_libraries(files: Sequence[Path], glibc: str) -> list[Finding]:
    """glibc and C++ ABI of these shared objects against this machine and CANN, whose libraries use ABI 0."""
    if not files:
        return []
    if shutil.which("nm") is None:
        advice = "To look into libraries: install binutils."
        return [
            Finding("glibc", "absent", "no nm in PATH", advice),
            Finding("C++ ABI", "absent", "no nm in PATH", advice),
        ]
    needs = {path: undefined_symbols(path) for path in files}
    broken = [path for path, symbols in needs.items() if symbols is None]
    if broken:
        advice = "Install the package again: a file is damaged, or for another machine."
        return [Finding("glibc", "problem", f"nm cannot read {broken[0]}", advice)]
    return [_glibc(needs, glibc), _cxx_abi(needs)]


def _glibc(needs: dict[Path, str], glibc: str) -> Finding:
    newest = {path: newest_glibc(symbols) for path, symbols in needs.items()}
    path, needed = max(newest.items(), key=lambda item: numbers(item[1]))
    text = f"{path.name} needs {needed}, this machine has {glibc}"
    if numbers(needed) > numbers(glibc):
        return Finding("glibc", "problem", text, "Build the package on this machine: bash scripts/build.sh")
    return Finding("glibc", "ok", text)


def _cxx_abi(needs: dict[Path, str]) -> Finding:
    """Only what crosses into CANN matters: tiling and op_proto libraries link with its C++ functions."""
    new_abi = [path for path, symbols in needs.items() if "libcust_op" in path.name and CXX11 in symbols]
    if new_abi:
        text = f"{new_abi[0].name} needs {CXX11} symbols, which CANN's libraries do not have"
        advice = "Build without _GLIBCXX_USE_CXX11_ABI=1 in the flags: bash scripts/build.sh --clean"
        return Finding("C++ ABI", "problem", text, advice)
    return Finding("C++ ABI", "ok", f"{len(needs)} libraries, none needs {CXX11} of CANN")
