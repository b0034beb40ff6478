# SPDX-License-Identifier: Apache-2.0
"""A small pool with valid arguments for each of its calls, for tests that spoil one of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import avsg

NUM_ROWS, NUM_SLOTS, TOP_K, NUM_QUERIES = 3, 64, 8, 2
NUM_ENTRIES, NUM_BLOCKS, BLOCK_SIZE, MAX_BLOCKS = 2, 48, 4, 5
ROW_BYTES = (32, 16)
SEQ_LEN = 18


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def config(**changes: int) -> avsg.PoolConfig:
    sizes = {"num_rows": NUM_ROWS, "num_slots": NUM_SLOTS, "top_k": TOP_K, "num_queries": NUM_QUERIES}
    return avsg.PoolConfig(**{**sizes, **changes})


class PoolCase:
    """Pool, buffers and a plan of a first step; `arguments(call)` are valid for that call."""

    def __init__(self, library: str = "reference") -> None:
        rng = np.random.default_rng(5)
        self.pool = avsg.Pool(config(), library=library)
        shape = (NUM_BLOCKS, BLOCK_SIZE)
        self.host_kv = [rng.integers(0, 256, (*shape, n), dtype=np.uint8) for n in ROW_BYTES]
        self.device_kv = [np.full((NUM_ROWS * NUM_SLOTS, n), 0xA5, np.uint8) for n in ROW_BYTES]
        self.fresh = [rng.integers(0, 256, (NUM_ENTRIES, NUM_QUERIES, n), dtype=np.uint8) for n in ROW_BYTES]
        self.new_rows = [rng.integers(0, 256, (4, n), dtype=np.uint8) for n in ROW_BYTES]
        self.block_table = (
            rng.permutation(NUM_BLOCKS)[: NUM_ENTRIES * MAX_BLOCKS].astype(np.int32).reshape(2, -1)
        )
        self.topk_tokens = (
            np.stack([rng.permutation(SEQ_LEN - 1)[:TOP_K] for _ in range(NUM_ENTRIES * NUM_QUERIES)])
            .astype(np.int32)
            .reshape(NUM_ENTRIES, NUM_QUERIES, TOP_K)
        )
        self.lines = {
            "verified_lens": int32(SEQ_LEN - 1, SEQ_LEN - 1),
            "seq_lens": int32(SEQ_LEN, SEQ_LEN),
            "leases": int32(1, 2),
            "rows": int32(2, 0),
        }
        self.plan = self.pool.match(self.topk_tokens, **self.lines)
        self.out = avsg.Plan.empty(NUM_ENTRIES, NUM_QUERIES, TOP_K)

    def arguments(self, call: str) -> dict[str, object]:
        """Fresh dict of keyword arguments that `call` accepts."""
        step = {"topk_tokens": self.topk_tokens, **self.lines, "out": self.out}
        copy = {"host_kv": self.host_kv, "device_kv": self.device_kv, "block_table": self.block_table}
        return {
            "match": step,
            "load": {"plan": self.plan, **copy, "fresh": self.fresh},
            "step": {**step, **copy, "fresh": self.fresh},
            "store": {
                "new_rows": self.new_rows,
                "host_kv": self.host_kv,
                "positions": int32(16, 17, 16, 17),
                "entries": int32(0, 0, 1, -1),
                "block_table": self.block_table,
            },
        }[call].copy()

    def memory(self) -> list[bytes]:
        """Every byte that a call could change."""
        plans = [*vars(self.plan).values(), *vars(self.out).values()]
        arrays = [self.pool.state, *self.host_kv, *self.device_kv, *self.fresh, *self.new_rows, *plans]
        return [array.tobytes() for array in arrays] + [repr(self.pool.stats()).encode()]


def spoil(plan: avsg.Plan, **fields: np.ndarray) -> avsg.Plan:
    """The plan with other arrays."""
    return dataclasses.replace(plan, **fields)


def refused(case: PoolCase, call: str, name: str, make, error: type, words: str) -> dict[str, object]:
    """Calls with one bad argument (several, if `make` returns a dict); the sentence must have all words."""
    arguments = case.arguments(call)
    bad = make(case)
    arguments.update(bad if isinstance(bad, dict) else {name: bad})
    before = case.memory()
    with pytest.raises(error) as caught:
        getattr(case.pool, call)(**arguments)
    text = str(caught.value)
    for word in words.split():
        assert word in text, f"{word!r} is missing in: {text}"
    assert text.endswith(".") and " allowed: " in text
    assert case.memory() == before
    return arguments
