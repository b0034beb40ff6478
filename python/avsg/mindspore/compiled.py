# SPDX-License-Identifier: Apache-2.0
"""compiled: a graph that still works after a call that was refused."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import mindspore as ms

from .custom_ops import LOCK, refusal_in, wait_for

_failures = itertools.count(1)


def compiled(target: Callable, **jit_options: object) -> Callable:
    """ms.jit(target, **jit_options), compiled anew after a call that failed; in GRAPH_MODE a Cell runs as
    it is.

    target: a function, a Cell or a method of a Cell. What MindSpore has compiled stays broken once one of
    its kernels has raised: every later call fails. This one waits for the end of each call, raises
    ValueError with the sentence of a refused value, and works again at the next call (which compiles).
    Calls from several threads run one after the other, because MindSpore compiles in one thread only. Other
    errors are raised as they are.
    """
    cell = target if isinstance(target, ms.nn.Cell) else getattr(target, "__self__", None)
    runs_as_graph = target is cell and ms.get_context("mode") == ms.GRAPH_MODE
    function = target if runs_as_graph or target is not cell else target.construct
    runner = function if runs_as_graph else ms.jit(function, **jit_options)

    @functools.wraps(getattr(function, "construct", function))
    def call(*arguments: object, **keywords: object) -> object:
        nonlocal runner
        try:
            with LOCK:
                outputs = runner(*arguments, **keywords)
                wait_for(outputs)
        except RuntimeError as error:
            if isinstance(cell, ms.nn.Cell):
                # A Cell's compiled graphs are kept by its phase.
                cell.phase = f"predict_after_{next(_failures)}"
            if not runs_as_graph:
                runner = ms.jit(function, **jit_options)
            text = refusal_in(error)
            if text is None:
                raise
            raise ValueError(text) from None
        return outputs

    return call
