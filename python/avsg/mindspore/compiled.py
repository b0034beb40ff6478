# SPDX-License-Identifier: Apache-2.0
"""compiled: a graph that still works after a call that was refused."""

from __future__ import annotations

import functools
from collections.abc import Callable

import mindspore as ms

from .custom_ops import refusal_in, wait_for


def compiled(target: Callable, **jit_options: object) -> Callable:
    """ms.jit(target, **jit_options), compiled anew after a call that failed; in GRAPH_MODE a Cell runs as it is.

    target: a function, a Cell or a method of a Cell. What MindSpore has compiled stays broken once one of its kernels
    has raised: every later call fails. This one waits for the end of each call, raises ValueError with the sentence
    of a refused value, and works again at the next call (which compiles). Other errors are raised as they are.
    """
    cell = target if isinstance(target, ms.nn.Cell) else getattr(target, "__self__", None)
    runs_as_graph = target is cell and ms.get_context("mode") == ms.GRAPH_MODE
    function = target if runs_as_graph or target is not cell else target.construct
    runner = function if runs_as_graph else ms.jit(function, **jit_options)
    failures = 0

    @functools.wraps(getattr(function, "construct", function))
    def call(*arguments: object, **keywords: object) -> object:
        nonlocal runner, failures
        try:
            outputs = runner(*arguments, **keywords)
            wait_for(outputs)
        except RuntimeError as error:
            failures += 1
            if isinstance(cell, ms.nn.Cell):
                cell.phase = f"predict_after_{failures}"  # the compiled graphs of a Cell are kept by its phase
            if not runs_as_graph:
                runner = ms.jit(function, **jit_options)
            text = refusal_in(error)
            if text is None:
                raise
            raise ValueError(text) from None
        return outputs

    return call
