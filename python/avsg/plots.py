# SPDX-License-Identifier: Apache-2.0
"""Plots of a replay; needs matplotlib (the extra `plot`)."""

from __future__ import annotations

import io
import os
from pathlib import Path

from .replay import ReplayResult
from .traces import Trace

SUFFIXES = (".png", ".svg", ".pdf")


def check(path: str) -> None:
    """ValueError when a plot cannot be drawn or written to path."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ValueError(
            "--plot needs matplotlib, which is not installed: `pip install matplotlib`."
        ) from None
    if Path(path).suffix not in SUFFIXES:
        raise ValueError(f"--plot is {path}; the name must end in one of {', '.join(SUFFIXES)}.")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(f"--plot is {path}, but the folder {folder} does not exist: make it first.")
    if Path(path).is_dir() or not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise ValueError(f"--plot is {path}, which cannot be written: name a file in a folder of yours.")


def hit_rate_figure(results: list[ReplayResult], trace: Trace, path: str) -> None:
    """Writes hit rate against slots to a .png, .svg or .pdf file, one line per policy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for policy in dict.fromkeys(result.policy for result in results):
        points = sorted((r.num_slots, 100 * r.hit_rate) for r in results if r.policy == policy)
        axes.plot(*zip(*points), marker="o", label=policy)
    sizes = sorted({result.num_slots for result in results})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}\n{size / trace.top_k:g}x top_k" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("slots S")
    axes.set_ylabel("hit rate, percent of selected tokens")
    axes.set_title(f"{trace.name} (counted on a CPU)")
    axes.grid(alpha=0.3)
    axes.legend()
    picture = io.BytesIO()  # drawn before the file is opened: an interrupted run leaves no half of one
    figure.savefig(picture, dpi=150, format=Path(path).suffix[1:])
    try:
        Path(path).write_bytes(picture.getvalue())
    except OSError as error:
        raise ValueError(f"The plot cannot be written to {path}: {error.strerror}.") from None
