# SPDX-License-Identifier: Apache-2.0
"""Options of scripts/bench.py: wrong ones are refused in a sentence before anything is measured."""

from __future__ import annotations

import shutil

import click

import avsg
from avsg import _abi


def numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> list[float]:
    """Comma-separated numbers of an option."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 2048,4096.") from None


def percents(context: click.Context, parameter: click.Parameter, text: str) -> list[float]:
    """Comma-separated shares of an option, 0 to 100."""
    values = numbers(context, parameter, text)
    if not all(0 <= value <= 100 for value in values):
        raise click.BadParameter(f"{text!r} is not a list of percentages, each 0 to 100.")
    return values


def library_path(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    """Path of the library that an option names; it must load and must not be the numpy reference."""
    try:
        path = _abi.resolve(name)
        if path == "reference":
            raise click.BadParameter("'reference' is always measured beside the library: pass cpu or a path.")
        _abi.load(path)
    except (avsg.LibraryError, avsg.LibraryNotFoundError) as error:
        raise click.BadParameter(str(error)) from None
    return str(path)


def check_sizes(top_k: list[int], slots: list[int]) -> None:
    """Refuses sizes of which none holds a step, and a machine without the compiler of the baselines."""
    for name, sizes in (("--top-k", top_k), ("--slots", slots)):
        if not all(size == int(size) and size >= 1 for size in sizes):
            raise click.UsageError(f"{name} is {sizes}; sizes are whole numbers of at least 1.")
    if min(top_k) > max(slots):
        raise click.UsageError(f"--top-k {min(top_k):g} needs as many --slots or more, not {max(slots):g}.")
    if shutil.which("g++") is None:
        raise click.UsageError("g++ is missing: install it, the baselines are compiled at the start.")


POSITIVE = click.IntRange(min=1)
LIBRARY = click.option(
    "--library",
    "path",
    default="cpu",
    show_default=True,
    callback=library_path,
    help="cpu, cpu-checked or a path.",
)
