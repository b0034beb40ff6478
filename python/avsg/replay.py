# SPDX-License-Identifier: Apache-2.0
"""Replays a trace through the pool, every row checked against the host's, and through baseline policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from . import layout
from .config import PoolConfig
from .policies import make_policy
from .pool import Pool
from .reference_copy import core_share, host_rows
from .row_table import RowTable
from .traces import Trace

BLOCK_SIZE = 128
ROW_BYTES = (1024, 128)  # the bf16 latent and rotary parts of one MLA token
WARM_UP = 256  # query positions


@dataclass(frozen=True)
class Settings:
    """What all policies and sizes of one replay share.

    num_queries: query positions a step, all accepted. warm_up: first query positions that are checked but not
    counted. library, num_cores: as for Pool; only policy avsg uses them.
    """

    trace: Trace
    num_queries: int = 1
    warm_up: int = WARM_UP
    library: str | None = "cpu"
    num_cores: int = 0

    def config(self, num_slots: int) -> PoolConfig:
        """The pool of one size; ValueError if SPEC.md refuses it."""
        return PoolConfig(1, num_slots, self.trace.top_k, self.num_queries)

    def steps(self) -> Iterator[tuple[int, np.ndarray, int, int]]:
        """(first position, tokens int32 [Q, K], verified_len, seq_len) of each step."""
        width = self.num_queries
        for first in range(0, self.trace.num_positions - width + 1, width):
            seq_len = self.trace.context_start + first + width
            yield first, self.trace.topk_tokens[first : first + width], seq_len - width + 1, seq_len


@dataclass
class StepCounts:
    """What one step did; None where a policy has no such count.

    wrong: slots that do not hold the host's row. busiest_core: copies of the core that has the most.
    """

    valid: int
    hits: int
    copies: int
    unlinked: int | None = None
    wrong: int | None = None
    busiest_core: int | None = None


class Runner(Protocol):
    """One policy at one size."""

    num_cores: int | None

    def step(self, tokens: np.ndarray, verified_len: int, seq_len: int) -> StepCounts: ...


@dataclass(frozen=True)
class ReplayResult:
    """Figures of one policy at one size. The warm-up is left out of all but checked_rows and wrong_rows."""

    policy: str
    num_slots: int
    slots_per_top_k: float
    steps: int
    valid_tokens: int
    hits: int
    hit_rate: float
    rows_copied: int
    rows_copied_per_step: float
    bytes_copied: int
    num_cores: int | None
    core_share_max_over_mean: float | None
    unlinked: int | None
    checked_rows: int | None
    wrong_rows: int | None


class Memory:
    """host_kv, device_kv and block_table of one request, with rows whose content names token and payload.

    host_kv: list of uint8 [num_blocks, 128, row_bytes]; device_kv: list of uint8 [S, row_bytes]; block_table
    int32 [1, num_blocks], a random permutation, so that a wrong address finds another token's row.
    """

    def __init__(self, num_tokens: int, row_bytes: tuple[int, ...] = ROW_BYTES, seed: int = 0) -> None:
        num_blocks = -(-num_tokens // BLOCK_SIZE)
        self.block_table = np.random.default_rng(seed).permutation(num_blocks).astype(np.int32)[None]
        rows = self._rows(np.arange(num_blocks * BLOCK_SIZE, dtype=np.int64))
        self.host_kv = [self._payload(rows, size, index) for index, size in enumerate(row_bytes)]

    def _rows(self, tokens: np.ndarray) -> np.ndarray:
        entries = np.zeros_like(tokens)
        return host_rows(tokens, entries, self.block_table, BLOCK_SIZE, self.block_table.shape[1])

    @staticmethod
    def _payload(rows: np.ndarray, row_bytes: int, index: int) -> np.ndarray:
        words = np.empty((len(rows), row_bytes // 4), np.uint32)
        odd = np.arange(row_bytes // 4, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
        words[rows] = np.arange(len(rows), dtype=np.uint32)[:, None] * odd + np.uint32(index << 28)
        return words.view(np.uint8).reshape(-1, BLOCK_SIZE, row_bytes)

    def device_kv(self, num_slots: int) -> list[np.ndarray]:
        """An empty device buffer of one row."""
        return [np.zeros((num_slots, payload.shape[2]), np.uint8) for payload in self.host_kv]

    def wrong_rows(self, tokens: np.ndarray, slots: np.ndarray, device_kv: list[np.ndarray]) -> int:
        """Tokens int64 [n] whose slot int64 [n] does not hold the host's row in every payload."""
        rows = self._rows(tokens)
        wrong = (slots < 0) | (slots >= len(device_kv[0]))
        safe = np.where(wrong, 0, slots)
        for host, device in zip(self.host_kv, device_kv):
            expected = host.reshape(len(host) * BLOCK_SIZE, -1)[rows]
            wrong |= (expected != device[safe]).any(axis=1)
        return int(wrong.sum())


class PoolRunner:
    """Policy avsg: match and load of the pool on real rows."""

    def __init__(self, settings: Settings, num_slots: int, memory: Memory) -> None:
        self._pool = Pool(settings.config(num_slots), settings.library, settings.num_cores)
        self.num_cores = self._pool.sizes.num_cores
        row, lease = RowTable(1).admit(settings.trace.name)
        self._rows, self._leases = np.array([row], np.int32), np.array([lease], np.int32)
        self._memory = memory
        self._device_kv = memory.device_kv(num_slots)

    def step(self, tokens: np.ndarray, verified_len: int, seq_len: int) -> StepCounts:
        plan = self._pool.match(
            tokens[None],
            verified_lens=np.array([verified_len], np.int32),
            seq_lens=np.array([seq_len], np.int32),
            leases=self._leases,
            rows=self._rows,
        )
        memory = self._memory
        self._pool.load(plan, memory.host_kv, self._device_kv, block_table=memory.block_table)
        counters, copies = plan.counters[0].tolist(), int(plan.num_misses[0])
        return StepCounts(
            valid=counters[layout.COUNTER_VALID],
            hits=counters[layout.COUNTER_HITS],
            copies=copies,
            unlinked=counters[layout.COUNTER_UNLINKED],
            wrong=sum(self._wrong(query, slots, seq_len) for query, slots in zip(tokens, plan.slots[0])),
            busiest_core=max(len(core_share(copies, self.num_cores, core)) for core in range(self.num_cores)),
        )

    def _wrong(self, query: np.ndarray, slots: np.ndarray, seq_len: int) -> int:
        """Wrong rows of one query: its valid tokens stand packed in slots, then come -1."""
        valid = query[(query >= 0) & (query < seq_len)].astype(np.int64)
        surplus = int((slots[len(valid) :] != layout.PAD_TOKEN).sum())
        packed = slots[: len(valid)].astype(np.int64)
        return surplus + self._memory.wrong_rows(valid, packed, self._device_kv)


class PolicyRunner:
    """A baseline policy, which counts and moves no rows; ValueError if it cannot have this many slots."""

    num_cores = None

    def __init__(self, settings: Settings, policy: str, num_slots: int) -> None:
        steps = [step[1:] for step in settings.steps()] if policy == "belady" else None
        self._policy = make_policy(policy, num_slots, settings.trace.top_k, settings.num_queries, steps)

    def step(self, tokens: np.ndarray, verified_len: int, seq_len: int) -> StepCounts:
        counts = self._policy.step(tokens, verified_len, seq_len)
        return StepCounts(valid=counts.valid, hits=counts.hits, copies=counts.copies)


def run(
    settings: Settings,
    policy: str,
    num_slots: int,
    runner: Runner,
    advance: Callable[[int], None] = lambda positions: None,
) -> ReplayResult:
    """Feeds all steps to the runner and adds up; advance gets the positions done since its last call."""
    counted: list[StepCounts] = []
    checked = wrong = 0
    for first, tokens, verified_len, seq_len in settings.steps():
        counts = runner.step(tokens, verified_len, seq_len)
        checked += counts.valid
        wrong += counts.wrong or 0
        if first >= settings.warm_up:
            counted.append(counts)
        advance(settings.num_queries)
    has_rows = counted[0].wrong is not None
    names = ("valid", "hits", "copies", "unlinked", "busiest_core")
    valid, hits, copies, unlinked, busiest = (_total(counted, name) for name in names)
    return ReplayResult(
        policy=policy,
        num_slots=num_slots,
        slots_per_top_k=num_slots / settings.trace.top_k,
        steps=len(counted),
        valid_tokens=valid,
        hits=hits,
        hit_rate=hits / max(valid, 1),
        rows_copied=copies,
        rows_copied_per_step=copies / len(counted),
        bytes_copied=copies * sum(ROW_BYTES),
        num_cores=runner.num_cores,
        core_share_max_over_mean=busiest * runner.num_cores / copies if busiest else None,
        unlinked=unlinked,
        checked_rows=checked if has_rows else None,
        wrong_rows=wrong if has_rows else None,
    )


def _total(steps: list[StepCounts], name: str) -> int | None:
    values = [getattr(step, name) for step in steps]
    return None if values[0] is None else sum(values)
