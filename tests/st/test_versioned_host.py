# SPDX-License-Identifier: Apache-2.0
"""Host rows carry (token, version): a kept contract reads no stale row, each broken promise does."""

from __future__ import annotations

import numpy as np
import pytest
from decode_loop import LIBRARIES, Engine, Sequence

import avsg

STEPS = 120


class VersionedEngine(Engine):
    """Every row is (token, version), int64 each; the version grows whenever the host row is rewritten."""

    def __init__(self, library: str, seed: int, **options) -> None:
        self.versions: dict[tuple[int, int], int] = {}
        self.reruns: dict[int, int] = {}  # sequence name -> committed token that its next step computes again
        options.setdefault("config", avsg.PoolConfig(num_rows=3, num_slots=128, top_k=32, num_queries=3))
        super().__init__(library, seed, row_bytes=(16,), max_tokens=1200, **options)
        self.rows_read = self.stale = 0
        self.step_options: dict[str, object] = {}

    def row_of(self, sequence: Sequence, token: int, layer: int, row_bytes: int) -> np.ndarray:
        key = (sequence.name, token)
        same = self.reruns.get(sequence.name) == token
        self.versions[key] = self.versions.get(key, 0) + (layer == 0 and not same)
        return np.array([token, self.versions[key] << 8 | layer], np.int64).view(np.uint8)

    def decode(self, batch: list[Sequence | None] | None = None, **options) -> None:
        """One step; counts the rows that are not the host's newest."""
        batch = batch or self.batch()
        for read in self.step(batch, **{**self.step_options, **options}):
            self.rows_read += len(read.tokens)
            self.stale += len(read.wrong())
        for sequence in batch:
            if sequence is not None:
                self.reruns.pop(sequence.name, None)

    def recompute(self, sequence: Sequence, first: int = 0) -> None:
        """Rewrites committed host rows around the pool, as a recompute after preemption does."""
        self.reruns.pop(sequence.name, None)
        self.rewrite(sequence, first, sequence.committed)


def serve(engine: VersionedEngine, promises: set[str]) -> VersionedEngine:
    """A mixed life of sequences that keeps exactly the given promises."""
    rng = engine.rng

    def renew(sequence: Sequence, promise: str) -> None:
        if promise in promises:
            engine.table.renew(sequence.name)

    for _ in range(STEPS):
        while len(engine.table) < engine.table.capacity:
            admit(engine, promises)
        event = rng.random()
        sequence = engine.sequences[int(rng.integers(len(engine.sequences)))]
        if event < 0.08:
            engine.finish(sequence)
            continue
        if event < 0.16:  # preempted, recomputed, resumed
            engine.recompute(sequence)
            renew(sequence, "renew after recompute")
        elif (
            event < 0.22
        ):  # rolled back; the last kept token is run again, so its KV stays: no new lease is needed
            sequence.committed = max(sequence.committed - int(rng.integers(1, 20)), 1) - 1
            engine.reruns[sequence.name] = sequence.committed
        elif (
            event < 0.26
        ):  # rolled back; the first query is another token than the one the pool may hold there
            sequence.committed = max(sequence.committed - int(rng.integers(1, 20)), 1)
            engine.reruns.pop(sequence.name, None)
            renew(sequence, "renew after a roll-back to another token")
        elif event < 0.32:  # steps around the pool, rejected tokens among them
            first = max(sequence.committed - 30, 0)
            engine.recompute(sequence, first)
            renew(sequence, "renew after steps around the pool")
        elif event < 0.40:  # a load that was skipped or done by half of the layers
            skipped = engine.batch()
            layers = [0] if len(engine.host) > 1 else []
            num_read, stale = engine.rows_read, engine.stale
            engine.decode(skipped, load=True, layers=layers, fused=False)
            engine.rows_read, engine.stale = num_read, stale  # nobody reads the step whose load is missing
            for touched in skipped:
                if touched is not None:
                    renew(touched, "renew after a skipped load")
        elif event < 0.43:  # new weights: every row changes
            for every in engine.sequences:
                engine.recompute(every)
            if "renew all after new weights" in promises:
                engine.table.renew_all()
        engine.decode(verified_past=0 if "verified_len excludes drafts" in promises else 2)
    return engine


def admit(engine: VersionedEngine, promises: set[str]) -> None:
    sequence = engine.admit(int(engine.rng.integers(20, 90)))
    if "new lease on admission" not in promises:  # the lease is the row's number, a recycled handle
        row, _ = engine.table[sequence.name]
        engine.table._owners[sequence.name] = avsg.Ownership(row, row + 1)


PROMISES = {
    "new lease on admission",
    "renew after a roll-back to another token",
    "renew after recompute",
    "renew after steps around the pool",
    "renew after a skipped load",
    "renew all after new weights",
    "verified_len excludes drafts",
}


@pytest.mark.parametrize("num_layers", [1, 4])
@pytest.mark.parametrize(
    "options", [{}, {"fused": True}, {"fresh": True}], ids=["match+load", "step", "fresh"]
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_no_row_is_stale_when_the_contract_is_kept(library, options, num_layers):
    engine = VersionedEngine(library, seed=21, num_layers=num_layers)
    engine.step_options = options
    serve(engine, PROMISES)
    assert engine.stale == 0, f"seed 21: {engine.stale} of {engine.rows_read} rows are stale"
    stats = engine.pool.stats()
    assert stats.hits > stats.misses and stats.invalidated > 0 and stats.resets > 20


@pytest.mark.parametrize("broken", sorted(PROMISES))
@pytest.mark.parametrize("library", LIBRARIES)
def test_each_broken_promise_reads_stale_rows(library, broken):
    engine = serve(VersionedEngine(library, seed=22, num_layers=2), PROMISES - {broken})
    assert engine.stale > 0, f"seed 22: breaking {broken!r} went unnoticed in {engine.rows_read} rows"


@pytest.mark.parametrize("library", LIBRARIES)
def test_rejected_drafts_are_read_anew(library):
    """CLOSE drops tokens >= V: a draft that is rejected and written again is never served from the pool."""
    engine = VersionedEngine(library, seed=23)
    sequence = engine.admit(50)
    for _ in range(40):
        committed = sequence.committed
        engine.decode([sequence], num_queries=3)
        sequence.committed = committed + 1  # both drafts are rejected
    assert engine.stale == 0 and engine.pool.stats().invalidated >= 40
