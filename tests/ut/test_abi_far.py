# SPDX-License-Identifier: Apache-2.0
"""Copies reach rows whose byte offsets need more than 32 bits (SPEC.md, Copy: 64-bit offsets)."""

import ctypes
from ctypes import byref, c_void_p

import numpy as np
import pytest

from abi_calls import BLOCK_SIZE, ENTRIES, MAX_BLOCKS, NEW_ROWS, QUERIES, ROW_BYTES, ROWS, SLOTS, TOP_K, Calls
from avsg import _abi

HOST_BYTES = 1 << 40


@pytest.fixture(scope="module", params=["cpu", "cpu-checked"])
def library(request):
    return _abi.load(_abi.resolve(request.param))


@pytest.fixture
def far(library):
    """Arguments whose only payload is a sparse host_kv of one TiB."""
    host, alias = c_void_p(), c_void_p()
    library.call("avsg_host_alloc", HOST_BYTES, byref(_abi.HostOptions()), byref(host), byref(alias))
    calls = Calls(library, fresh=False)
    row_bytes = ROW_BYTES[0]
    calls.num_payloads = 1
    calls.payloads[0].host_kv = calls.store_payloads[0].host_kv = alias.value
    calls.blocks.num_host_blocks = HOST_BYTES // row_bytes // BLOCK_SIZE
    calls.host_kv = np.ctypeslib.as_array(
        ctypes.cast(host.value, ctypes.POINTER(ctypes.c_uint8)), (HOST_BYTES,)
    ).reshape(-1, BLOCK_SIZE, row_bytes)
    yield calls
    del calls.host_kv
    library.call("avsg_host_free", host)


def far_blocks(calls: Calls) -> np.ndarray:
    """A block table of distinct ids, from just past 2^31 bytes to the last that an int32 names."""
    first = (1 << 31) // (BLOCK_SIZE * ROW_BYTES[0]) + 1
    last = min(calls.blocks.num_host_blocks, 1 << 31) - 1
    table = calls.view(calls.blocks.block_table, ENTRIES * MAX_BLOCKS).reshape(ENTRIES, MAX_BLOCKS)
    table[:] = np.linspace(first, last, table.size).astype(np.int64).reshape(table.shape)
    assert len(np.unique(table)) == table.size
    return table


def test_load_reads_the_far_end_of_host_kv(far):
    table = far_blocks(far)
    tokens = np.arange(QUERIES * TOP_K, dtype=np.int32)
    for entry in range(ROWS):
        far.host_kv[table[entry]] = (
            np.arange(MAX_BLOCKS * BLOCK_SIZE * ROW_BYTES[0]).reshape(MAX_BLOCKS, BLOCK_SIZE, -1) % 251
            + entry
        )
    far.view(far.state, 8)[:] = 0
    far.view(far.step.topk_tokens, ENTRIES * tokens.size).reshape(ENTRIES, -1)[:] = tokens
    far.view(far.step.seq_lens, ENTRIES)[:] = tokens.size
    far.view(far.step.verified_lens, ENTRIES)[:] = tokens.size
    far.view(far.step.leases, ENTRIES)[:] = 1
    far.view(far.step.rows, ENTRIES)[:] = [0, 1, -1]
    assert far.run("step_fused") == 0, far.error()
    assert list(far.view(far.counters, 2)) == [ROWS * tokens.size, 0]
    slots = far.view(far.plan.slots, ENTRIES * tokens.size).reshape(ENTRIES, -1)
    device = far.view(far.payloads[0].device_kv, ROWS * SLOTS * ROW_BYTES[0], np.uint8).reshape(
        ROWS, SLOTS, -1
    )
    for entry in range(ROWS):
        expected = far.host_kv[table[entry, tokens // BLOCK_SIZE], tokens % BLOCK_SIZE]
        assert np.array_equal(device[entry, slots[entry]], expected)


def test_store_writes_the_far_end_of_host_kv(far):
    table = far_blocks(far)
    positions = np.arange(NEW_ROWS, dtype=np.int32) * 5
    far.view(far.positions, NEW_ROWS)[:] = positions
    far.view(far.entries, NEW_ROWS)[:] = np.arange(NEW_ROWS) % ENTRIES
    rows = far.view(far.store_payloads[0].new_rows, NEW_ROWS * ROW_BYTES[0], np.uint8).reshape(NEW_ROWS, -1)
    rows[:] = np.arange(rows.size).reshape(rows.shape) % 253
    assert far.run("store") == 0, far.error()
    assert list(far.view(far.counters, 2)) == [NEW_ROWS, 0]
    written = far.host_kv[
        table[np.arange(NEW_ROWS) % ENTRIES, positions // BLOCK_SIZE], positions % BLOCK_SIZE
    ]
    assert np.array_equal(written, rows)
