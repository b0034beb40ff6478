# SPDX-License-Identifier: Apache-2.0
"""A pool of the numpy reference for tests: state, plan and one-call steps, outputs poisoned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avsg import layout, reference

POISON = -77


@dataclass(frozen=True)
class Config:
    """Sizes as reference.py wants them."""

    num_rows: int
    num_slots: int
    top_k: int
    num_queries: int = 1
    max_life: int = layout.MAX_LIFE


class Plan:
    """A plan of B batch entries with Q queries, every array poisoned."""

    def __init__(self, config: Config, num_entries: int, num_queries: int | None = None) -> None:
        b, q = num_entries, num_queries or config.num_queries
        shapes = {
            "slots": (b, q, config.top_k),
            "miss_tokens": (b, q * config.top_k),
            "miss_slots": (b, q * config.top_k),
            "num_misses": (b,),
            "counters": (b, layout.NUM_COUNTERS),
            "rows": (b,),
            "verified_lens": (b,),
        }
        for name, shape in shapes.items():
            setattr(self, name, np.full(shape, POISON, dtype=np.int32))

    def misses(self, entry: int = 0) -> list[tuple[int, int]]:
        """The (token, slot) pairs that an entry's step copies."""
        n = self.num_misses[entry]
        return list(zip(self.miss_tokens[entry, :n].tolist(), self.miss_slots[entry, :n].tolist()))

    def counter(self, index: int, entry: int = 0) -> int:
        return int(self.counters[entry, index])


def new_state(config: Config) -> np.ndarray:
    """All-zero memory: valid, empty rows; the stride's padding is poisoned."""
    state = np.zeros((config.num_rows, layout.state_stride_bytes(config.num_slots)), dtype=np.uint8)
    state[:, layout.state_row_bytes(config.num_slots) :] = 0xA5
    return state


def int32(values: object) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def step(
    config: Config,
    state: np.ndarray,
    topk_tokens: object,
    verified_len: int,
    seq_len: int,
    lease: int = 1,
    row: int = 0,
) -> Plan:
    """One step of one batch entry; topk_tokens [Q, K]."""
    tokens = int32(topk_tokens)
    plan = Plan(config, 1, len(tokens))
    lengths = int32([verified_len]), int32([seq_len])
    reference.match(config, state, tokens[None], *lengths, int32([lease]), int32([row]), plan)
    return plan


def pad(tokens: list[int], top_k: int) -> list[int]:
    """One query: the tokens, then padding."""
    return [*tokens, *[layout.PAD_TOKEN] * (top_k - len(tokens))]


def third_pass_state(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """A valid row before a step whose third pass of COLLECT matters; in the golden vectors none does.

    Slots 0..2 hold the oldest tokens, slot 3 the youngest, all others tokens of one age. The step's first
    query hits tokens 0..3 (younger than the lag, so their stamps stay), the second misses token 900.
    Returns the state and topk_tokens [2, K]; pass 1000 as both lengths.
    """
    num_slots, now = config.num_slots, 100
    state = new_state(config)
    step(config, state, [pad([], config.top_k)], 1000, 1000)
    header, slot_token, slot_stamp, bucket_word = layout.state_views(num_slots, state[0])
    header[layout.HEADER_STEP], header[layout.HEADER_FLOOR] = now - 1, now - 64
    slot_token[:num_slots] = np.arange(num_slots)
    slot_stamp[:num_slots] = now - 5
    slot_stamp[:4] = now - 9, now - 8, now - 7, now - 1
    for token in range(4):
        bucket_word[layout.hash_start(token, layout.num_buckets_log2(num_slots))] = token << 16 | token
    return state, int32([pad([0, 1, 2, 3], config.top_k), pad([900], config.top_k)])
