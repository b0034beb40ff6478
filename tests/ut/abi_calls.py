# SPDX-License-Identifier: Apache-2.0
"""Valid arguments for every call of the C ABI, in one arena whose every byte a test can compare."""

import ctypes
from ctypes import addressof

import numpy as np

from avsg import _abi

POISON = 0xA5
ROWS, SLOTS, TOP_K, QUERIES, ENTRIES = 2, 64, 16, 2, 3
BLOCKS, BLOCK_SIZE, MAX_BLOCKS, NEW_ROWS = 5, 8, 4, 6
ROW_BYTES = (32, 16)


class Calls:
    """Arguments as attributes for a test to spoil; run(name) calls with whatever they are then."""

    def __init__(self, library: _abi.NativeLibrary, fresh: bool = True) -> None:
        self.library = library.dll
        self._memory = np.full((1 << 19) + 64, POISON, np.uint8)
        self._next = -self._memory.ctypes.data % 64
        self.config = _abi.Config(
            num_rows=ROWS, num_slots=SLOTS, top_k=TOP_K, num_queries=QUERIES, max_life=100, num_cores=2
        )
        self.report = size = library.sizes(self.config)
        self.state = self.tensor(size.state_bytes)
        self.workspace = self.tensor(size.workspace_bytes)
        self.counters = self.tensor(8)
        per_entry, width = 4 * ENTRIES, 4 * ENTRIES * QUERIES * TOP_K
        self.step = _abi.Step(
            num_entries=ENTRIES,
            num_queries=QUERIES,
            topk_tokens=self.tensor(width),
            **{f: self.tensor(per_entry) for f in ("verified_lens", "seq_lens", "leases", "rows")},
        )
        self.plan = _abi.PlanStruct(
            num_entries=ENTRIES,
            num_queries=QUERIES,
            counters=self.tensor(32 * ENTRIES),
            **{f: self.tensor(width) for f in ("slots", "miss_tokens", "miss_slots")},
            **{f: self.tensor(per_entry) for f in ("num_misses", "rows", "verified_lens")},
        )
        self.blocks = _abi.Blocks(
            num_entries=ENTRIES,
            max_blocks=MAX_BLOCKS,
            block_size=BLOCK_SIZE,
            num_host_blocks=BLOCKS,
            block_table=self.tensor(4 * ENTRIES * MAX_BLOCKS),
        )
        self.num_payloads = len(ROW_BYTES)
        self.payloads = (_abi.Payload * 4)()
        self.store_payloads = (_abi.StorePayload * 4)()
        for i, row_bytes in enumerate(ROW_BYTES):
            host = self.tensor(BLOCKS * BLOCK_SIZE * row_bytes)
            device = self.tensor(ROWS * SLOTS * row_bytes)
            rows = self.tensor(ENTRIES * QUERIES * row_bytes) if fresh else None
            self.payloads[i] = _abi.Payload(row_bytes=row_bytes, host_kv=host, device_kv=device, fresh=rows)
            self.store_payloads[i] = _abi.StorePayload(
                row_bytes=row_bytes, host_kv=host, new_rows=self.tensor(NEW_ROWS * row_bytes)
            )
        self.positions, self.entries = self.tensor(4 * NEW_ROWS), self.tensor(4 * NEW_ROWS)
        self.num_new_rows = NEW_ROWS
        self.stream = None

    def tensor(self, num_bytes: int) -> int:
        """The address of num_bytes bytes on a 64-byte boundary; 64 poisoned bytes follow."""
        address = self._memory.ctypes.data + self._next
        self._next += -(-num_bytes // 64) * 64 + 64
        assert self._next <= self._memory.size
        return address

    def view(self, address: int, count: int, dtype=np.int32) -> np.ndarray:
        """count elements at an address of the arena."""
        offset = address - self._memory.ctypes.data
        return self._memory[offset : offset + count * np.dtype(dtype).itemsize].view(dtype)

    def snapshot(self) -> bytes:
        """Every byte that a call could write to."""
        return self._memory.tobytes() + (b"" if self.report is None else bytes(self.report))

    def run(self, name: str) -> int:
        """Calls avsg_<name>; a None attribute is passed as NULL."""
        arrays = {"payloads": _abi.Payload, "store_payloads": _abi.StorePayload}
        config, report, step, plan, blocks, payloads, store_payloads = (
            None
            if (struct := getattr(self, name)) is None
            else ctypes.cast(addressof(struct), ctypes.POINTER(arrays.get(name, type(struct))))
            for name in ("config", "report", "step", "plan", "blocks", "payloads", "store_payloads")
        )
        loads = (blocks, payloads, self.num_payloads)
        tail = (self.counters, self.workspace, self.stream)
        arguments = {
            "sizes": (config, report),
            "match": (config, step, self.state, plan, self.workspace, self.stream),
            "load": (config, plan, *loads, self.state, *tail),
            "step_fused": (config, step, self.state, plan, *loads, *tail),
            "store": (
                config,
                blocks,
                store_payloads,
                self.num_payloads,
                self.positions,
                self.entries,
                self.num_new_rows,
                *tail,
            ),
        }
        return getattr(self.library, "avsg_" + name)(*arguments[name])

    def error(self) -> str:
        """The sentence of the last call."""
        return self.library.avsg_last_error().decode()
