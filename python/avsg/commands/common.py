# SPDX-License-Identifier: Apache-2.0
"""What the commands share: wrong input as one sentence with exit status 2, sizes, libraries, table styles."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..errors import LibraryError, LibraryNotFoundError
from ..traces import TraceError

LIBRARY_HELP = "cpu, cpu-checked, reference, or the path of a library."
PLAIN_WIDTH = 110  # of tables that do not go to a terminal


class InputError(click.ClickException):
    """Something the user gave cannot be used; the text is one sentence."""

    exit_code = 2


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the package's refusals into InputError."""
    try:
        yield
    except (TraceError, ValueError, TypeError, LibraryError, LibraryNotFoundError, MemoryError) as error:
        raise InputError(str(error)) from None


def parse_slots(text: str, top_k: int) -> list[int]:
    """Slots of each size in a comma-separated list: 8192, 8K (times 1,024) or 4x (times top_k)."""
    sizes = []
    for part in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]*)([Kkx]?)", part.strip())
        if match is None:
            raise InputError(
                f"--slots has {part.strip()!r}; a size is a number of slots such as 8192, 8K (1K = 1024) "
                "or 4x (times the trace's top_k)."
            )
        factor = {"": 1, "K": 1024, "k": 1024, "x": top_k}[match[2]]
        if int(match[1]) * factor not in sizes:
            sizes.append(int(match[1]) * factor)
    return sizes


def console(stderr: bool = False) -> Console:
    """A console that keeps its width when the output goes to a file or a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else PLAIN_WIDTH, highlight=False)


def table(*columns: str, left: int = 1, title: str | None = None, tight: bool = False) -> Table:
    """A table whose first `left` columns are text and whose others are numbers.

    tight: for a narrow terminal, a heading's words stand below each other and only the last column wraps.
    """
    padding = (0, 0 if tight else 1)
    result = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, padding=padding)
    for index, column in enumerate(columns):
        heading = column.replace(" ", "\n") if tight else column
        justify = "left" if index < left else "right"
        whole = tight and index < len(columns) - 1
        result.add_column(heading, justify=justify, overflow="fold", no_wrap=whole)
    return result


def byte_text(count: float) -> str:
    """A count of bytes in decimal units: 12.3 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
