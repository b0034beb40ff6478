# SPDX-License-Identifier: Apache-2.0
"""GLM's router in MindIE's server process: it makes tokenizers before any worker starts, and forks them.

The server embeds Python, so the launcher of worker processes does not reach it. `python -m avsg.mindie.glm
install` writes a line into site-packages that Python executes at every start; it adds an import hook, a few
milliseconds, that waits for MindIE's models. `remove` takes it out again.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from .router import wrap_get_router_ins

MODULE, NAME, FILE = "mindie_llm.runtime.models", "get_router_ins", "avsg_glm.pth"
_LINE = (  # nothing where AVSG is not on the path: its set_env.bash was not sourced, or it was uninstalled
    "import importlib.util; importlib.util.find_spec('avsg') "
    "and importlib.import_module('avsg.mindie.glm.hook').add()\n"
)


class _Finder(MetaPathFinder):
    """Finds MODULE as everyone else does, and wraps NAME once it has run."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)  # once is enough, and find_spec below must not come here again
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_wrap(module: ModuleType) -> None:
                execute(module)
                _wrap(module)

            spec.loader.exec_module = execute_and_wrap
        return spec


def add() -> None:
    """From the next import of MODULE on, or now if it is there: MindIE routes glm_moe_dsa. Idempotent."""
    if MODULE in sys.modules:
        _wrap(sys.modules[MODULE])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _wrap(module: ModuleType) -> None:
    stock = getattr(module, NAME, None)
    if stock is None:
        warnings.warn(
            f"{MODULE} has no {NAME}, so AVSG cannot add glm_moe_dsa: use a MindIE-LLM that AVSG knows.",
            stacklevel=2,
        )
    elif not hasattr(stock, "__wrapped__"):
        setattr(module, NAME, wrap_get_router_ins(stock))


def install(directory: Path) -> Path:
    """Writes FILE into a site-packages directory; returns its path."""
    path = directory / FILE
    path.write_text(_LINE)
    return path
