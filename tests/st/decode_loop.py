# SPDX-License-Identifier: Apache-2.0
"""A small serving engine: sequences grow by accepted drafts, and attention reads through the pool's slots.

The truth is host_kv: whatever attention reads from device_kv through the slots must equal the host's row of
that token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import avsg

LIBRARIES = ("reference", "cpu", "cpu-checked")


@dataclass
class Sequence:
    """One request: `committed` tokens are final; the next step's queries start there."""

    name: int
    committed: int
    blocks: np.ndarray  # host block ids, in token order
    hot: list[int] = field(default_factory=list)


@dataclass
class Read:
    """What attention read for one query, rows per layer and payload, and what the host holds."""

    sequence: Sequence
    tokens: np.ndarray
    slots: np.ndarray
    device: list[list[np.ndarray]]
    host: list[list[np.ndarray]]

    def wrong(self) -> np.ndarray:
        """Tokens of which any layer or payload differs from the host."""
        bad = np.zeros(len(self.tokens), bool)
        for device_rows, host_rows in zip(self.device, self.host):
            for device, host in zip(device_rows, host_rows):
                bad |= (device != host).any(axis=1)
        return self.tokens[bad]


class Engine:
    """Runs steps of some sequences through one pool. Rows are random bytes unless `row_of` says otherwise."""

    def __init__(
        self,
        library: str,
        seed: int,
        *,
        row_bytes: tuple[int, ...] = (32,),
        num_layers: int = 1,
        config: avsg.PoolConfig | None = None,
        max_tokens: int = 400,
        block_size: int = 16,
        first_block: int = 0,
        extra_blocks: int = 0,
        host_library: str | None = "reference",
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.config = config or avsg.PoolConfig(num_rows=3, num_slots=128, top_k=32, num_queries=3)
        self.pool = avsg.Pool(self.config, library=library, num_cores=int(self.rng.integers(1, 8)))
        self.table = avsg.RowTable(self.config.num_rows)
        self.block_size = block_size
        self.max_blocks = -(-max_tokens // block_size)
        needed = (self.config.num_rows + 1) * self.max_blocks
        self.num_blocks = first_block + needed + extra_blocks
        self.free_blocks = self.rng.permutation(np.arange(first_block, first_block + needed)).tolist()
        shape = (self.num_blocks, block_size)
        num_device_rows = self.config.num_rows * self.config.num_slots
        self.host = [
            [avsg.host_alloc((*shape, n), library=host_library) for n in row_bytes] for _ in range(num_layers)
        ]
        self.device = [
            [avsg.host_alloc((num_device_rows, n), library=host_library) for n in row_bytes]
            for _ in range(num_layers)
        ]
        self.row_bytes = row_bytes
        self.sequences: list[Sequence] = []
        self.names = 0

    # --- sequences
    def admit(self, prompt_len: int) -> Sequence:
        """A new sequence with `prompt_len` prefilled tokens, a row and a lease."""
        self.names += 1
        blocks = np.array([self.free_blocks.pop() for _ in range(self.max_blocks)], np.int32)
        sequence = Sequence(self.names, prompt_len, blocks)
        self.rewrite(sequence, 0, prompt_len)
        self.table.admit(sequence.name)
        self.sequences.append(sequence)
        return sequence

    def finish(self, sequence: Sequence) -> None:
        """Releases row and blocks."""
        self.table.release(sequence.name)
        self.sequences.remove(sequence)
        self.free_blocks += sequence.blocks.tolist()

    def host_rows(self, sequence: Sequence, tokens: np.ndarray) -> np.ndarray:
        """Index of each token's row in host_kv seen as [num_blocks * block_size, row_bytes]."""
        return (
            sequence.blocks[tokens // self.block_size].astype(np.int64) * self.block_size
            + tokens % self.block_size
        )

    def row_of(self, sequence: Sequence, token: int, layer: int, row_bytes: int) -> np.ndarray:
        """Bytes of one new row."""
        return self.rng.integers(0, 256, row_bytes, dtype=np.uint8)

    def rewrite(self, sequence: Sequence, first: int, last: int) -> None:
        """Writes host rows of tokens first..last-1 around the pool, as prefill and recompute do."""
        for token in range(first, last):
            where = self.host_rows(sequence, np.array([token]))[0]
            for layer, payloads in enumerate(self.host):
                for host, n in zip(payloads, self.row_bytes):
                    host.reshape(-1, n)[where] = self.row_of(sequence, token, layer, n)

    # --- one step
    def batch(self) -> list[Sequence | None]:
        """A random non-empty choice of sequences in random order, with inactive entries (None) among them."""
        count = int(self.rng.integers(1, len(self.sequences) + 1))
        chosen: list[Sequence | None] = [
            self.sequences[i] for i in self.rng.permutation(len(self.sequences))[:count]
        ]
        if self.rng.random() < 0.3:
            chosen.insert(int(self.rng.integers(0, len(chosen) + 1)), None)
        return chosen

    def select(self, sequence: Sequence, num_queries: int) -> np.ndarray:
        """top_k of each query, int32 [Q, K]: own, recent, hot and random tokens, negative padding."""
        top_k = self.config.top_k
        out = np.full((num_queries, top_k), -1, np.int32)
        for g in range(num_queries):
            limit = sequence.committed + g + 1
            if len(sequence.hot) < top_k // 2 or self.rng.random() < 0.2:
                sequence.hot = self.rng.integers(0, limit, top_k // 2).tolist()
            recent = range(max(limit - top_k // 4, 0), limit)
            wanted = {*recent, *(t for t in sequence.hot if t < limit)}
            wanted |= set(self.rng.integers(0, limit, max(top_k - len(wanted), 0)).tolist())
            tokens = self.rng.permutation(sorted(wanted))[:top_k]
            out[g, self.rng.permutation(top_k)[: len(tokens)]] = tokens
        return out

    def step(
        self,
        batch: list[Sequence | None],
        *,
        fresh: bool = False,
        fused: bool = False,
        load: bool = True,
        layers: list[int] | None = None,
        num_queries: int | None = None,
        bad_block: int | None = None,
        leases: dict[int, int] | None = None,
        verified_past: int = 0,
    ) -> list[Read]:
        """Stores the step's rows, matches, loads and reads; then accepts 1..Q of the queries.

        bad_block: block id that the load sees for the block of token 0 instead of the true one. leases:
        overrides by sequence name. verified_past: added to verified_len, a planted fault.
        """
        q = num_queries or int(self.rng.integers(1, self.config.num_queries + 1))
        num_entries = len(batch)
        topk = self.rng.integers(-9, 999, (num_entries, q, self.config.top_k), dtype=np.int32)
        blocks = np.full((num_entries, self.max_blocks), -7, np.int32)
        lines = {
            name: np.full(num_entries, -5, np.int32)
            for name in ("verified_lens", "seq_lens", "leases", "rows")
        }
        new = [[np.zeros((num_entries, q, n), np.uint8) for n in self.row_bytes] for _ in self.host]
        for i, sequence in enumerate(batch):
            if sequence is None:
                continue
            row, lease = self.table[sequence.name]
            topk[i], blocks[i] = self.select(sequence, q), sequence.blocks
            lines["verified_lens"][i] = sequence.committed + min(1 + verified_past, q)
            lines["seq_lens"][i] = sequence.committed + q
            lines["leases"][i], lines["rows"][i] = (leases or {}).get(sequence.name, lease), row
            for layer, payloads in enumerate(new):
                for rows, n in zip(payloads, self.row_bytes):
                    for g in range(q):
                        rows[i, g] = self.row_of(sequence, sequence.committed + g, layer, n)
        if not fresh:
            self._store(batch, blocks, new, q)
        seen = blocks.copy()
        if bad_block is not None:
            seen[:, 0] = bad_block
        plan = self._match_and_load(topk, lines, seen, new if fresh else None, fused, load, layers)
        if fresh:
            self._store(batch, blocks, new, q)
        self.plan = plan
        reads = self._read(batch, topk, plan)
        for sequence in batch:
            if sequence is not None:
                sequence.committed += int(self.rng.integers(1, q + 1))
        return reads

    def _match_and_load(self, topk, lines, blocks, new, fused, load, layers) -> avsg.Plan:
        check = bool((blocks[lines["rows"] >= 0] >= 0).all() and (blocks < self.num_blocks).all())
        layers = list(range(len(self.host))) if layers is None else layers
        first = 0
        if fused:
            plan = self.pool.step(
                topk,
                self.host[0],
                self.device[0],
                block_table=blocks,
                fresh=new and new[0],
                check=check,
                **lines,
            )
            first = 1
        else:
            plan = self.pool.match(topk, check=check, **lines)
        for layer in layers[first:] if load else []:
            self.pool.load(
                plan,
                self.host[layer],
                self.device[layer],
                block_table=blocks,
                fresh=new and new[layer],
                check=check,
            )
        return plan

    def _store(self, batch, blocks, new, q) -> None:
        entries = np.repeat(np.array([-1 if s is None else i for i, s in enumerate(batch)], np.int32), q)
        positions = np.array([0 if s is None else s.committed + g for s in batch for g in range(q)], np.int32)
        for payloads, rows in zip(self.host, new):
            flat = [r.reshape(-1, n) for r, n in zip(rows, self.row_bytes)]
            self.pool.store(flat, payloads, positions=positions, entries=entries, block_table=blocks)

    def _read(self, batch, topk, plan) -> list[Read]:
        reads = []
        for i, sequence in enumerate(batch):
            for g in range(topk.shape[1]) if sequence is not None else ():
                tokens = topk[i, g][topk[i, g] >= 0]
                slots = plan.slots[i, g]
                assert (slots[: len(tokens)] >= 0).all(), "every valid token has a slot"
                assert (slots[len(tokens) :] == -1).all(), "slots are packed"
                slots = slots[: len(tokens)]
                at = plan.rows[i].astype(np.int64) * self.config.num_slots + slots
                where = self.host_rows(sequence, tokens)
                device = [[d[at] for d in payloads] for payloads in self.device]
                host = [[h.reshape(-1, h.shape[-1])[where] for h in payloads] for payloads in self.host]
                reads.append(Read(sequence, tokens, slots, device, host))
        return reads
