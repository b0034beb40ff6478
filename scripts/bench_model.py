# SPDX-License-Identifier: Apache-2.0
"""Modelled cost of a match on one vector core: counts of the checked library, times of its timeline.

The rates behind the times are documented or derived (framework/cpu/runtime/timeline.cpp); nothing was
measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import avsg
from avsg import cpu_counts

CLOCK_MHZ = 1850
CONTEXT = 48_000  # tokens of the request


class Case(NamedTuple):
    """A stationary workload: each query replaces num_changed of the last one's tokens by others."""

    top_k: int
    num_slots: int
    num_queries: int
    num_changed: int
    num_warm_steps: int
    num_steps: int


# The three budgets of DESIGN.md. At S = K the second step fetches what the first could not link.
CASES = (Case(2048, 2048, 1, 0, 2, 34), Case(2048, 8192, 1, 106, 75, 15), Case(2048, 8192, 4, 106, 8, 6))


def changing_top_k(rng: np.random.Generator, case: Case) -> Iterator[np.ndarray]:
    """The steps' topk_tokens, int32 [1, Q, K], in random order."""
    tokens = rng.choice(CONTEXT, case.top_k, replace=False)
    for _ in range(case.num_warm_steps + case.num_steps):
        queries = []
        for _ in range(case.num_queries):
            left_out = rng.choice(case.top_k, case.num_changed, replace=False)
            others = np.setdiff1d(rng.choice(CONTEXT, 3 * case.top_k, replace=False), tokens)
            tokens = tokens.copy()
            tokens[left_out] = rng.permutation(others)[: case.num_changed]
            queries.append(rng.permutation(tokens))
        yield np.stack(queries)[None].astype(np.int32)


def model_match(case: Case) -> np.ndarray:
    """Misses, scalar UB accesses and modelled us of a query, a line per step after the warm ones."""
    config = avsg.PoolConfig(1, case.num_slots, case.top_k, case.num_queries)
    pool = avsg.Pool(config, library="cpu-checked", num_cores=1)
    library = cpu_counts.CpuLibrary("cpu-checked")
    length = np.array([CONTEXT], np.int32)
    lines = {"verified_lens": length, "seq_lens": length, "leases": np.array([1], np.int32)}
    costs = []
    for topk_tokens in changing_top_k(np.random.default_rng(2), case):
        plan = pool.match(topk_tokens, rows=np.array([0], np.int32), check=False, **lines)
        core = library.counts()[0]
        scalars = core.scalar_loads + core.scalar_stores
        costs.append((plan.num_misses[0], scalars, core.pipe_cycles / CLOCK_MHZ))
    return np.array(costs[case.num_warm_steps :]) / case.num_queries
