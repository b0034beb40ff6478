# SPDX-License-Identifier: Apache-2.0
"""What happens to requests, as a list of calls that any Engine can play: arrivals, steps, rejections,
preemptions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from engine import BLOCK, Engine
from tiny_model_mindie import VOCABULARY

DUMMY_BLOCK = 0  # block 0 belongs to no request


class Script:
    """Writes calls while it keeps account of blocks, tokens and lengths; the same for every engine that
    plays it."""

    def __init__(self, seed: int, num_queries: int, num_blocks: int = 24) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_queries = num_queries
        self.free = list(range(num_blocks - 1, DUMMY_BLOCK, -1))
        self.tables: dict[int, np.ndarray] = {}
        self.text: dict[int, list[int]] = {}  # committed tokens
        self.calls: list[Callable[[Engine], torch.Tensor | None]] = []

    def arrive(self, *requests: tuple[int, int], remote: bool = False) -> None:
        """(sequence, prompt length) each, in one prefill step; remote: on a prefill node, which sends the
        KV."""
        for sequence, length in requests:
            self.text[sequence] = self.rng.integers(0, VOCABULARY, length).tolist()
        self._prefill([sequence for sequence, _ in requests], remote)

    def preempt(self, sequence: int, *, forgotten: bool = True) -> None:
        """Gives way; forgotten: the engine says so. It comes back by resume."""
        self.free += self.tables.pop(sequence).tolist()
        if forgotten:
            self.calls.append(lambda engine: engine.clear([sequence]))

    def resume(self, sequence: int) -> None:
        """Recomputed by a prefill of its tokens, of which the last 30 are others now: KV without the old
        bits."""
        text = self.text[sequence]
        text[-30:] = self.rng.integers(0, VOCABULARY, len(text[-30:])).tolist()
        self._prefill([sequence], remote=False)

    def finish(self, sequence: int) -> None:
        self.free += self.tables.pop(sequence).tolist()
        del self.text[sequence]
        self.calls.append(lambda engine: engine.clear([sequence]))

    def step(
        self,
        *order: int,
        accepted: int | None = None,
        late: bool = False,
        dummies: int = 0,
        padded_before: bool = False,
    ) -> None:
        """A decode step of these sequences in this order (default: all); accepted: tokens that stay, else
        random.

        late: the host thinks of one to Q tokens less than the device. dummies: entries without a request.
        """
        order = list(order or self.text)
        queries = self.num_queries
        lengths = [len(self.text[sequence]) + queries for sequence in order]
        tokens = self.rng.integers(0, VOCABULARY, (len(order), queries))
        tables = [self._table(sequence, length) for sequence, length in zip(order, lengths)]
        for entry, sequence in enumerate(order):
            kept = accepted or int(self.rng.integers(1, queries + 1))
            self.text[sequence] += tokens[entry, :kept].tolist()
        ids: list[int | None] = [*order, *[None] * dummies]
        lengths += [queries] * dummies
        tables += [np.array([DUMMY_BLOCK])] * dummies
        tokens = np.concatenate([tokens, np.zeros((dummies, queries), np.int64)])
        behind = self.rng.integers(1, queries + 1, len(ids)) if late else None
        if late:
            behind[len(order) :] = 0
        active = len(order) * queries

        def play(engine: Engine) -> torch.Tensor:
            return engine.decode(ids, tokens, np.array(lengths), tables, behind)[:active]

        self.calls.append(play)

    def dummy_step(self, entries: int = 2) -> None:
        """A decode step without any request."""
        queries, table = self.num_queries, np.array([DUMMY_BLOCK])
        tokens, lengths = np.zeros((entries, queries), np.int64), np.full(entries, queries)
        self.calls.append(
            lambda engine: engine.decode([None] * entries, tokens, lengths, [table] * entries)[:0]
        )

    def call(self, action: Callable[[Engine], None]) -> None:
        self.calls.append(action)

    def play(self, engine: Engine) -> list[torch.Tensor]:
        """Hidden states of the tokens that belong to requests, call by call."""
        results = [call(engine) for call in self.calls]
        return [result for result in results if result is not None]

    def _prefill(self, sequences: list[int], remote: bool) -> None:
        tokens = [np.array(self.text[sequence]) for sequence in sequences]
        tables = [self._table(sequence, len(text)) for sequence, text in zip(sequences, tokens)]
        if remote:
            self.calls.append(lambda engine: engine.receive(sequences, tokens, tables))
        else:
            self.calls.append(lambda engine: engine.prefill(sequences, tokens, tables))

    def _table(self, sequence: int, length: int) -> np.ndarray:
        table = self.tables.get(sequence, np.empty(0, np.int64))
        missing = -(-length // BLOCK) - len(table)
        table = np.concatenate([table, [self.free.pop() for _ in range(max(missing, 0))]]).astype(np.int64)
        self.tables[sequence] = table
        return table


def differences(expected: list[torch.Tensor], got: list[torch.Tensor]) -> list[int]:
    """Indices of the calls whose hidden states differ in any bit."""
    assert len(expected) == len(got)
    return [
        number
        for number, (left, right) in enumerate(zip(expected, got))
        if left.shape != right.shape
        or not torch.equal(left.contiguous().view(torch.int16), right.contiguous().view(torch.int16))
    ]


def random_life(seed: int, num_queries: int, steps: int = 32) -> Script:
    """Up to four requests at a time that come, go, give way and return at random, in random order."""
    script = Script(seed, num_queries)
    rng = np.random.default_rng(seed + 1000)
    away: list[int] = []
    next_sequence = 1
    for _ in range(steps):
        present = [sequence for sequence in script.text if sequence not in away]
        event = rng.choice(
            ["step", "arrive", "finish", "preempt", "resume", "dummy"], p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1]
        )
        if event == "arrive" and len(present) < 4 and len(script.free) > 8:
            script.arrive((next_sequence, int(rng.integers(1, 300))), remote=bool(rng.integers(2)))
            next_sequence += 1
        elif event == "finish" and len(present) > 1:
            script.finish(int(rng.choice(present)))
        elif event == "preempt" and len(present) > 1:
            away.append(int(rng.choice(present)))
            script.preempt(away[-1], forgotten=bool(rng.integers(2)))
        elif event == "resume" and away and len(present) < 4 and len(script.free) > 8:
            script.resume(away.pop(0))
        elif event == "dummy":
            script.dummy_step(int(rng.integers(1, 4)))
        present = [sequence for sequence in script.text if sequence not in away]
        if present:
            script.step(*rng.permutation(present).tolist(), late=bool(rng.integers(2)))
    return script
