# SPDX-License-Identifier: Apache-2.0
"""What the design assumes of memory: who sees whose writes, rows that share blocks, the host's latency."""

from __future__ import annotations

import numpy as np
from device import DeviceError, Unavailable
from device_pool import DevicePool, ReferencePool, Shape, check_equal
from run import Run, lines

from avsg import PoolConfig

HOST_LATENCY_US, HBM_LATENCY_US = 2500 / 1850, 600 / 1850  # cost model: cycles at 1.85 GHz
LOADS = 200  # in one graph: their sum is far above what a launch by the host varies
SMALL = Shape(PoolConfig(1, 256, 64), 1, (656,), num_host_blocks=4, block_size=64, max_blocks=4)


def load_both(pool: DevicePool, twin: ReferencePool, step: dict[str, np.ndarray]) -> None:
    """A match and a load, launched one behind the other without a wait, and the same in numpy."""
    pool.match()
    pool.load()
    twin.match(step)
    twin.load()
    pool.check_against(twin, "device_kv", "counters")


def host_writes(run: Run) -> str:
    """Host rows that the CPU rewrites between loads are read anew: no stale copy in the NPU's L2."""
    with run.pools(SMALL) as (pool, twin):
        num_writes = run.count(1000)
        for write in range(num_writes):
            twin.host_kv[0][...] = run.rng.integers(0, 256, twin.host_kv[0].shape, np.uint8)
            pool.host_kv[0].array[...] = twin.host_kv[0]
            step = lines(np.arange(64)[None, None], lease=write)
            pool.set_step(step)
            load_both(pool, twin, step)
    return f"{num_writes} rewrites by the CPU were seen; writes by RDMA or another device were not tried"


def store_then_load(run: Run) -> str:
    """Host rows that a store writes are what the next load on its stream reads, with no wait between them."""
    with run.pools(SMALL) as (pool, twin):
        twin.block_table[...] = run.rng.permutation(4)
        pool.set_inputs(twin)
        num_stores = run.count(1000)
        for lease in range(num_stores):
            positions = run.rng.permutation(256)[:64].astype(np.int32)
            new_rows, entries = [run.rng.integers(0, 256, (64, 656), np.uint8)], np.zeros(64, np.int32)
            step = lines(positions[None, None], lease)
            pool.set_step(step)
            pool.store(new_rows, positions, entries, wait=False)
            twin.store(new_rows, positions, entries)
            load_both(pool, twin, step)
        pool.check_against(twin, "host_kv")
    return f"{num_stores} stores of 64 rows were read by the load behind them"


def neighbour_stores(run: Run) -> str:
    """Rows of 656 bytes share 32-byte blocks with their neighbours, and several cores write them at once."""
    shape = Shape(PoolConfig(1, 4096, 2048), 1, (656,), num_host_blocks=32, block_size=128, max_blocks=32)
    with run.pools(shape) as (pool, twin):
        twin.block_table[...] = run.rng.permutation(32)
        pool.set_inputs(twin)
        num_rounds, lease = run.count(50), 0
        for _ in range(num_rounds):
            positions = run.rng.permutation(4096)[:2048].astype(np.int32)
            new_rows = [run.rng.integers(0, 256, (2048, 656), np.uint8)]
            pool.store(new_rows, positions, np.zeros(2048, np.int32))
            twin.store(new_rows, positions, np.zeros(2048, np.int32))
            pool.check_against(twin, "host_kv")
            # A core writes its share in order, so only a share's first row meets the last of the core before
            # it, later. With one to four rows a core neighbours are on their way at the same time.
            for num_misses in (2048, *run.rng.integers(40, 160, 8)):
                tokens = np.full(2048, -1)
                tokens[:num_misses] = run.rng.permutation(4096)[:num_misses]
                lease += 1
                step = lines(tokens[None, None], lease)
                pool.set_step(step)
                load_both(pool, twin, step)
    return f"{num_rounds} times 2,048 rows to the host, and 2,048 and 8 times 40 to 159 to the device"


def host_latency(run: Run) -> str:
    """A row of 1,152 bytes from host memory arrives within twice the host latency of the cost model."""
    if not run.device.is_chip:
        raise Unavailable("times of a CPU say nothing about a chip")
    medians = []
    with run.pools(Shape(PoolConfig(1, 256, 64), 1, (1152,), has_fresh=True)) as (pool, twin):
        for lease, verified_len in enumerate((7, 1 << 19)):  # token 6 is fresh, on the device; then not
            step = lines(np.array([[[6] + [-1] * 63]]), lease, verified_len=verified_len)
            pool.set_step(step)
            load_both(pool, twin, step)
            check_equal("num_misses", pool.read_plan()["num_misses"], np.array([1]))
            medians.append(load_us(run, pool))
    latency = medians[1] - medians[0] + HBM_LATENCY_US
    text = (
        f"{latency:.2f} us, assumed {HOST_LATENCY_US:.2f} (a load of one row takes {medians[1]:.2f} us from "
        f"the host and {medians[0]:.2f} from the device, whose own latency is taken as {HBM_LATENCY_US:.2f})"
    )
    if medians[1] <= medians[0]:
        raise Unavailable(f"{text}: the times do not tell the two apart")
    if latency > 2 * HOST_LATENCY_US:
        raise AssertionError(f"{text}: the modelled times of copies from one core are too short")
    return text


def load_us(run: Run, pool: DevicePool) -> float:
    """Time of one load among many in a graph, where no launch by the host stands between them."""

    def loads() -> None:
        for _ in range(LOADS):
            pool.load()

    try:
        replay = run.device.capture(loads)
    except DeviceError as error:
        if error.is_broken:
            raise
        raise Unavailable(f"it needs graphs: {error}") from None
    times = [run.device.elapsed_us(replay) for _ in range(25)]
    return float(np.median(times[5:])) / LOADS
