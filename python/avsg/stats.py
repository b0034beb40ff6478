# SPDX-License-Identifier: Apache-2.0
"""Running totals of a pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import layout


@dataclass(frozen=True)
class PoolStats:
    """Totals since the pool was created or its `reset_stats` was called.

    steps: matches. valid_tokens, hits, misses, bad_tokens, invalidated, unlinked: sums of the counters of
    SPEC.md. resets: rows that a step found to be another lease's, poisoned or empty. rows_copied, bad_blocks:
    of all loads, one per miss and load whatever the number of payloads. bytes_copied: rows_copied times the
    row bytes of all payloads. rows_stored, rows_skipped: of all stores.
    """

    steps: int = 0
    valid_tokens: int = 0
    hits: int = 0
    misses: int = 0
    bad_tokens: int = 0
    invalidated: int = 0
    unlinked: int = 0
    resets: int = 0
    rows_copied: int = 0
    bytes_copied: int = 0
    bad_blocks: int = 0
    rows_stored: int = 0
    rows_skipped: int = 0

    @property
    def hit_rate(self) -> float:
        """hits / valid_tokens, 0 before the first valid token."""
        return self.hits / self.valid_tokens if self.valid_tokens else 0.0


class StatsCounter:
    """Adds up what the libraries count."""

    def __init__(self) -> None:
        self._steps = self._resets = self._bytes_copied = 0
        self._match = np.zeros(layout.NUM_COUNTERS, np.int64)
        self._load = np.zeros(layout.NUM_LOAD_COUNTERS, np.int64)
        self._store = np.zeros(layout.NUM_STORE_COUNTERS, np.int64)

    def add_match(self, counters: np.ndarray) -> None:
        """counters int32 [B, 8] of one match."""
        self._steps += 1
        self._match += counters.sum(axis=0, dtype=np.int64)
        self._resets += int(np.count_nonzero(counters[:, layout.COUNTER_FLAGS] & layout.FLAG_RESET))

    def add_load(self, counters: np.ndarray, row_bytes: int) -> None:
        """counters int32 [2] of one load whose payloads have row_bytes per row together."""
        self._load += counters
        self._bytes_copied += int(counters[layout.LOAD_ROWS_COPIED]) * row_bytes

    def add_store(self, counters: np.ndarray) -> None:
        """counters int32 [2] of one store."""
        self._store += counters

    def totals(self) -> PoolStats:
        """The totals so far."""
        match, load, store = self._match.tolist(), self._load.tolist(), self._store.tolist()
        return PoolStats(
            steps=self._steps,
            valid_tokens=match[layout.COUNTER_VALID],
            hits=match[layout.COUNTER_HITS],
            misses=match[layout.COUNTER_MISSES],
            bad_tokens=match[layout.COUNTER_BAD_TOKENS],
            invalidated=match[layout.COUNTER_INVALIDATED],
            unlinked=match[layout.COUNTER_UNLINKED],
            resets=self._resets,
            rows_copied=load[layout.LOAD_ROWS_COPIED],
            bytes_copied=self._bytes_copied,
            bad_blocks=load[layout.LOAD_BAD_BLOCKS],
            rows_stored=store[layout.STORE_ROWS_STORED],
            rows_skipped=store[layout.STORE_SKIPPED],
        )
