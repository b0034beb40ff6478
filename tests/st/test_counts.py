# SPDX-License-Identifier: Apache-2.0
"""What a launch costs, counted by the checked library: scalar accesses, modelled time, rows per core.

The budgets are those of DESIGN.md "Kernel on Ascend 910B"; the cycles are modelled
(framework/cpu/runtime/timeline.cpp) from the published rates, never measured.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import avsg
from avsg import cpu_counts

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from bench_model import CASES, model_match  # noqa: E402

ROW_BYTES = 64


def test_all_hits_at_full_pool_stay_within_200_scalars_and_18_us():
    misses, scalars, us = model_match(CASES[0]).T
    assert not misses.any()
    assert scalars.max() <= 200, scalars
    assert us.max() <= 18, us  # steps that rewrite every stamp included


def test_five_percent_misses_at_8k_slots_stay_within_1600_scalars_and_24_us():
    misses, scalars, us = model_match(CASES[1]).T
    assert 0.04 < misses.mean() / 2048 < 0.06
    assert scalars.max() <= 1600, scalars
    assert us.max() <= 24, us


def test_four_queries_stay_within_1250_scalars_and_20_us_each():
    misses, scalars, us = model_match(CASES[2]).T
    assert 0.03 < misses.mean() / 2048 < 0.06
    assert scalars.max() <= 1250, scalars
    assert us.max() <= 20, us


@pytest.mark.parametrize("num_cores", [1, 5, 48])
def test_every_core_copies_its_share_whatever_request_it_belongs_to(num_cores):
    """SPEC.md "Copy": core c copies [c*n/num_cores, (c+1)*n/num_cores) of all misses to every payload."""
    num_entries, top_k, num_slots, num_payloads = 3, 64, 128, 2
    config = avsg.PoolConfig(num_entries, num_slots, top_k)
    pool = avsg.Pool(config, library="cpu-checked", num_cores=num_cores)
    library = cpu_counts.CpuLibrary("cpu-checked")
    rng = np.random.default_rng(num_cores)
    topk = np.full((num_entries, 1, top_k), -1, np.int32)
    for entry, count in enumerate((64, 1, 29)):  # a long, a short and a middling list
        topk[entry, 0, :count] = rng.choice(512, count, replace=False)
    lines = {
        "verified_lens": np.full(num_entries, 512, np.int32),
        "seq_lens": np.full(num_entries, 512, np.int32),
        "leases": np.ones(num_entries, np.int32),
        "rows": np.arange(num_entries, dtype=np.int32),
    }
    plan = pool.match(topk, **lines)
    total = int(plan.num_misses.sum())
    assert total == 94
    host = [rng.integers(0, 255, (32, 16, ROW_BYTES), np.uint8) for _ in range(num_payloads)]
    device = [np.zeros((num_entries * num_slots, ROW_BYTES), np.uint8) for _ in range(num_payloads)]
    table = np.tile(np.arange(32, dtype=np.int32), (num_entries, 1))
    pool.load(plan, host, device, block_table=table)
    for core, counts in enumerate(library.counts()):
        num_rows = (core + 1) * total // num_cores - core * total // num_cores
        copied = num_rows * num_payloads * ROW_BYTES
        partial = 8 + (8 if core == 0 else 0)  # the core's counters, and core 0 writes their sum
        assert counts.dma_bytes_out == copied + partial, f"core {core} of {num_cores}"
