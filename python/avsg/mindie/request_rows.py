# SPDX-License-Identifier: Apache-2.0
"""RequestRows: the rows and leases of an engine's sequences, through their whole life (SPEC.md "Leases")."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

import numpy as np

from ..errors import RowTableFull
from ..row_table import Ownership, RowTable

DUMMY_SEQUENCE = (
    9223372036854774  # MindIE-LLM: SIMULATE_SEQUENCE_ID of text_generator/utils/input_metadata.py
)
NO_ROW, NO_LEASE = -1, 0


class NoFreeRow(RowTableFull):
    """Every row has an owner: the request waits until one finishes."""


class RequestRows:
    """Who owns which row, by the engine's sequence ids; never by its recycled cache ids or block ids.

    A sequence gets a new lease with every admission, resume, recompute and fork, and every sequence gets one
    with renew_all (after warm-up, graph capture, a change of mode or of weights). Released on finish,
    preemption and abort. num_rows: rows of the pools. dummy_sequences: ids that the engine gives to entries
    without a request. Any thread may call any method. OverflowError: leases run out, after 2^31 - 1.
    """

    def __init__(self, num_rows: int, dummy_sequences: Iterable[Hashable] = (DUMMY_SEQUENCE,)) -> None:
        self._table = RowTable(num_rows)
        self._dummies = frozenset(dummy_sequences)
        self._last_step: dict[Hashable, int] = {}  # owners, with the step that named them last
        self._step = 0
        self._lock = threading.RLock()

    def admit(self, sequence: Hashable) -> Ownership:
        """A row under a new lease. NoFreeRow: the request waits. ValueError: admitted already, or a dummy."""
        key = _key(sequence)
        with self._lock:
            if self._is_dummy(key):
                raise ValueError(
                    f"sequence {key!r} is a dummy entry, and only requests own rows: leave it out, lookup "
                    "gives it row -1."
                )
            try:
                owned = self._table.admit(key)
            except RowTableFull as error:
                raise NoFreeRow(str(error)) from None
            self._last_step[key] = self._step
            return owned

    def admit_step(self, sequences: Iterable[Hashable]) -> int:
        """Admits the sequences of a decode step that own no row; returns how many rows it took from others.

        Where no row is free, the owner that has been absent from steps for longest loses its own; it is
        admitted under a new lease when it comes back. Dummy entries are passed over. NoFreeRow, and nothing
        has changed: the step alone has more sequences than there are rows.
        """
        with self._lock:
            present = dict.fromkeys(key for key in map(_key, sequences) if not self._is_dummy(key))
            if len(present) > self.capacity:
                raise NoFreeRow(
                    f"a step has {len(present)} sequences, but there are {self.capacity} rows: let the "
                    "others wait, or give the pool a row for each request of a step."
                )
            self._step += 1
            new = [key for key in present if key not in self._table]
            absent = sorted((key for key in self._last_step if key not in present), key=self._last_step.get)
            taken = absent[: max(len(self._last_step) + len(new) - self.capacity, 0)]
            self._release(taken)
            for key in new:
                self.admit(key)
            self._last_step.update(dict.fromkeys(present, self._step))
            return len(taken)

    def finish(self, sequences: Iterable[Hashable]) -> int:
        """Releases the rows of finished sequences; returns how many.

        An id without a row is passed over: an engine also clears sequences that never decoded on this rank.
        """
        return self._release(sequences)

    def preempt(self, sequences: Iterable[Hashable]) -> int:
        """As finish, for sequences that give way and come back by resume."""
        return self._release(sequences)

    def abort(self, sequences: Iterable[Hashable]) -> int:
        """As finish, for sequences that are given up."""
        return self._release(sequences)

    def resume(self, sequence: Hashable) -> Ownership:
        """A row under a new lease for a preempted sequence. Errors as for admit."""
        return self.recompute(sequence)

    def recompute(self, sequence: Hashable) -> Ownership:
        """A new lease, because the sequence's KV was written again or rolled back; admits it if need be."""
        key = _key(sequence)
        with self._lock:
            if key not in self._table:
                return self.admit(key)
            self._table.renew(key)
            return self._table[key]

    def fork(self, parent: Hashable, child: Hashable) -> Ownership:
        """A row and a lease of its own for `child`; the parent's KV stays as it is, and so does its lease.

        KeyError: the parent owns no row. Other errors as for admit.
        """
        with self._lock:
            self._owned(_key(parent))
            return self.admit(child)

    def release_all(self) -> int:
        """Releases every row, because no sequence of before is known any more; returns how many."""
        with self._lock:
            return self._release(list(self._last_step))

    def renew_all(self) -> None:
        """New leases for all, so that every row's next step starts from a reset."""
        with self._lock:
            self._table.renew_all()

    def lookup(self, sequences: Iterable[Hashable], size: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leases) of a step's entries, int32 [size] (default: as many as sequences).

        None, dummy ids and the entries up to size are inactive: row -1, lease 0. KeyError: a sequence owns
        no row. ValueError: more sequences than size, or one sequence named twice (SPEC.md: each row once).
        """
        keys = [_key(sequence) for sequence in sequences]
        size = len(keys) if size is None else size
        if len(keys) > size:
            raise ValueError(f"a step has {len(keys)} sequences, but its arrays hold {size} entries.")
        rows, leases = np.full(size, NO_ROW, np.int32), np.full(size, NO_LEASE, np.int32)
        with self._lock:
            for entry, key in enumerate(keys):
                if not self._is_dummy(key):
                    rows[entry], leases[entry] = self._owned(key)
        used = rows[rows >= 0]
        if len(np.unique(used)) != len(used):
            raise ValueError(f"a step names a sequence twice: {keys}; each owns one row.")
        return rows, leases

    def find(self, sequence: Hashable) -> Ownership | None:
        """(row, lease) of the sequence now, None when it owns no row."""
        key = _key(sequence)
        with self._lock:
            if key in self._table:
                return self._table[key]
        return None

    def __contains__(self, sequence: Hashable) -> bool:
        return _key(sequence) in self._table

    def __len__(self) -> int:
        """Rows in use."""
        return len(self._table)

    @property
    def capacity(self) -> int:
        """Rows in all."""
        return self._table.capacity

    def _is_dummy(self, key: Hashable) -> bool:
        return key is None or key in self._dummies

    def _owned(self, key: Hashable) -> Ownership:
        return self._table[key]

    def _release(self, sequences: Iterable[Hashable]) -> int:
        with self._lock:
            owners = [key for key in dict.fromkeys(map(_key, sequences)) if key in self._table]
            for key in owners:
                self._table.release(key)
                del self._last_step[key]
            return len(owners)


def _key(sequence: Hashable) -> Hashable:
    """The id itself; numpy integers as int, so that both name the same sequence."""
    return int(sequence) if isinstance(sequence, np.integer) else sequence
