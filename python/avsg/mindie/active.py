# SPDX-License-Identifier: Apache-2.0
"""The one Runtime of this process: MindIE's classes are made by MindIE, so they find it here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime import Runtime

_runtime: Runtime | None = None


def activate(runtime: Runtime | None) -> None:
    """Makes `runtime` the process's, None takes it back."""
    global _runtime
    _runtime = runtime


def find_runtime() -> Runtime | None:
    """The process's Runtime, None where AVSG is not enabled."""
    return _runtime


def active_runtime() -> Runtime:
    """The process's Runtime. RuntimeError: AVSG is not enabled."""
    if _runtime is None:
        raise RuntimeError(
            "AVSG is not enabled in this process, but its attention backend was called: register() comes "
            'before the model is made, and the model\'s configuration has "avsg": {"enable": true}.'
        )
    return _runtime
