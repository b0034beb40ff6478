# SPDX-License-Identifier: Apache-2.0
"""AVSG: a device pool for the KV entries that a sparse-attention model selects most often.

Importing this package loads nothing; each name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import PoolConfig as PoolConfig
    from .errors import LibraryError as LibraryError
    from .errors import LibraryNotFoundError as LibraryNotFoundError
    from .errors import RowTableFull as RowTableFull
    from .errors import RuleViolationError as RuleViolationError
    from .host_memory import host_alloc as host_alloc
    from .plan import Plan as Plan
    from .pool import LoadCounts as LoadCounts
    from .pool import Pool as Pool
    from .pool import StoreCounts as StoreCounts
    from .row_table import Ownership as Ownership
    from .row_table import RowTable as RowTable
    from .stats import PoolStats as PoolStats

_MODULE_OF = {
    "LibraryError": "errors",
    "LibraryNotFoundError": "errors",
    "LoadCounts": "pool",
    "Ownership": "row_table",
    "Plan": "plan",
    "Pool": "pool",
    "PoolConfig": "config",
    "PoolStats": "stats",
    "RowTable": "row_table",
    "RowTableFull": "errors",
    "RuleViolationError": "errors",
    "StoreCounts": "pool",
    "host_alloc": "host_memory",
}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
    elif name in _MODULE_OF:
        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        return version("avsg")
    except PackageNotFoundError:  # a source tree that is not installed
        return (Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()
