# SPDX-License-Identifier: Apache-2.0
"""python -m avsg.torch_ops: compiles the extension for the installed torch and prints its path."""

import sys

from .extension import build
from .library import load


def main() -> int:
    """Builds, and loads what was built, so that a broken build is seen here; the exit status."""
    try:
        path = build()
        load("cpu")
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
