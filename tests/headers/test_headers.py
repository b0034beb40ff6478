# SPDX-License-Identifier: Apache-2.0
"""The kernels, compiled against the real Ascend C headers, equal the vectors and the CPU library to the bit.

scripts/check_headers.sh builds the library (CANN needed) and runs this file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import avsg
from avsg import _abi

sys.path.insert(0, str(Path(__file__).parents[1] / "st"))
from random_trace import Call
from test_agree import ALL_FEATURES, Replica, compare
from test_conformance import test_match_equals_the_vector as match_equals_the_vector

VECTORS = (
    *("aliases", "all_hit", "churn_4_8", "exact_fit_q4", "flag2", "hostile", "k512", "million"),
    *("pads_bad_dup", "past_limit", "s_eq_k_512", "short_life", "strided", "third_pass", "tiny_context"),
    *("dsa_2k_exact", "dsa_8k_q1", "dsa_8k_q4", "k1024_mid"),
)
SEEDS = range(9000, 9012)
BLOCK_SIZE = 16


@pytest.fixture(scope="module")
def headers() -> str:
    """Path of the library that runs on the real headers."""
    path = os.environ.get("AVSG_LIBRARY", "")
    if not path.endswith("libavsg_headers.so"):
        pytest.skip("needs the real Ascend C headers: run scripts/check_headers.sh with CANN set")
    assert _abi.load(Path(path).resolve()).name == "headers"
    return path


@pytest.mark.parametrize("vector", VECTORS)
def test_match_on_the_real_headers_equals_the_vector(headers, vector):
    match_equals_the_vector(headers, vector)


def test_random_calls_on_the_real_headers_equal_the_cpu_library(headers):
    seen: set[str] = set()
    for seed in SEEDS:
        seen |= compare(seed, ("cpu", headers))
    assert seen == ALL_FEATURES, f"the seeds never had: {ALL_FEATURES - seen}"


def make_call(rng, config, rows, num_tokens, row_bytes, num_new, fused) -> Call:
    """Tokens below num_tokens for the entries of `rows`, and num_new rows to store, some of them twice."""
    num_entries, q, top_k = len(rows), config.num_queries, config.top_k
    max_blocks = num_tokens // BLOCK_SIZE
    tokens = [rng.choice(num_tokens - q, (q, top_k), replace=q * top_k > num_tokens - q) for _ in rows]
    return Call(
        topk_tokens=np.stack(tokens).astype(np.int32),
        lines={
            "verified_lens": np.full(num_entries, num_tokens - q + 1, np.int32),
            "seq_lens": np.full(num_entries, num_tokens, np.int32),
            "leases": np.full(num_entries, 9, np.int32),
            "rows": np.array(rows, np.int32),
        },
        block_table=np.arange(num_entries * max_blocks, dtype=np.int32).reshape(num_entries, max_blocks),
        fresh=[rng.integers(0, 256, (num_entries, q, n), dtype=np.uint8) for n in row_bytes],
        new_rows=[rng.integers(0, 256, (num_new, n), dtype=np.uint8) for n in row_bytes],
        positions=rng.integers(0, num_tokens, num_new).astype(np.int32),
        entries=rng.integers(0, num_entries, num_new).astype(np.int32),
        fused=fused,
        num_loads=0 if fused else 1,
        age={},
    )


def check_equal(headers, seed, config, rows, num_tokens, row_bytes, num_new) -> dict[str, np.ndarray]:
    """Three steps, fused and not, on four cores; returns what the last one gave."""
    rng = np.random.default_rng(seed)
    shape = (len(rows) * num_tokens // BLOCK_SIZE, BLOCK_SIZE)
    host_kv = [rng.integers(0, 256, (*shape, n), dtype=np.uint8) for n in row_bytes]
    trace = SimpleNamespace(config=config, num_cores=4, host_kv=host_kv, row_bytes=row_bytes)
    tested, expected = Replica(trace, headers), Replica(trace, "cpu")
    for step in range(3):
        call = make_call(rng, config, rows, num_tokens, row_bytes, num_new, fused=step != 1)
        got, want = tested.run(call), expected.run(call)
        for what, array in want.items():
            np.testing.assert_array_equal(got[what], array, f"seed {seed}, step {step}: {what}")
    return got


@pytest.mark.parametrize("num_slots", [2048, 8192])
def test_full_size_steps_on_the_real_headers_equal_the_cpu_library(headers, num_slots):
    config = avsg.PoolConfig(num_rows=2, num_slots=num_slots, top_k=2048)
    got = check_equal(headers, 1, config, [1, 0], 2560, [128, 1152], 8)
    assert got["counters"][:, avsg.layout.COUNTER_HITS].min() > 640, "enough hits to mark slots by sorting"


def test_rows_longer_than_a_chunk_and_more_entries_than_a_window_equal_the_cpu_library(headers):
    config = avsg.PoolConfig(num_rows=3, num_slots=64, top_k=16, num_queries=2)
    check_equal(headers, 2, config, [-1] * 40 + [2] + [-1] * 28 + [0, 1], 32, [20480, 16], 40)


def test_more_new_rows_than_one_search_equal_the_cpu_library(headers):
    config = avsg.PoolConfig(num_rows=1, num_slots=64, top_k=8)
    check_equal(headers, 3, config, [0], 1600, [32], 2300)
