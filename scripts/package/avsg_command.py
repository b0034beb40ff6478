#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bin/avsg of an installed package: the command line, with or without set_env.bash."""

import importlib.util
import os
import sys

NEEDED = ("click", "numpy", "rich")
OLDEST = (3, 9)


def main():
    """Ends in one sentence where this Python lacks something, else runs avsg.cli."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"avsg needs Python 3.9 or later and {sys.executable} is {sys.version.split()[0]}: "
            "put another python3 first in PATH."
        )
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"avsg needs {', '.join(missing)}, which {sys.executable} does not have: run "
            f"{sys.executable} -m pip install {' '.join(missing)}."
        )
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    sys.path.insert(0, os.path.join(home, "python"))
    from avsg.cli import main as run

    run(prog_name="avsg")


main()
