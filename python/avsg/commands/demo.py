# SPDX-License-Identifier: Apache-2.0
"""avsg demo: the replay of a shipped trace."""

from __future__ import annotations

import click

from ..replay import Settings
from ..traces import DEMO_TRACE, load_trace
from . import common
from .model import demo_model, model_options
from .replay import POLICIES, replay_trace


@click.command()
@click.option("--library", default="cpu", show_default=True, help=common.LIBRARY_HELP)
@click.option("--model", is_flag=True, help="Let a real language model decode instead (needs MindSpore).")
@click.option(
    "--slots", default="4x", show_default=True, help="With --model: slots of a layer, as for replay."
)
@model_options(tokens=64)
@click.pass_context
def demo(context: click.Context, library: str, model: bool, slots: str, **settings: object) -> None:
    """Replay the shipped trace of a 12,764-token agent transcript and check every row.

    With --model, to which the other options belong: SmolLM2-135M-Instruct answers a question about a long
    text with its whole KV cache on the device, copying all it reads, through the pool, and with drafts.

    Exit status: 0 all rows right and all answers equal, 1 not, 2 wrong input.
    """
    if model:
        if not demo_model(slots, library=library, **settings):
            context.exit(1)
        return
    trace = load_trace(DEMO_TRACE)
    common.console().print(
        f"A language model reads an agent transcript; one layer selects {trace.top_k} tokens (top_k) for "
        "each new one.\nHow many are on the device already, and is every row the pool returns the host's?\n"
    )
    sizes = [2 * trace.top_k, 4 * trace.top_k]
    if not replay_trace(Settings(trace, library=library), sizes, list(POLICIES), as_json=False, plot=None):
        context.exit(1)
