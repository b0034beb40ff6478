# SPDX-License-Identifier: Apache-2.0
"""What the design assumes of the silicon, each shown by AVSG's own operators against the numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
from device import Unavailable
from device_pool import Shape
from run import Run, lines, match_both
from silicon_memory import host_latency, host_writes, neighbour_stores, store_then_load

from avsg import PoolConfig

REPLAYS = 10_000


def int32_multiply(run: Run) -> str:
    """Tokens from 0 to 2^20 - 1 in tables of 2^7 to 2^14 buckets: each word is where SPEC.md hashes it."""
    for num_slots in (64, 512, 2048, 8192):
        top_k = num_slots // 4
        with run.pools(Shape(PoolConfig(1, num_slots, top_k), 1, (16,))) as (pool, twin):
            for lease in range(4):
                tokens = run.rng.choice(1 << 20, top_k - 2, replace=False)
                tokens = np.concatenate([tokens, [(1 << 20) - 1, (1 << 20) - 2]])
                match_both(pool, twin, lines(tokens[None, None], lease))
    return "products up to 1,674 million are exact; no rule of SPEC.md relies on overflow"


def select_bits(run: Run) -> str:
    """Integers whose bits are denormal floats pass through Select as they are: buckets and tokens."""
    with run.pools(Shape(PoolConfig(1, 8192, 512), 1, (16,))) as (pool, twin):
        low, high = np.arange(512), (1 << 20) - 512 + np.arange(512)
        hits = dropped = 0
        for tokens in (low, high, low, high):
            # The second of each pair takes back half the tokens: those that stay are moved by Select.
            for verified_len in (1 << 20, int(tokens[256])):
                step = lines(run.rng.permutation(tokens)[None, None], lease=1, verified_len=verified_len)
                match_both(pool, twin, step)
                hits += twin.plan.counters[0, 1]
                dropped += twin.plan.counters[0, 4]
        if hits == 0 or dropped == 0:
            raise AssertionError(f"the steps have {hits} hits and drop {dropped} tokens")
    return "denormal patterns arrive unchanged; the kernels give Select no infinity and no NaN"


def sync_all(run: Run) -> str:
    """What cores write before SyncAll is what all cores read after it: fused steps, uneven entries."""
    with run.pools(Shape(PoolConfig(16, 256, 64), 16, (656,))) as (pool, twin):
        num_steps = run.count(500)
        for _ in range(num_steps):
            tokens = run.rng.integers(0, 8192, (16, 1, 64))
            tokens[run.rng.random(16) < 0.3] = -1  # entries without misses move the shares
            args = lines(tokens, lease=1)
            pool.set_step(args)
            pool.poison_plan()  # a stale line of it is then no plan at all
            pool.step()
            twin.match(args)
            twin.load()
            pool.check_against(twin, "plan", "counters", "state")
        pool.check_against(twin, "device_kv")
    return f"{num_steps} fused steps of 16 entries, no stale plan"


def two_streams(run: Run) -> str:
    """Fused steps that wait on two streams at once end, and are right: no SyncAll waits forever."""
    # No token is verified, so none stays: each step copies 17 MB and lasts longer than many launches.
    shape = Shape(PoolConfig(16, 512, 512), 16, (2048,))
    devices = (run.device, run.device.beside())
    args = lines(run.rng.choice(8192, (16, 1, 512), replace=False), lease=1, verified_len=0)
    num_steps = run.count(200)
    with ExitStack() as stack:
        runs = (Run(run.library, device, rng=run.rng) for device in devices)
        sides = [stack.enter_context(one.pools(shape)) for one in runs]
        for pool, _ in sides:
            pool.set_step(args)
        for _ in range(num_steps):
            for pool, _ in sides:
                pool.step()
        competed = all(device.is_busy() for device in devices)
        for device in devices:
            device.synchronize(seconds=60)
        for pool, twin in sides:
            for _ in range(num_steps):
                twin.match(args)
            twin.load()
            pool.check_against(twin, "plan", "state", "device_kv")
    if not competed:
        raise Unavailable("the steps ended as fast as they were launched, so the streams did not compete")
    return f"{num_steps} fused steps on each of two streams, both with steps waiting when all were launched"


def graph_replays(run: Run) -> str:
    """A fused step captured once, replayed with new contents of the same tensors, equals as many steps."""
    with run.pools(Shape(PoolConfig(2, 64, 16), 2, (656,))) as (pool, twin):
        num_replays = run.count(REPLAYS)
        warm, others = (lines(run.rng.choice(300, (2, 1, 16)), lease=1) for _ in range(2))
        pool.set_step(warm)
        pool.step()  # what a first call sets up must not fall into the capture
        run.device.synchronize()
        replay = run.device.capture(pool.step)
        twin.match(warm)
        twin.load()
        for step in range(num_replays):
            others["topk_tokens"] = run.rng.choice(300, (2, 1, 16)).astype(np.int32)
            pool.set_step(others)
            replay()
            run.device.synchronize()
            twin.match(others)
            twin.load()
            if step % 100 == 0 or step == num_replays - 1:
                pool.check_against(twin, "plan", "state", "device_kv", "counters")
    return f"{num_replays:,} replays equal {num_replays:,} steps"


CHECKS: dict[str, Callable[[Run], str]] = {
    "int32 multiply": int32_multiply,
    "Select moves bits": select_bits,
    "SyncAll visibility": sync_all,
    "SyncAll on two streams": two_streams,
    "host writes seen past L2": host_writes,
    "store seen by the next load": store_then_load,
    "656-byte neighbour stores": neighbour_stores,
    "one-row latency from host memory": host_latency,
    "graph replays": graph_replays,
}
