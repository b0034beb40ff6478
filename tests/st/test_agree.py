# SPDX-License-Identifier: Apache-2.0
"""Reference, fast and checked library agree to the bit on random traces: plans, counters, state, copies.

A longer run: PYTHONPATH=python python tests/st/test_agree.py FIRST_SEED COUNT
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from decode_loop import LIBRARIES
from random_trace import Call, Trace

import avsg
from avsg import layout

NUM_TRACES = 320
GROUP = 40
STEPS = 8


class Replica:
    """One library's pool and its own copies of every buffer."""

    def __init__(self, trace: Trace, library: str) -> None:
        self.name, self.trace = library, trace
        self.pool = avsg.Pool(trace.config, library=library, num_cores=trace.num_cores)
        num_device_rows = trace.config.num_rows * trace.config.num_slots
        self.host_kv = [host.copy() for host in trace.host_kv]
        self.device_kv = [np.full((num_device_rows, n), 0xA5, np.uint8) for n in trace.row_bytes]

    def run(self, call: Call) -> dict[str, np.ndarray]:
        """Store, match and loads of one call; everything that libraries must agree on."""
        headers = self.pool.state[:, : layout.slot_token_offset()].view(np.int32)
        for row, step in call.age.items():  # a long life in one write: valid as long as floor <= step
            headers[row, layout.HEADER_STEP] = step
        stored = self.pool.store(
            call.new_rows,
            self.host_kv,
            positions=call.positions,
            entries=call.entries,
            block_table=call.block_table,
            check=False,
        )
        plan = avsg.Plan.empty(*call.topk_tokens.shape)
        for array in vars(plan).values():
            array.fill(0x5A5A5A5A)
        copies = {"block_table": call.block_table, "fresh": call.fresh, "check": False}
        before = self.pool.stats()
        if call.fused:
            self.pool.step(call.topk_tokens, self.host_kv, self.device_kv, out=plan, **copies, **call.lines)
        else:
            self.pool.match(call.topk_tokens, out=plan, check=False, **call.lines)
        loaded = [self.pool.load(plan, self.host_kv, self.device_kv, **copies) for _ in range(call.num_loads)]
        after = self.pool.stats()
        loaded.append((after.rows_copied - before.rows_copied, after.bad_blocks - before.bad_blocks))
        listed = np.arange(plan.miss_tokens.shape[1]) < plan.num_misses[:, None]
        return {
            "counters": plan.counters,
            "num_misses": plan.num_misses,
            "slots": plan.slots,
            "miss_tokens": plan.miss_tokens[listed],
            "miss_slots": plan.miss_slots[listed],
            "rows": plan.rows,
            "verified_lens": plan.verified_lens,
            "store counters": np.array(stored),
            "load counters": np.array(loaded),
            "state": self.pool.state[:, : self.pool.sizes.state_row_bytes],
            **{f"device_kv[{i}]": device for i, device in enumerate(self.device_kv)},
            **{f"host_kv[{i}]": host for i, host in enumerate(self.host_kv)},
        }


def compare(seed: int, libraries: tuple[str, ...] = LIBRARIES) -> set[str]:
    """Runs one trace on all libraries; returns what the trace exercised."""
    trace = Trace(seed)
    replicas = [Replica(trace, library) for library in libraries]
    seen: set[str] = set()
    for t, call in enumerate(trace.calls(STEPS)):
        *others, (_, expected) = [
            (r.name, r.run(call)) for r in reversed(replicas)
        ]  # the reference comes last
        for name, got in others:
            for what, array in got.items():
                where = f"seed {seed}, step {t}, {name}: {what} differs from the reference"
                np.testing.assert_array_equal(array, expected[what], where)
        seen |= exercised(expected)
    return seen


def exercised(result: dict[str, np.ndarray]) -> set[str]:
    """Which features a step had, so that the traces can be shown to have them all."""
    total = result["counters"].sum(axis=0)
    flags = np.bitwise_or.reduce(result["counters"][:, layout.COUNTER_FLAGS])
    names = {
        "hit": total[layout.COUNTER_HITS],
        "miss": total[layout.COUNTER_MISSES],
        "bad token": flags & layout.FLAG_BAD_TOKEN,
        "invalidated": total[layout.COUNTER_INVALIDATED],
        "unlinked": total[layout.COUNTER_UNLINKED],
        "floor advanced": total[layout.COUNTER_FLOOR_ADVANCE],
        "reset": flags & layout.FLAG_RESET,
        "promised stamped": flags & layout.FLAG_PROMISED_STAMPED,
        "row out of range": flags & layout.FLAG_ROW_OUT_OF_RANGE,
        "row named twice": flags & layout.FLAG_ROW_NAMED_TWICE,
        "bad block": result["load counters"][:, 1].sum(),
        "stored": result["store counters"][0],
        "store skipped": result["store counters"][1],
    }
    return {name for name, count in names.items() if count}


ALL_FEATURES = {
    *("hit", "miss", "bad token", "invalidated", "unlinked", "floor advanced", "reset", "promised stamped"),
    *("row out of range", "row named twice", "bad block", "stored", "store skipped"),
}


@pytest.mark.parametrize("first", range(0, NUM_TRACES, GROUP))
def test_libraries_agree_on_random_traces(first):
    seen: set[str] = set()
    for seed in range(first, first + GROUP):
        seen |= compare(seed)
    assert seen == ALL_FEATURES, f"seeds {first} to {first + GROUP - 1} never had: {ALL_FEATURES - seen}"


if __name__ == "__main__":
    start, count = int(sys.argv[1]), int(sys.argv[2])
    for number in range(start, start + count):
        compare(number)
    print(f"seeds {start} to {start + count - 1} agree")
