# SPDX-License-Identifier: Apache-2.0
"""python -m avsg.mindie.glm: puts GLM's router into the Python that runs MindIE's server, or takes it out."""

from __future__ import annotations

import argparse
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from . import hook


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: install or remove the line for this Python."""
    parser = argparse.ArgumentParser(prog="python -m avsg.mindie.glm", description=hook.__doc__)
    parser.add_argument("action", choices=("install", "remove"))
    directory = Path(sysconfig.get_paths()["purelib"])
    try:
        if parser.parse_args(arguments).action == "install":
            path = hook.install(directory)
            print(f"{path} is written: from its next start MindIE's server knows glm_moe_dsa.")
        else:
            (directory / hook.FILE).unlink(missing_ok=True)
            print(f"{directory / hook.FILE} is gone.")
    except OSError as error:
        parser.error(
            f"{directory} cannot be written ({error.strerror}): run this as the owner of that Python."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
