# SPDX-License-Identifier: Apache-2.0
"""Plan: what a match decides, and what load copies."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from . import layout


@dataclass(eq=False)
class Plan:
    """What one match decides (SPEC.md "One step"): contiguous int32 arrays; B entries, Q queries, K = top_k.

    slots [B, Q, K]: the slots of the valid tokens in the order of top_k, packed, then -1; sparse attention
    reads
        device_kv[row * S + slot].
    miss_tokens, miss_slots [B, Q*K]: token and slot of each copy, unspecified past num_misses. num_misses
    [B]; counters [B, 8] (SPEC.md "Counters"); rows [B]: the step's row, -1 where the entry was inactive;
    verified_lens [B]: V, the clamped length. A plan is reusable: pass it as `out=` of a match or step with
    the same B and Q, and nothing is allocated.
    """

    slots: np.ndarray
    miss_tokens: np.ndarray
    miss_slots: np.ndarray
    num_misses: np.ndarray
    counters: np.ndarray
    rows: np.ndarray
    verified_lens: np.ndarray

    @classmethod
    def empty(cls, num_entries: int, num_queries: int, top_k: int) -> Plan:
        """A plan in host memory that names no row and no copy: a load of it does nothing."""
        shapes = plan_shapes(num_entries, num_queries, top_k)
        plan = cls(**{name: np.full(shape, layout.PAD_TOKEN, np.int32) for name, shape in shapes.items()})
        for counts in (plan.num_misses, plan.counters, plan.verified_lens):
            counts.fill(0)
        return plan


PLAN_FIELDS = tuple(field.name for field in fields(Plan))
PLAN_WORDS = {
    "slots": "[B, Q, K]",
    "miss_tokens": "[B, Q*K]",
    "miss_slots": "[B, Q*K]",
    "num_misses": "[B]",
    "counters": "[B, 8]",
    "rows": "[B]",
    "verified_lens": "[B]",
}


def plan_shapes(num_entries: int, num_queries: int, top_k: int) -> dict[str, tuple[int, ...]]:
    """Shape of every array of a plan."""
    width = num_queries * top_k
    return {
        "slots": (num_entries, num_queries, top_k),
        "miss_tokens": (num_entries, width),
        "miss_slots": (num_entries, width),
        "num_misses": (num_entries,),
        "counters": (num_entries, layout.NUM_COUNTERS),
        "rows": (num_entries,),
        "verified_lens": (num_entries,),
    }
