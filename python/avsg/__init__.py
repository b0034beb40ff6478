# SPDX-License-Identifier: Apache-2.0
"""AVSG: a device pool for the KV entries that a sparse-attention model selects most often.

Importing this package loads nothing; each name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

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
    from .version import __version__ as __version__

_MODULE_OF = {
    "__version__": "version",
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
__all__ = list(_MODULE_OF)
__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
