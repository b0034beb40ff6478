# SPDX-License-Identifier: Apache-2.0
"""Pool: the state of all rows and the four calls of a decode step (match, load, both at once, store)."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from . import checks, layout, values
from .args import CopyArgs, PlanArgs, StepArgs
from .arrays import ArrayView, aligned_zeros, refuse_overlap, view
from .backends import Sizes, make_backend
from .config import PoolConfig
from .errors import sentence
from .plan import Plan
from .stats import PoolStats, StatsCounter


class LoadCounts(NamedTuple):
    """What one load did, per miss and not per payload (SPEC.md "Copy")."""

    rows_copied: int
    bad_blocks: int


class StoreCounts(NamedTuple):
    """What one store did (SPEC.md "Store")."""

    rows_stored: int
    rows_skipped: int


class Pool:
    """The KV entries that each row keeps on the device, and which slot holds which token (SPEC.md).

    config: the sizes. library: "cpu", "cpu-checked", "reference" (numpy), "npu", or the path of a
    libavsg_*.so; None = the environment variable AVSG_LIBRARY, else cpu. num_cores: cores of a launch, 0 =
    all.

    Arrays are numpy arrays or anything with the buffer protocol, `__dlpack__` or `data_ptr`. They are used
    where they are: contiguous, of the exact dtype and shape, never copied, and memory that a call writes must
    not overlap anything else. B is the number of batch entries of a call, Q its queries, K = top_k, S =
    num_slots. Whatever is refused raises ValueError or TypeError with the argument's name, what it got, what
    is allowed and what to do; state, plan and outputs are then unchanged. With check=True values are refused
    too (module values); check=False hands them to the library, which treats them as SPEC.md says. Calls from
    several threads run one after the other.
    """

    def __init__(
        self, config: PoolConfig, library: str | os.PathLike[str] | None = None, num_cores: int = 0
    ) -> None:
        if not isinstance(config, PoolConfig):
            raise TypeError(
                sentence(
                    "config",
                    f"a {type(config).__name__}",
                    "only a PoolConfig",
                    "pass avsg.PoolConfig(num_rows, num_slots, top_k)",
                )
            )
        if (
            isinstance(num_cores, bool)
            or not isinstance(num_cores, int)
            or not 0 <= num_cores <= layout.MAX_CORES
        ):
            raise ValueError(
                sentence("num_cores", repr(num_cores), f"0 (all) to {layout.MAX_CORES}", "pass 0")
            )
        self._config = config
        self._backend = make_backend(config, library, num_cores)
        sizes = self._backend.sizes
        try:
            self._state = aligned_zeros((config.num_rows, sizes.state_stride_bytes))
        except MemoryError:
            got, allowed = f"{config.num_rows}, {sizes.state_bytes} bytes of state", "what memory holds"
            raise MemoryError(sentence("num_rows", got, allowed, "give one row to each request")) from None
        self._state_view = view("pool.state", self._state)
        self._stats = StatsCounter()
        self._lock = threading.Lock()

    @property
    def config(self) -> PoolConfig:
        """The sizes this pool was made with."""
        return self._config

    @property
    def library(self) -> str:
        """Name of the library that runs: "reference", "cpu" or "cpu-checked"."""
        return self._backend.name

    @property
    def sizes(self) -> Sizes:
        """Counts and bytes that follow from the config on this library."""
        return self._backend.sizes

    @property
    def state(self) -> np.ndarray:
        """The state itself, not a copy: uint8 [num_rows, stride] as in SPEC.md "State of one row"."""
        return self._state

    def match(
        self,
        topk_tokens: object,
        *,
        verified_lens: object,
        seq_lens: object,
        leases: object,
        rows: object,
        out: Plan | None = None,
        check: bool = True,
    ) -> Plan:
        """One step: gives every valid token a slot and lists what must be copied (SPEC.md "One step").

        topk_tokens int32 [B, Q, K], 1 <= Q <= num_queries, negative = padding. int32 [B] each: verified_lens
        (tokens whose KV is final once this step has stored its rows, seq_len - queries + 1), seq_lens (all
        tokens, this step's queries included), leases and rows (from RowTable; a negative row is inactive).
        out: a Plan of the same B and Q to fill. Returns the plan. check=True refuses rows outside the pool or
        named twice, negative or contradicting lengths, seq_len > MAX_TOKENS, and tokens at or past their
        seq_len.
        """
        with self._lock:
            step = checks.step_args(self._config, topk_tokens, verified_lens, seq_lens, leases, rows)
            plan, plan_args = self._plan_for(step, out)
            refuse_overlap([self._state_view, *plan_args.views()], step.views())
            if check:
                values.check_step(self._config, step)
            self._backend.match(self._state, step, plan_args)
            self._stats.add_match(plan_args.counters.as_int32())
        return plan

    def load(
        self,
        plan: Plan,
        host_kv: object,
        device_kv: object,
        *,
        block_table: object,
        fresh: object = None,
        check: bool = True,
    ) -> LoadCounts:
        """Copies the plan's rows from host_kv (or fresh) to device_kv (SPEC.md "Copy").

        host_kv [num_blocks, block_size, ...] and device_kv [num_rows * S, ...]: one array each, or lists of
        one to four, any dtype, equal bytes per row and a multiple of 16. block_table int32 [B, max_blocks].
        fresh [B, Q, ...] per payload: the step's own rows, taken instead of the host's. Each layer of a group
        may load the same plan; every one must before the row's next match, or the lease is renewed. Returns
        (rows_copied, bad_blocks). check=True refuses a plan that no match can have written and block ids
        outside host_kv for the tokens that would be read there; check=False fills such a row with zeros and
        its next step starts from a reset.
        """
        with self._lock:
            plan_args = checks.plan_args(self._config, plan, None, "plan", write=False)
            copy = checks.load_args(
                self._config,
                host_kv,
                device_kv,
                block_table,
                fresh,
                plan_args.num_entries,
                plan_args.num_queries,
            )
            refuse_overlap([self._state_view, *_written(copy)], [*plan_args.views(), *_read(copy)])
            if check:
                values.check_load(self._config, plan_args, copy)
            counters = np.zeros(layout.NUM_LOAD_COUNTERS, np.int32)
            self._backend.load(self._state, plan_args, copy, counters)
            self._stats.add_load(counters, sum(p.row_bytes for p in copy.payloads))
        return LoadCounts(*counters.tolist())

    def step(
        self,
        topk_tokens: object,
        host_kv: object,
        device_kv: object,
        *,
        verified_lens: object,
        seq_lens: object,
        leases: object,
        rows: object,
        block_table: object,
        fresh: object = None,
        out: Plan | None = None,
        check: bool = True,
    ) -> Plan:
        """match and load in one launch; arguments as there, returns the plan.

        check=True refuses what match refuses, and block ids outside host_kv for any token of topk_tokens that
        `fresh` does not provide, because each may be a miss.
        """
        with self._lock:
            step = checks.step_args(self._config, topk_tokens, verified_lens, seq_lens, leases, rows)
            copy = checks.load_args(
                self._config, host_kv, device_kv, block_table, fresh, step.num_entries, step.num_queries
            )
            plan, plan_args = self._plan_for(step, out)
            refuse_overlap(
                [self._state_view, *plan_args.views(), *_written(copy)], [*step.views(), *_read(copy)]
            )
            if check:
                values.check_step(self._config, step)
                values.check_step_blocks(step, copy)
            counters = np.zeros(layout.NUM_LOAD_COUNTERS, np.int32)
            self._backend.step(self._state, step, plan_args, copy, counters)
            self._stats.add_match(plan_args.counters.as_int32())
            self._stats.add_load(counters, sum(p.row_bytes for p in copy.payloads))
        return plan

    def store(
        self,
        new_rows: object,
        host_kv: object,
        *,
        positions: object,
        entries: object,
        block_table: object,
        check: bool = True,
    ) -> StoreCounts:
        """Writes the step's new rows to host_kv (SPEC.md "Store").

        new_rows [T, ...] and host_kv [num_blocks, block_size, ...]: one array each, or lists of one to four,
        equal bytes per row. int32 [T]: positions (the row's token) and entries (line of block_table, -1 =
        skip). block_table int32 [B, max_blocks]. Order on one device: store, load, attention, next load; with
        `fresh` the store need only finish before the row's next step. Returns (rows_stored, rows_skipped).
        check=True refuses entries outside the batch, positions outside 0..MAX_TOKENS-1, block ids outside
        host_kv and two rows for one place.
        """
        with self._lock:
            copy, position_view, entry_view = checks.store_args(
                new_rows, host_kv, positions, entries, block_table
            )
            written = [p.host_kv for p in copy.payloads]
            read = [position_view, entry_view, copy.block_table, *(p.new_rows for p in copy.payloads)]
            refuse_overlap([self._state_view, *written], read)
            if check:
                values.check_store(copy, position_view, entry_view)
            counters = np.zeros(layout.NUM_STORE_COUNTERS, np.int32)
            if position_view.shape[0]:
                self._backend.store(copy, position_view, entry_view, counters)
            self._stats.add_store(counters)
        return StoreCounts(*counters.tolist())

    def reset(self, rows: int | Iterable[int]) -> None:
        """Empties rows: their next step starts from a reset, whatever the lease (all-zero memory is empty).

        rows: one row or several, 0..num_rows-1. A released row needs no reset, its next owner has another
        lease.
        """
        listed = _row_list(rows)
        for row in listed:
            if not 0 <= row < self._config.num_rows:
                raise ValueError(
                    sentence("rows", row, f"0 to {self._config.num_rows - 1}", "pass rows of this pool")
                )
        with self._lock:
            self._state[listed] = 0

    def stats(self) -> PoolStats:
        """Totals since the pool was created or reset_stats was called."""
        with self._lock:
            return self._stats.totals()

    def reset_stats(self) -> None:
        """Starts the totals again at zero."""
        with self._lock:
            self._stats = StatsCounter()

    def __repr__(self) -> str:
        return f"Pool({self._config!r}, library={self.library!r}, num_cores={self.sizes.num_cores})"

    def _plan_for(self, step: StepArgs, out: Plan | None) -> tuple[Plan, PlanArgs]:
        shape = (step.num_entries, step.num_queries)
        plan = Plan.empty(*shape, self._config.top_k) if out is None else out
        return plan, checks.plan_args(self._config, plan, shape, "out", write=True)


def _written(copy: CopyArgs) -> list[ArrayView]:
    return [p.device_kv for p in copy.payloads]


def _read(copy: CopyArgs) -> list[ArrayView]:
    fresh = [p.fresh for p in copy.payloads if p.fresh is not None]
    return [copy.block_table, *(p.host_kv for p in copy.payloads), *fresh]


def _row_list(rows: int | Iterable[int]) -> list[int]:
    try:
        return [operator.index(row) for row in (rows if isinstance(rows, Iterable) else (rows,))]
    except TypeError:
        raise TypeError(sentence("rows", repr(rows), "one row or several", "pass ints")) from None
