# SPDX-License-Identifier: Apache-2.0
"""Random steps with everything that a device cannot refuse: bad tokens, rows, lengths, blocks, positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import avsg
from avsg import layout

ROW_BYTES = (16, 32, 48, 128, 656, 1024)


@dataclass
class Call:
    """One step: what match, load and store get, the same for every library."""

    topk_tokens: np.ndarray
    lines: dict[str, np.ndarray]  # verified_lens, seq_lens, leases, rows
    block_table: np.ndarray
    fresh: list[np.ndarray] | None
    new_rows: list[np.ndarray]
    positions: np.ndarray
    entries: np.ndarray
    fused: bool
    num_loads: int
    age: dict[int, int]  # row -> step number to write into its header before the call


class Trace:
    """A random pool, its host memory and its calls, all drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        top_k = 8 * int(rng.integers(1, 9))
        num_queries = int(rng.integers(1, 5))
        fit = -(-num_queries * top_k // 64) * 64
        num_slots = fit if rng.random() < 0.4 else fit + 64 * int(rng.integers(1, 9))
        max_life = int(rng.choice([1, 2, 7, 64, 2000]))
        self.config = avsg.PoolConfig(int(rng.integers(1, 5)), num_slots, top_k, num_queries, max_life)
        self.num_cores = int(rng.choice([0, 1, 2, 3, 7, 48], p=[0.15, 0.4, 0.2, 0.12, 0.1, 0.03]))
        self.num_entries = int(rng.integers(1, 6))
        self.row_bytes = [int(n) for n in rng.choice(ROW_BYTES, int(rng.integers(1, 5)))]
        self.block_size = int(rng.choice([1, 3, 16, 128]))
        self.context = int(rng.choice([top_k, 3 * num_slots, 2000]))
        self.stride = int(rng.choice([1, 1, 64, 65536]))  # far tokens share fingerprints and buckets
        self.max_blocks = max(min(self.context * self.stride, 3000) // self.block_size, 1)
        self.num_blocks = self.num_entries * self.max_blocks
        shape = (self.num_blocks, self.block_size)
        self.host_kv = [rng.integers(0, 256, (*shape, n), dtype=np.uint8) for n in self.row_bytes]
        self.lengths = rng.integers(1, self.context + 1, self.num_entries)
        self.last_lease = int(rng.integers(-5, 5))
        self.leases = np.zeros(self.config.num_rows + 1, np.int64)
        self.hot = [self._tokens(top_k, n) for n in self.lengths]

    def calls(self, num_steps: int):
        """Yields `num_steps` calls."""
        for _ in range(num_steps):
            yield self._call()

    def _tokens(self, count: int, length: int) -> np.ndarray:
        length = max(int(length), 1)
        return np.minimum(self.rng.integers(0, length, count) * self.stride, layout.MAX_TOKENS + 3)

    def _call(self) -> Call:
        rng, num_entries = self.rng, self.num_entries
        q = int(rng.integers(1, self.config.num_queries + 1))
        self._advance(q)
        seq_lens = np.minimum(self.lengths * self.stride, layout.MAX_TOKENS)
        verified_lens = seq_lens - q + 1
        odd = rng.random(num_entries)
        seq_lens = np.where(odd < 0.02, rng.choice([-3, 0, 1, 2**31 - 1], num_entries), seq_lens)
        verified_lens = np.where(
            (odd > 0.02) & (odd < 0.08), rng.integers(-5, 3000, num_entries), verified_lens
        )
        lines = {
            "verified_lens": verified_lens.astype(np.int32),
            "seq_lens": seq_lens.astype(np.int32),
            **self._rows_and_leases(),
        }
        fresh = None
        if rng.random() < 0.5:
            fresh = [rng.integers(0, 256, (num_entries, q, n), dtype=np.uint8) for n in self.row_bytes]
        num_new = int(rng.integers(0, 2 * num_entries * q + 1))
        return Call(
            topk_tokens=np.stack([self._top_k(i, q) for i in range(num_entries)]).astype(np.int32),
            lines=lines,
            block_table=self._block_table(),
            fresh=fresh,
            new_rows=[rng.integers(0, 256, (num_new, n), dtype=np.uint8) for n in self.row_bytes],
            positions=rng.integers(-2, self.max_blocks * self.block_size + 3, num_new).astype(np.int32),
            entries=rng.integers(-2, num_entries + 1, num_new).astype(np.int32),
            fused=rng.random() < 0.5,
            num_loads=int(rng.choice([0, 1, 1, 1, 4])),
            age={int(r): self._age() for r in range(self.config.num_rows) if rng.random() < 0.02},
        )

    def _advance(self, q: int) -> None:
        """Sequences grow by accepted drafts, sometimes roll back."""
        rng = self.rng
        self.lengths = self.lengths + rng.integers(1, q + 1, self.num_entries)
        back = rng.random(self.num_entries) < 0.06
        self.lengths[back] = rng.integers(1, self.lengths[back] + 1)
        for i in np.flatnonzero(rng.random(self.num_entries) < 0.15):
            self.hot[i] = self._tokens(self.config.top_k, self.lengths[i])

    def _rows_and_leases(self) -> dict[str, np.ndarray]:
        """Mostly distinct rows under their leases; also inactive, foreign and doubly named ones."""
        rng, num_rows = self.rng, self.config.num_rows
        rows = rng.permutation(max(num_rows, self.num_entries))[: self.num_entries]
        rows = np.where(rows < num_rows, rows, -1)
        odd = rng.random(self.num_entries)
        rows = np.where(odd < 0.08, rng.integers(-3, num_rows + 3, self.num_entries), rows)
        for row in range(num_rows):
            if rng.random() < 0.05:
                self.last_lease += 1
                self.leases[row] = self.last_lease
        leases = self.leases[np.clip(rows, -1, num_rows)]
        return {"rows": rows.astype(np.int32), "leases": leases.astype(np.int32)}

    def _top_k(self, i: int, q: int) -> np.ndarray:
        rng, top_k = self.rng, self.config.top_k
        out = np.empty((q, top_k), np.int64)
        for g in range(q):
            fill = rng.random()
            tokens = np.where(rng.random(top_k) < 0.8, self.hot[i], self._tokens(top_k, self.lengths[i]))
            if fill < 0.1:
                tokens = self._tokens(top_k, self.lengths[i])  # all new
            elif fill < 0.15:
                tokens[:] = -1
            if rng.random() < 0.7:
                tokens = np.pad(np.unique(tokens), (0, top_k))[:top_k] if rng.random() < 0.5 else tokens
            odd = rng.random(top_k)
            tokens = np.where(odd < 0.05, rng.integers(-(2**31), 0, top_k), tokens)
            tokens = np.where(odd > 0.99, rng.integers(0, 2**31, top_k), tokens)
            out[g] = rng.permutation(tokens)
        return out

    def _block_table(self) -> np.ndarray:
        """Distinct blocks everywhere, so that stores never race, with bad ids among them now and then."""
        rng = self.rng
        table = rng.permutation(self.num_blocks).reshape(self.num_entries, self.max_blocks).astype(np.int32)
        if rng.random() < 0.3:
            bad = rng.random(table.shape) < 0.1
            table[bad] = rng.choice([-1, -(2**31), self.num_blocks, 2**31 - 1], int(bad.sum()))
        return table

    def _age(self) -> int:
        return layout.MAX_STEP - int(self.rng.integers(-1, 4))
