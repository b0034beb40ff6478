# SPDX-License-Identifier: Apache-2.0
"""What the design assumes of the silicon, each shown by AVSG's own operators against the numpy reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
from device import Device, DeviceError, Unavailable
from device_pool import DevicePool, ReferencePool, Shape, check_equal
from golden import fill

from avsg import PoolConfig, _abi

SEED = 11
ASSUMED_LATENCY_US = 2500 / 1850  # cost model: host latency in cycles, at 1.85 GHz
REPLAYS = 10_000


@dataclass
class Run:
    """What a check works with; repeats scales the long ones down for a trial run."""

    library: _abi.NativeLibrary
    device: Device
    repeats: float = 1.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))

    def count(self, full: int) -> int:
        return max(int(full * self.repeats), 2)

    @contextmanager
    def pools(self, shape: Shape) -> Iterator[tuple[DevicePool, ReferencePool]]:
        """The same pool twice, with the same random rows; a pool on a broken device is left alone."""
        twin = ReferencePool(shape)
        fill(twin, self.rng)
        pool = DevicePool(self.library, self.device, shape)
        pool.set_inputs(twin)
        try:
            yield pool, twin
        except DeviceError as error:
            if not error.is_broken:
                pool.close()
            raise
        except Exception:
            pool.close()
            raise
        pool.close()


def lines(
    tokens: np.ndarray, lease: int, seq_len: int = 1 << 20, first_row: int = 0
) -> dict[str, np.ndarray]:
    """A step with these top_k [B, Q, K]: entry b in row first_row + b, all tokens verified."""
    num_entries = len(tokens)
    length = np.full(num_entries, seq_len, np.int32)
    rows = np.arange(first_row, first_row + num_entries, dtype=np.int32)
    leases = np.full(num_entries, lease, np.int32)
    return {
        "topk_tokens": tokens.astype(np.int32),
        "verified_lens": length,
        "seq_lens": length,
        "leases": leases,
        "rows": rows,
    }


def match_both(pool: DevicePool, twin: ReferencePool, step: dict[str, np.ndarray]) -> None:
    pool.set_step(step)
    pool.poison_plan()
    pool.match()
    twin.match(step)
    pool.check_against(twin, "plan", "state")


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
    """Integers whose bits are denormal floats, infinities or NaN pass through Select as they are."""
    with run.pools(Shape(PoolConfig(1, 2048, 512), 1, (16,))) as (pool, twin):
        small = np.arange(512)
        nan = 0x7F80 + np.arange(512) % 128 + (np.arange(512) // 128 << 16)
        negative_nan = 0xFF80 + np.arange(512) % 128 + (np.arange(512) // 128 << 16)
        for tokens in (small, nan, negative_nan, small, nan, negative_nan):
            match_both(pool, twin, lines(run.rng.permutation(tokens)[None, None], lease=1))
        if twin.plan.counters[0, 1] == 0:
            raise AssertionError("the steps have no hits")
    return "denormal, infinite and NaN patterns arrive unchanged"


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
    """Fused steps on two streams at once end, and are right: no SyncAll waits for cores of the other."""
    shape = Shape(PoolConfig(16, 256, 64), 16, (656,))
    devices = (run.device, run.device.beside())
    args = lines(run.rng.choice(8192, (16, 1, 64), replace=False), lease=1)
    num_steps = run.count(1000)
    with ExitStack() as stack:
        runs = (Run(run.library, device, rng=run.rng) for device in devices)
        sides = [stack.enter_context(one.pools(shape)) for one in runs]
        for pool, _ in sides:
            pool.set_step(args)
        for _ in range(num_steps):
            for pool, _ in sides:
                pool.step()
        for device in devices:
            device.synchronize_within(60)
        for pool, twin in sides:
            for _ in range(num_steps):
                twin.match(args)
            twin.load()
            pool.check_against(twin, "plan", "state")
    return f"{num_steps} fused steps on each of two streams"


def host_writes(run: Run) -> str:
    """Host rows that the CPU rewrites between loads are read anew: no stale copy in the NPU's L2."""
    shape = Shape(PoolConfig(1, 256, 64), 1, (656,), num_host_blocks=4, block_size=64, max_blocks=4)
    with run.pools(shape) as (pool, twin):
        tokens = np.arange(64)[None, None]
        num_writes = run.count(1000)
        for write in range(num_writes):
            twin.host_kv[0][...] = run.rng.integers(0, 256, twin.host_kv[0].shape, np.uint8)
            pool.host_kv[0].array[...] = twin.host_kv[0]
            args = lines(tokens, lease=write)
            pool.set_step(args)
            pool.match()
            pool.load()
            twin.match(args)
            twin.load()
            pool.check_against(twin, "device_kv", "counters")
    return f"{num_writes} rewrites by the CPU were seen; writes by RDMA or another device were not tried"


def neighbour_stores(run: Run) -> str:
    """Rows of 656 bytes share 32-byte blocks with their neighbours, and several cores write them."""
    shape = Shape(PoolConfig(1, 4096, 2048), 1, (656,), num_host_blocks=32, block_size=128, max_blocks=32)
    with run.pools(shape) as (pool, twin):
        twin.block_table[...] = run.rng.permutation(32)
        pool.set_inputs(twin)
        num_rounds = run.count(50)
        for step in range(num_rounds):
            positions = run.rng.permutation(4096)[:2048].astype(np.int32)
            new_rows = [run.rng.integers(0, 256, (2048, 656), np.uint8)]
            pool.store(new_rows, positions, np.zeros(2048, np.int32))
            twin.store(new_rows, positions, np.zeros(2048, np.int32))
            args = lines(run.rng.permutation(4096)[None, None, :2048], lease=step)
            pool.set_step(args)
            pool.match()
            pool.load()
            twin.match(args)
            twin.load()
            pool.check_against(twin, "host_kv", "device_kv")
    return f"{num_rounds} rounds of 2,048 rows to the host and to the device"


def host_latency(run: Run) -> str:
    """One row of 1,152 bytes costs a load at most twice the host latency of the cost model."""
    if not run.device.is_chip:
        raise Unavailable("times of a CPU say nothing about a chip")
    with run.pools(Shape(PoolConfig(1, 256, 64), 1, (1152,))) as (pool, twin):
        medians = []
        for num_misses in (0, 1):
            tokens = np.full((1, 1, 64), -1)
            tokens[0, 0, :num_misses] = 5
            times = []
            for lease in range(220):
                pool.set_step(lines(tokens, lease + 1000 * num_misses))
                pool.match()
                run.device.synchronize()
                times.append(run.device.elapsed_us(pool.load))
            medians.append(float(np.median(times[20:])))
        twin.match(lines(tokens, 1))
        check_equal("num_misses", pool.read_plan()["num_misses"], twin.plan.num_misses)
    latency = medians[1] - medians[0]
    text = (
        f"{latency:.2f} us (medians {medians[1]:.2f} and {medians[0]:.2f}), assumed {ASSUMED_LATENCY_US:.2f}"
    )
    if latency > 2 * ASSUMED_LATENCY_US:
        raise AssertionError(f"{text}: the modelled times of copies from one core are too short")
    return text


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
    "656-byte neighbour stores": neighbour_stores,
    "one-row latency from host memory": host_latency,
    "graph replays": graph_replays,
}
