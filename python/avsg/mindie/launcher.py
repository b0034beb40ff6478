# SPDX-License-Identifier: Apache-2.0
"""The worker process of MindIE-LLM with AVSG in it: a program called mindie_llm_backend, first on PATH.

MindIE's server starts each worker with execvp("mindie_llm_backend") (its executor.cpp), so the program that
stands first on PATH is the worker. `install` writes one into a folder of the caller's choice, which then
goes in front of PATH for the server only; nothing of MindIE is touched, and without the folder on PATH all is
stock.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from ..errors import sentence

PROGRAM = "mindie_llm_backend"
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
    return import_module("mindie_llm.connector.main").main()


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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Puts AVSG into MindIE-LLM's worker processes."""


@main.command(name="install")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def install_command(directory: Path) -> None:
    """Write mindie_llm_backend into DIRECTORY and say how the server finds it.

    Exit status: 0, or 2 when DIRECTORY has another program of that name.
    """
    try:
        target = install(directory.absolute())
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"# {target} is written. In the shell that starts mindie_llm_server:")
    click.echo(f'export PATH="{target.parent}:$PATH"')


@main.command()
@click.pass_context
def check(context: click.Context) -> None:
    """Say which mindie_llm_backend a server started here would run.

    Exit status: 0 when it is AVSG's and this Python imports MindIE-LLM, 1 otherwise.
    """
    programs = on_path(os.environ.get("PATH", os.defpath))
    ready = bool(programs) and is_launcher(programs[0])
    for place, program in enumerate(programs):
        what = "AVSG's launcher" if is_launcher(program) else "not AVSG's"
        click.echo(f"{'starts' if place == 0 else 'hidden'}: {program} ({what})")
    if not programs:
        click.echo(f"No {PROGRAM} is on PATH: run `python -m avsg.mindie.launcher install DIRECTORY`.")
    elif not ready:
        click.echo("Workers start without AVSG: put the launcher's folder in front of PATH.")
    if find_spec("mindie_llm") is None:
        click.echo(f"mindie_llm is not importable by {sys.executable}: MindIE-LLM runs where it is.")
        ready = False
    context.exit(0 if ready else 1)


if __name__ == "__main__":
    main()
