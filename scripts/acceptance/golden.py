# SPDX-License-Identifier: Apache-2.0
"""The vectors of tests/golden on the device: match, load, fused step and store, compared bit for bit.

Match is compared with what the vectors hold (an independent implementation of SPEC.md, CRC of the state
included), the copies with the numpy reference on the vectors' plans.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from device import Device
from device_pool import DevicePool, Mismatch, ReferencePool, Shape, check_equal, check_plan

from avsg import Plan, PoolConfig, _abi, layout

ROW_BYTES = ((656,), (1024, 128))  # of even and odd vectors in turn
SEED = 7


def vector_names(folder: Path) -> list[str]:
    """Names of the vectors in a folder, in order."""
    return sorted(path.stem for path in folder.glob("*.npz"))


def golden_plan(golden: dict[str, np.ndarray], t: int) -> Plan:
    """The plan that the vector expects of step t."""
    row, counters = golden["row"][t], golden["counters"][t]
    inactive = (row < 0) | (
        counters[:, layout.COUNTER_FLAGS] & (layout.FLAG_ROW_OUT_OF_RANGE | layout.FLAG_ROW_NAMED_TWICE) != 0
    )
    return Plan(
        slots=golden["slots"][t],
        miss_tokens=golden["miss_token"][t],
        miss_slots=golden["miss_slot"][t],
        num_misses=golden["num_misses"][t],
        counters=counters,
        rows=np.where(inactive, -1, row).astype(np.int32),
        verified_lens=np.clip(golden["verified_len"][t], 0, np.maximum(golden["seq_len"][t], 0)),
    )


def golden_shape(golden: dict[str, np.ndarray], row_bytes: tuple[int, ...]) -> Shape:
    """Sizes of a vector, with a block table that reaches its highest token and few host blocks behind it."""
    num_slots, top_k, num_queries, max_life, num_entries, num_rows = golden["config"].tolist()
    config = PoolConfig(num_rows, num_slots, top_k, num_queries, max_life)
    max_blocks = int(golden["miss_token"].max(initial=0)) // 128 + 1
    return Shape(config, num_entries, row_bytes, max_blocks=max_blocks, has_fresh=True)


def fill(twin: ReferencePool, rng: np.random.Generator) -> None:
    """Random rows everywhere, and blocks that several ids name."""
    shape = twin.shape
    twin.block_table[...] = rng.integers(0, shape.num_host_blocks, twin.block_table.shape)
    for i, row_bytes in enumerate(shape.row_bytes):
        twin.host_kv[i][...] = rng.integers(0, 256, twin.host_kv[i].shape, np.uint8)
        if shape.has_fresh:
            fresh = (shape.num_entries, shape.config.num_queries, row_bytes)
            twin.fresh[i] = rng.integers(0, 256, fresh, np.uint8)


def run_vector(library: _abi.NativeLibrary, device: Device, path: Path, row_bytes: tuple[int, ...]) -> int:
    """All steps of a vector: match and load in even steps, the fused step in odd ones. Returns the steps."""
    with np.load(path) as file:
        golden = dict(file)
    shape = golden_shape(golden, row_bytes)
    twin, pool = ReferencePool(shape), DevicePool(library, device, shape)
    try:
        fill(twin, np.random.default_rng(SEED))
        pool.set_inputs(twin)
        for t in range(len(golden["topk"])):
            run_step(pool, twin, golden, t)
        pool.check_against(twin, "device_kv")
    finally:
        pool.close()
    return len(golden["topk"])


def run_step(pool: DevicePool, twin: ReferencePool, golden: dict[str, np.ndarray], t: int) -> None:
    """One step of a vector on the device; the numpy pool follows the vector, not the device."""
    names = {"topk_tokens": "topk", "verified_lens": "verified_len", "seq_lens": "seq_len"}
    names |= {"leases": "lease", "rows": "row"}
    pool.set_step({name: golden[field][t] for name, field in names.items()})
    pool.poison_plan()
    if t % 2 == 0:
        pool.match()
        pool.load()
    else:
        pool.step()
    plan = golden_plan(golden, t)
    twin.plan = plan
    twin.load()
    try:
        check_plan(pool.read_plan(), plan)
        pool.check_against(twin, "counters")
        stride = pool.sizes.state_stride_bytes
        state = pool.device.read(pool.state, np.empty((pool.shape.config.num_rows, stride), np.uint8))
        crcs = np.array([zlib.crc32(row[: pool.sizes.state_row_bytes]) for row in state], np.uint32)
        check_equal("CRC-32 of state row ", crcs, golden["state_crc32"][t])
    except Mismatch as error:
        raise Mismatch(f"step {t} ({'match and load' if t % 2 == 0 else 'fused step'}): {error}") from None


def run_store(library: _abi.NativeLibrary, device: Device) -> None:
    """New rows to the host: skipped and repeated ones, rows of 656 bytes that share lines, two payloads."""
    rng = np.random.default_rng(SEED)
    for row_bytes in ROW_BYTES:
        shape = Shape(PoolConfig(1, 64, 16), 3, row_bytes, num_host_blocks=12, block_size=16, max_blocks=4)
        twin, pool = ReferencePool(shape), DevicePool(library, device, shape)
        try:
            fill(twin, rng)
            twin.block_table[...] = rng.permutation(12).reshape(3, 4)
            twin.block_table[2, 3] = 99  # a bad block
            pool.set_inputs(twin)
            for num_new in (1, 7, 300):
                positions = rng.integers(-1, 66, num_new).astype(np.int32)
                entries = rng.integers(-1, 4, num_new).astype(np.int32)
                new_rows = [rng.integers(0, 256, (num_new, n), np.uint8) for n in row_bytes]
                pool.store(new_rows, positions, entries)
                twin.store(new_rows, positions, entries)
                pool.check_against(twin, "host_kv", "counters")
        finally:
            pool.close()
