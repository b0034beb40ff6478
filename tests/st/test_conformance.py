# SPDX-License-Identifier: Apache-2.0
"""Every library equals the vectors of an independent implementation (SPEC.md "Conformance files")."""

import zlib
from pathlib import Path

import numpy as np
import pytest
from decode_loop import LIBRARIES

import avsg

GOLDEN = Path(__file__).parents[1] / "golden"
VECTORS = sorted(path.stem for path in GOLDEN.glob("*.npz"))


def test_all_vectors_are_here():
    assert len(VECTORS) >= 27


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_match_equals_the_vector(library, vector):
    with np.load(GOLDEN / f"{vector}.npz") as file:
        golden = dict(file)
    num_slots, top_k, num_queries, max_life, num_entries, num_rows = golden["config"].tolist()
    pool = avsg.Pool(avsg.PoolConfig(num_rows, num_slots, top_k, num_queries, max_life), library=library)
    plan = avsg.Plan.empty(num_entries, num_queries, top_k)
    row_bytes = pool.sizes.state_row_bytes
    for t in range(len(golden["topk"])):
        for field in vars(plan).values():
            field.fill(-123)
        pool.match(
            golden["topk"][t],
            verified_lens=golden["verified_len"][t],
            seq_lens=golden["seq_len"][t],
            leases=golden["lease"][t],
            rows=golden["row"][t],
            out=plan,
            check=False,
        )
        where = f"{vector}, step {t}"
        np.testing.assert_array_equal(plan.counters, golden["counters"][t], where)
        np.testing.assert_array_equal(plan.num_misses, golden["num_misses"][t], where)
        np.testing.assert_array_equal(plan.slots, golden["slots"][t], where)
        listed = np.arange(num_queries * top_k) < plan.num_misses[:, None]
        np.testing.assert_array_equal(plan.miss_tokens[listed], golden["miss_token"][t][listed], where)
        np.testing.assert_array_equal(plan.miss_slots[listed], golden["miss_slot"][t][listed], where)
        active = (golden["counters"][t][:, 7] & 12 == 0) & (golden["row"][t] >= 0)
        np.testing.assert_array_equal(plan.rows, np.where(active, golden["row"][t], -1), where)
        v = np.clip(golden["verified_len"][t], 0, np.maximum(golden["seq_len"][t], 0))
        np.testing.assert_array_equal(plan.verified_lens, v, where)
        crcs = [zlib.crc32(row[:row_bytes]) for row in pool.state]
        np.testing.assert_array_equal(crcs, golden["state_crc32"][t], where)
