# SPDX-License-Identifier: Apache-2.0
"""Made-up machines for the tests of avsg doctor: packages, toolkits, npu-smi, a user without rights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# {names}: the chips as the tool lists them. An A3 is Ascend910 there. {python}: its path may hold spaces.
SMI = """#!/bin/sh
"exec" "{python}" "$0" "$@"
import sys
if "board" in sys.argv:
    print("\\tNPU ID          : 0\\n\\tNPU Name        : 9392\\n\\tChip Name       : Ascend910")
else:
    print("| npu-smi 24.1.rc3.7               Version: 24.1.rc3.7                  |")
    for name in {names}:
        print(f"| 0     {{name:<20}}| OK            | 178.5       36                0    / 0            |")
        print("| 0     0                   | 0000:9D:00.0  | 0           0    / 0          91016 / 65536   |")
"""


def make_package(vendors: Path, name: str = "avsg", operators: bool = True, **info: str) -> Path:
    """A vendor directory as an installer leaves it."""
    home = vendors / name
    (home / "op_impl" / "ai_core" / "tbe" / "config" / "ascend910b").mkdir(parents=True)
    ops = {"AvsgMatch": {}, "Avsg": {}} if operators else {"Cast": {}}
    path = home / "op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json"
    path.write_text(json.dumps(ops))
    values = {"version": "1.0", "kernels": "ascend910b", "custom_opp_compiler_version": "7.7.0.1.238"} | info
    (home / "version.info").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return home


def make_toolkit(home: Path, version: str, compiler: str = "7.7.0.1.238", kind: str = "toolkit") -> str:
    """A CANN of this release; its compiler counts in its own way; files and numbers as in 8.1.RC1."""
    (home / "compiler").mkdir(parents=True)
    text = f'Version={compiler}\nversion_dir={version}\nrequired_opp_abi_version=">=6.3, <=7.7"\n'
    (home / "compiler" / "version.info").write_text(text)
    if kind:
        (home / "aarch64-linux").mkdir()
        info = f"package_name=Ascend-cann-{kind}\nversion={version}\ninnerversion=V100R001C21SPC001B238\n"
        (home / "aarch64-linux" / f"ascend_{kind}_install.info").write_text(info)
    return str(home)


@contextmanager
def nobody() -> Iterator[None]:
    """A user whom permissions bind, also where the tests run as root."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


def environment(vendors: Path, *priority: str, custom: str = "") -> dict[str, str]:
    """ASCEND_OPP_PATH above vendors with this load_priority."""
    (vendors / "config.ini").write_text(f"load_priority={','.join(priority)}\n")
    result = {"ASCEND_OPP_PATH": str(vendors.parent)}
    return {**result, "ASCEND_CUSTOM_OPP_PATH": custom} if custom else result
