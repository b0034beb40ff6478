# SPDX-License-Identifier: Apache-2.0
"""RowTable: which sequence owns which row of the state, and under which lease (SPEC.md "Leases")."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Hashable
from typing import NamedTuple

from .errors import RowTableFull, sentence

_MAX_LEASE = 2**31 - 1


class Ownership(NamedTuple):
    """A row and the lease under which a sequence owns it."""

    row: int
    lease: int


class RowTable:
    """Gives rows 0..num_rows-1 to sequences and numbers every ownership with a lease.

    A lease is an int32 that this table never gives twice (1, 2, 3, ... up to 2^31 - 1). Keep one table for
    the life of a pool: a second table for the same pool would repeat leases, so call
    `pool.reset(range(num_rows))` in between. Renew a lease whenever the KV behind token numbers may have
    changed: resume after preemption, fork, re-prefill, a rewrite of committed host KV or a decode step that
    went around the pool, a load that was skipped, and a roll-back of committed tokens (the step that decodes
    the first of them again counts it as verified, so its old row would hit; rejected drafts were never
    verified and need nothing); renew_all after a change of weights. Every method may be called from any
    thread. Errors: RowTableFull when every row has an owner, OverflowError when leases run
    out, KeyError for an unknown sequence, ValueError for a sequence that is admitted twice.
    """

    def __init__(self, num_rows: int) -> None:
        if isinstance(num_rows, bool) or not isinstance(num_rows, int):
            raise TypeError(
                sentence("num_rows", repr(num_rows), "a whole number", "pass PoolConfig.num_rows")
            )
        if num_rows < 1:
            raise ValueError(sentence("num_rows", num_rows, "1 or more", "pass PoolConfig.num_rows"))
        self._capacity = num_rows
        self._free = list(range(num_rows))  # a heap: the lowest free row is given first
        self._owners: dict[Hashable, Ownership] = {}
        self._last_lease = 0
        self._lock = threading.Lock()

    def admit(self, sequence: Hashable) -> Ownership:
        """Gives `sequence` the lowest free row under a new lease; returns (row, lease)."""
        with self._lock:
            if sequence in self._owners:
                raise ValueError(
                    f"sequence {sequence!r} is admitted already, with row {self._owners[sequence].row}, and "
                    "a sequence is admitted once: call renew for a new lease, or release it first."
                )
            if not self._free:
                raise RowTableFull(
                    f"sequence {sequence!r} found all {self._capacity} rows taken: queue it and admit it "
                    "after a release, or create the pool with a larger num_rows."
                )
            self._refuse_exhaustion(1)
            owned = self._owners[sequence] = Ownership(heapq.heappop(self._free), self._new_lease())
            return owned

    def release(self, sequence: Hashable) -> None:
        """Takes the row back; its lease is never given again."""
        with self._lock:
            heapq.heappush(self._free, self._owned(sequence).row)
            del self._owners[sequence]

    def renew(self, sequence: Hashable) -> int:
        """A new lease for the sequence's row, so that its next step starts from a reset; returns it."""
        with self._lock:
            row = self._owned(sequence).row
            self._refuse_exhaustion(1)
            owned = self._owners[sequence] = Ownership(row, self._new_lease())
            return owned.lease

    def renew_all(self) -> dict[Hashable, int]:
        """New leases for every admitted sequence; returns them by sequence."""
        with self._lock:
            self._refuse_exhaustion(len(self._owners))
            for sequence, owned in self._owners.items():
                self._owners[sequence] = Ownership(owned.row, self._new_lease())
            return {sequence: owned.lease for sequence, owned in self._owners.items()}

    def __getitem__(self, sequence: Hashable) -> Ownership:
        """(row, lease) of an admitted sequence."""
        with self._lock:
            return self._owned(sequence)

    def __contains__(self, sequence: Hashable) -> bool:
        return sequence in self._owners

    def __len__(self) -> int:
        """Admitted sequences."""
        return len(self._owners)

    @property
    def capacity(self) -> int:
        """Rows in all, owned or free."""
        return self._capacity

    def _owned(self, sequence: Hashable) -> Ownership:
        try:
            return self._owners[sequence]
        except KeyError:
            raise KeyError(
                f"sequence {sequence!r} owns no row: admit it first, and release it only once."
            ) from None

    def _new_lease(self) -> int:
        self._last_lease += 1
        return self._last_lease

    def _refuse_exhaustion(self, count: int) -> None:
        if self._last_lease + count > _MAX_LEASE:
            raise OverflowError(
                f"this RowTable has given {self._last_lease} leases and {_MAX_LEASE} is the last that an "
                "int32 can hold: make a new RowTable and call pool.reset for all rows."
            )
