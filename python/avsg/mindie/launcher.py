# SPDX-License-Identifier: Apache-2.0
"""The worker process of MindIE-LLM with AVSG in it: a program called mindie_llm_backend, first on PATH.

MindIE's server starts each worker with execvp("mindie_llm_backend") (its executor.cpp), so the program that
stands first on PATH is the worker. `install` writes one into a folder of the caller's choice, which then
goes in front of PATH for the server only; nothing of MindIE is touched, and without the folder on PATH all is
stock.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..errors import sentence

PROGRAM = "mindie_llm_backend"
_log = logging.getLogger(__name__)
_MARK = "# AVSG starts MindIE-LLM's worker process: python -m avsg.mindie.launcher"
_TEXT = f"""#!/bin/sh
'''exec' {{python}} "$0" "$@"
' '''
{_MARK}
import sys

from avsg.mindie.launcher import run

sys.exit(run())
"""


def run() -> int:
    """Registers AVSG and runs MindIE-LLM's worker; returns its exit status.

    register comes before MindIE's models are imported. When it fails, no worker starts: a worker without
    AVSG would ask for HBM that the configuration does not leave it.
    """
    _log_to_stderr()
    try:
        if find_spec("mindie_llm") is None:
            raise ImportError(
                f"mindie_llm is not importable by {sys.executable}: install AVSG into the Python that runs "
                "MindIE-LLM, and install the launcher with it again."
            )
        import_module("avsg.mindie.register").register()
    except Exception as error:  # whatever it is, the server's log must say why there is no worker
        traceback.print_exc()
        print(f"AVSG did not register, so no worker starts: {error}", file=sys.stderr, flush=True)
        return 1
    _log.info("AVSG is registered; it serves the models whose configuration enables it.")
    return import_module("mindie_llm.connector.main").main()


def _log_to_stderr() -> None:
    """The server prints what its workers write to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("avsg")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def install(directory: Path, python: str = sys.executable) -> Path:
    """Writes the program into `directory`, to be run by `python`; returns its path.

    ValueError, and nothing is written: the folder has a mindie_llm_backend that AVSG did not write, or the
    path of python cannot stand in a script.
    """
    target = directory / PROGRAM
    if os.path.lexists(target) and not is_launcher(target):
        raise ValueError(
            sentence(
                str(target), "a program that AVSG did not write", "a folder without it", "name another folder"
            )
        )
    if set(python) & set("\"'`$\\\n"):
        raise ValueError(
            sentence("the path of Python", repr(python), "one without quotes, $ or \\", "use another one")
        )
    directory.mkdir(parents=True, exist_ok=True)
    target.write_text(_TEXT.format(python=f'"{python}"'))
    target.chmod(0o755)
    return target


def is_launcher(program: Path) -> bool:
    """Did install write this file?"""
    try:
        return _MARK.encode() in program.read_bytes()
    except OSError:
        return False


def on_path(path: str) -> list[Path]:
    """Every mindie_llm_backend that execvp would find on `path`, in order."""
    candidates = [Path(folder or ".") / PROGRAM for folder in path.split(os.pathsep)]
    return [found for found in candidates if found.is_file() and os.access(found, os.X_OK)]


def check(path: str) -> tuple[bool, list[str]]:
    """Whether a server with this PATH starts AVSG's workers, and what there is to say about it, in lines."""
    programs = on_path(path)
    lines = [
        f"{'hidden' if place else 'starts'}: {program} ({'AVSG' if is_launcher(program) else 'not AVSG'})"
        for place, program in enumerate(programs)
    ]
    ready = bool(programs) and is_launcher(programs[0])
    if not programs:
        lines.append(f"No {PROGRAM} is on PATH: run python -m avsg.mindie.launcher install DIRECTORY.")
    elif not ready:
        lines.append("Workers start without AVSG: put the launcher's folder in front of PATH.")
    if find_spec("mindie_llm") is None:
        lines.append(f"mindie_llm is not importable by {sys.executable}: MindIE-LLM runs where it is.")
        ready = False
    return ready, lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; without click, which a serving image may not have."""
    parser = argparse.ArgumentParser(
        prog="python -m avsg.mindie.launcher", description="Puts AVSG into MindIE-LLM's worker processes."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help=f"write {PROGRAM} into a folder that goes first on PATH")
    installing.add_argument("directory", type=Path)
    commands.add_parser(
        "check", help="say which worker a server started here would run; status 1: not AVSG's"
    )
    options = parser.parse_args(arguments)
    if options.command == "check":
        ready, lines = check(os.environ.get("PATH", os.defpath))
        print("\n".join(lines))
        return 0 if ready else 1
    try:
        target = install(options.directory.absolute())
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{options.directory} cannot be written ({error.strerror}): name another folder.")
    print(f"# {target} is written. In the shell that starts mindie_llm_server:")
    print(f'export PATH="{target.parent}:$PATH"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
