# SPDX-License-Identifier: Apache-2.0
"""A pool whose tensors lie in device memory, called through the C ABI, and the same pool in numpy."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from dataclasses import dataclass, fields

import numpy as np
from device import POISON, Device

from avsg import Plan, PoolConfig, _abi, layout, reference
from avsg.arrays import aligned_zeros
from avsg.plan import plan_shapes

STEP_FIELDS = ("topk_tokens", "verified_lens", "seq_lens", "leases", "rows")


class Mismatch(AssertionError):
    """The device and the numpy reference differ; the text says where first."""


def check_equal(what: str, got: np.ndarray, want: np.ndarray) -> None:
    """Raises Mismatch at the first element that differs."""
    differ = np.argwhere(got != want)
    if len(differ):
        at = tuple(int(i) for i in differ[0])
        raise Mismatch(
            f"{what}{list(at)} is {got[at]}, expected {want[at]} ({len(differ):,} of {got.size:,} differ)"
        )


@dataclass(frozen=True)
class Shape:
    """Everything that fixes the tensors of a pool and its copies."""

    config: PoolConfig
    num_entries: int
    row_bytes: tuple[int, ...] = (656,)
    num_host_blocks: int = 64
    block_size: int = 128
    max_blocks: int = 64
    has_fresh: bool = False
    huge_pages: bool = True


class HostRows:
    """Host memory of one payload from avsg_host_alloc: `array` for the CPU, `alias` for the device."""

    def __init__(self, library: _abi.NativeLibrary, num_rows: int, row_bytes: int, huge_pages: bool) -> None:
        host, alias = c_void_p(), c_void_p()
        options = _abi.HostOptions(huge_pages=int(huge_pages))
        library.call("avsg_host_alloc", num_rows * row_bytes, byref(options), byref(host), byref(alias))
        self.alias, self._host, self._library = alias.value, host.value, library
        memory = (ctypes.c_uint8 * (num_rows * row_bytes)).from_address(host.value)
        self.array = np.frombuffer(memory, np.uint8).reshape(num_rows, row_bytes)

    def free(self) -> None:
        self._library.call("avsg_host_free", self._host)


class ReferencePool:
    """SPEC.md in numpy on a copy of the same inputs."""

    def __init__(self, shape: Shape) -> None:
        config = self.config = shape.config
        self.shape = shape
        self.state = aligned_zeros((config.num_rows, layout.state_stride_bytes(config.num_slots)))
        num_host_rows = shape.num_host_blocks * shape.block_size
        self.host_kv = [np.zeros((num_host_rows, n), np.uint8) for n in shape.row_bytes]
        num_device_rows = config.num_rows * config.num_slots
        self.device_kv = [np.full((num_device_rows, n), POISON, np.uint8) for n in shape.row_bytes]
        self.fresh: list[np.ndarray | None] = [None] * len(shape.row_bytes)
        self.block_table = np.zeros((shape.num_entries, shape.max_blocks), np.int32)
        self.plan = Plan.empty(shape.num_entries, config.num_queries, config.top_k)
        self.counters = np.zeros(2, np.int32)

    def match(self, step: dict[str, np.ndarray]) -> None:
        reference.match(self.config, self.state, *(step[name] for name in STEP_FIELDS), self.plan)

    def load(self) -> None:
        payloads = list(zip(self.host_kv, self.device_kv, self.fresh))
        blocks = (self.block_table, self.shape.block_size, self.shape.num_host_blocks)
        reference.load(self.config, self.state, self.plan, payloads, *blocks, self.counters)

    def store(self, new_rows: list[np.ndarray], positions: np.ndarray, entries: np.ndarray) -> None:
        blocks = (self.block_table, self.shape.block_size, self.shape.num_host_blocks)
        payloads = list(zip(self.host_kv, new_rows))
        reference.store(self.config, payloads, positions, entries, *blocks, self.counters)


class DevicePool:
    """State, plan, tables and buffers on the device; every call goes through the library's C ABI."""

    def __init__(self, library: _abi.NativeLibrary, device: Device, shape: Shape) -> None:
        self.library, self.device, self.shape = library, device, shape
        config = shape.config
        limits = {field.name: getattr(config, field.name) for field in fields(config)}
        self.config = _abi.Config(num_cores=0, **limits)
        self.sizes = library.sizes(self.config)
        self._owned: list[int] = []
        self.state = self._new(np.zeros((config.num_rows, self.sizes.state_stride_bytes), np.uint8))
        self.workspace = self._poisoned(self.sizes.workspace_bytes)
        entries, queries = shape.num_entries, config.num_queries
        lines = {name: self._poisoned(4 * entries) for name in STEP_FIELDS[1:]}
        topk_tokens = self._poisoned(4 * entries * queries * config.top_k)
        shared = {"num_entries": entries, "num_queries": queries}
        self.step_struct = _abi.Step(**shared, topk_tokens=topk_tokens, **lines)
        self._plan_shapes = plan_shapes(entries, queries, config.top_k)
        self._plan = {name: self._poisoned(4 * int(np.prod(s))) for name, s in self._plan_shapes.items()}
        self.plan_struct = _abi.PlanStruct(**shared, **self._plan)
        self.counters = self._poisoned(8)
        self._set_copies()

    def _new(self, array: np.ndarray) -> int:
        address = self.device.alloc(array.nbytes)
        self._owned.append(address)
        self.device.write(address, array)
        return address

    def _poisoned(self, num_bytes: int) -> int:
        return self._new(np.full(num_bytes, POISON, np.uint8))

    def _set_copies(self) -> None:
        shape, config = self.shape, self.shape.config
        self.blocks = _abi.Blocks(
            num_entries=shape.num_entries,
            max_blocks=shape.max_blocks,
            block_size=shape.block_size,
            num_host_blocks=shape.num_host_blocks,
            block_table=self._poisoned(4 * shape.num_entries * shape.max_blocks),
        )
        num_host_rows = shape.num_host_blocks * shape.block_size
        self.host_kv = [HostRows(self.library, num_host_rows, n, shape.huge_pages) for n in shape.row_bytes]
        fresh_rows = shape.num_entries * config.num_queries
        self.payloads = (_abi.Payload * len(shape.row_bytes))(
            *(
                _abi.Payload(
                    row_bytes=n,
                    host_kv=rows.alias,
                    device_kv=self._poisoned(config.num_rows * config.num_slots * n),
                    fresh=self._poisoned(fresh_rows * n) if shape.has_fresh else None,
                )
                for n, rows in zip(shape.row_bytes, self.host_kv)
            )
        )

    def close(self) -> None:
        """Gives all memory back."""
        self.device.synchronize()
        for address in self._owned:
            self.device.free(address)
        for rows in self.host_kv:
            rows.free()

    def set_step(self, step: dict[str, np.ndarray]) -> None:
        """Writes the inputs of a match to the device: topk_tokens int32 [B, Q, K], the rest int32 [B]."""
        for name in STEP_FIELDS:
            self.device.write(getattr(self.step_struct, name), step[name].astype(np.int32))

    def set_inputs(self, twin: ReferencePool) -> None:
        """Gives the device the block table, the host rows and the fresh rows of the numpy pool."""
        self.device.write(self.blocks.block_table, twin.block_table)
        for payload, rows, host_kv, fresh in zip(self.payloads, self.host_kv, twin.host_kv, twin.fresh):
            rows.array[...] = host_kv
            if fresh is not None:
                self.device.write(payload.fresh, fresh)

    def poison_plan(self) -> None:
        for name, shape in self._plan_shapes.items():
            self.device.write(self._plan[name], np.full(shape, -123, np.int32))

    def _tail(self) -> tuple[object, ...]:
        return self.counters, self.workspace, self.device.stream

    def match(self) -> None:
        structs = (byref(self.config), byref(self.step_struct), self.state, byref(self.plan_struct))
        self.library.call("avsg_match", *structs, self.workspace, self.device.stream)

    def load(self) -> None:
        copies = (byref(self.blocks), self.payloads, len(self.payloads), self.state)
        self.library.call("avsg_load", byref(self.config), byref(self.plan_struct), *copies, *self._tail())

    def step(self) -> None:
        structs = (byref(self.config), byref(self.step_struct), self.state, byref(self.plan_struct))
        copies = (byref(self.blocks), self.payloads, len(self.payloads))
        self.library.call("avsg_step_fused", *structs, *copies, *self._tail())

    def store(
        self, new_rows: list[np.ndarray], positions: np.ndarray, entries: np.ndarray, wait: bool = True
    ) -> None:
        """Stores rows that this puts on the device, where they stay until the pool is closed."""
        addresses = [self._new(array) for array in (*new_rows, positions, entries)]
        payloads = (_abi.StorePayload * len(new_rows))(
            *(
                _abi.StorePayload(row_bytes=rows.array.shape[1], host_kv=rows.alias, new_rows=address)
                for rows, address in zip(self.host_kv, addresses)
            )
        )
        counts = (addresses[-2], addresses[-1], len(positions))
        head = (byref(self.config), byref(self.blocks), payloads, len(payloads))
        self.library.call("avsg_store", *head, *counts, *self._tail())
        if wait:
            self.device.synchronize()

    def read_plan(self) -> dict[str, np.ndarray]:
        """Waits for the device and reads the plan."""
        self.device.synchronize()
        return {
            name: self.device.read(self._plan[name], np.empty(shape, np.int32))
            for name, shape in self._plan_shapes.items()
        }

    def check_against(self, twin: ReferencePool, *what: str) -> None:
        """Raises Mismatch where the device differs: plan, state, device_kv, host_kv or counters."""
        self.device.synchronize()
        if "plan" in what:
            check_plan(self.read_plan(), twin.plan)
        if "state" in what:
            state = self.device.read(self.state, np.empty_like(twin.state))
            row_bytes = self.sizes.state_row_bytes
            check_equal("state", state[:, :row_bytes], twin.state[:, :row_bytes])
        if "counters" in what:
            check_equal(
                "copy counters", self.device.read(self.counters, np.empty(2, np.int32)), twin.counters
            )
        for i, (payload, rows) in enumerate(zip(self.payloads, self.host_kv)):
            if "device_kv" in what:
                got = self.device.read(payload.device_kv, np.empty_like(twin.device_kv[i]))
                check_equal(f"device_kv of payload {i} ", got, twin.device_kv[i])
            if "host_kv" in what:
                check_equal(f"host_kv of payload {i} ", rows.array, twin.host_kv[i])


def check_plan(got: dict[str, np.ndarray], want: Plan) -> None:
    """Every tensor of a plan; the lists of misses up to num_misses."""
    for name in ("num_misses", "counters", "slots", "rows", "verified_lens"):
        check_equal(name, got[name], getattr(want, name))
    listed = np.arange(want.miss_tokens.shape[1]) < want.num_misses[:, None]
    for name in ("miss_tokens", "miss_slots"):
        check_equal(name, got[name][listed], getattr(want, name)[listed])
