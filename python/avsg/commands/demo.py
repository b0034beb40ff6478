# SPDX-License-Identifier: Apache-2.0
"""avsg demo: the replay of a shipped trace."""

from __future__ import annotations

import click

from ..replay import Settings
from ..traces import DEMO_TRACE, load_trace
from . import common
from .replay import POLICIES, replay_trace


@click.command()
@click.option("--library", default="cpu", show_default=True, help=common.LIBRARY_HELP)
@click.pass_context
def demo(context: click.Context, library: str) -> None:
    """Replay the shipped trace of a 12,764-token agent transcript and check every row.

    Exit status: 0 all rows right, 1 a row was wrong.
    """
    trace = load_trace(DEMO_TRACE)
    common.console().print(
        f"A language model reads an agent transcript; one layer selects {trace.top_k} tokens (top_k) for "
        "each new one.\nHow many are on the device already, and is every row the pool returns the host's?\n"
    )
    sizes = [2 * trace.top_k, 4 * trace.top_k]
    if not replay_trace(Settings(trace, library=library), sizes, list(POLICIES), as_json=False, plot=None):
        context.exit(1)
