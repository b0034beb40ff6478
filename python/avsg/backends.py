# SPDX-License-Identifier: Apache-2.0
"""The two ways a pool runs: the numpy reference, and a native library behind the C ABI."""

from __future__ import annotations

import os
from ctypes import byref
from dataclasses import dataclass

import numpy as np

from . import _abi, layout
from .args import CopyArgs, PlanArgs, StepArgs
from .arrays import ArrayView, address, aligned_zeros
from .config import PoolConfig
from .errors import sentence
from .plan import PLAN_FIELDS, Plan


@dataclass(frozen=True)
class Sizes:
    """What follows from a config on a library: counts, and bytes where the name says so.

    num_buckets: NB. probe_rounds: R. lag_min: LAG_MIN. num_cores: cores of a launch. max_num_slots: the
    largest S that the library takes with this top_k. state_bytes = num_rows * state_stride_bytes. ub_bytes:
    on-chip buffer of a match (0: the library has none).
    """

    num_buckets: int
    probe_rounds: int
    lag_min: int
    num_cores: int
    max_num_slots: int
    state_row_bytes: int
    state_stride_bytes: int
    state_bytes: int
    workspace_bytes: int
    ub_bytes: int


class ReferenceBackend:
    """SPEC.md in numpy."""

    name = "reference"

    def __init__(self, config: PoolConfig) -> None:
        from . import reference  # a native pool never needs it

        self._reference = reference
        self._config = config
        small = config.num_slots < 2 * config.top_k
        stride = layout.state_stride_bytes(config.num_slots)
        self.sizes = Sizes(
            num_buckets=1 << layout.num_buckets_log2(config.num_slots),
            probe_rounds=layout.PROBE_ROUNDS_SMALL if small else layout.PROBE_ROUNDS,
            lag_min=layout.LAG_MIN_SMALL if small else layout.LAG_MIN,
            num_cores=1,
            max_num_slots=layout.MAX_SLOTS,
            state_row_bytes=layout.state_row_bytes(config.num_slots),
            state_stride_bytes=stride,
            state_bytes=config.num_rows * stride,
            workspace_bytes=0,
            ub_bytes=0,
        )

    def match(self, state: np.ndarray, step: StepArgs, plan: PlanArgs) -> None:
        self._reference.match(self._config, state, *(v.as_int32() for v in step.views()), _numpy_plan(plan))

    def load(self, state: np.ndarray, plan: PlanArgs, copy: CopyArgs, counters: np.ndarray) -> None:
        num_host_rows = copy.num_host_blocks * copy.block_size
        payloads = []
        for p in copy.payloads:
            device = p.device_kv.as_rows((p.device_kv.shape[0],), p.row_bytes)
            fresh = p.fresh and p.fresh.as_rows(p.fresh.shape[:2], p.row_bytes)
            payloads.append((p.host_kv.as_rows((num_host_rows,), p.row_bytes), device, fresh))
        self._reference.load(
            self._config,
            state,
            _numpy_plan(plan),
            payloads,
            copy.block_table.as_int32(),
            copy.block_size,
            copy.num_host_blocks,
            counters,
        )

    def step(
        self, state: np.ndarray, step: StepArgs, plan: PlanArgs, copy: CopyArgs, counters: np.ndarray
    ) -> None:
        self.match(state, step, plan)
        self.load(state, plan, copy, counters)

    def store(self, copy: CopyArgs, positions: ArrayView, entries: ArrayView, counters: np.ndarray) -> None:
        num_host_rows = copy.num_host_blocks * copy.block_size
        payloads = [
            (
                p.host_kv.as_rows((num_host_rows,), p.row_bytes),
                p.new_rows.as_rows((p.new_rows.shape[0],), p.row_bytes),
            )
            for p in copy.payloads
        ]
        self._reference.store(
            self._config,
            payloads,
            positions.as_int32(),
            entries.as_int32(),
            copy.block_table.as_int32(),
            copy.block_size,
            copy.num_host_blocks,
            counters,
        )


class NativeBackend:
    """A library behind the C ABI whose device is the CPU."""

    def __init__(self, config: PoolConfig, library: _abi.NativeLibrary, num_cores: int) -> None:
        self._library = library
        self.name = library.name
        self._config = _abi.Config(
            num_rows=config.num_rows,
            num_slots=config.num_slots,
            top_k=config.top_k,
            num_queries=config.num_queries,
            max_life=config.max_life,
            num_cores=num_cores,
        )
        report = library.sizes(self._config)
        self.sizes = Sizes(**{name: getattr(report, name) for name in Sizes.__dataclass_fields__})
        self._workspace = aligned_zeros((max(self.sizes.workspace_bytes, 1),))

    def match(self, state: np.ndarray, step: StepArgs, plan: PlanArgs) -> None:
        self._library.call(
            "avsg_match",
            byref(self._config),
            byref(_step_struct(step)),
            address(state),
            byref(_plan_struct(plan)),
            address(self._workspace),
            None,
        )

    def load(self, state: np.ndarray, plan: PlanArgs, copy: CopyArgs, counters: np.ndarray) -> None:
        self._library.call(
            "avsg_load",
            byref(self._config),
            byref(_plan_struct(plan)),
            byref(_blocks_struct(copy)),
            _payload_structs(copy),
            len(copy.payloads),
            address(state),
            address(counters),
            address(self._workspace),
            None,
        )

    def step(
        self, state: np.ndarray, step: StepArgs, plan: PlanArgs, copy: CopyArgs, counters: np.ndarray
    ) -> None:
        self._library.call(
            "avsg_step_fused",
            byref(self._config),
            byref(_step_struct(step)),
            address(state),
            byref(_plan_struct(plan)),
            byref(_blocks_struct(copy)),
            _payload_structs(copy),
            len(copy.payloads),
            address(counters),
            address(self._workspace),
            None,
        )

    def store(self, copy: CopyArgs, positions: ArrayView, entries: ArrayView, counters: np.ndarray) -> None:
        payloads = (_abi.StorePayload * len(copy.payloads))(
            *(
                _abi.StorePayload(
                    row_bytes=p.row_bytes, host_kv=p.host_kv.pointer, new_rows=p.new_rows.pointer
                )
                for p in copy.payloads
            )
        )
        self._library.call(
            "avsg_store",
            byref(self._config),
            byref(_blocks_struct(copy)),
            payloads,
            len(payloads),
            positions.pointer,
            entries.pointer,
            positions.shape[0],
            address(counters),
            address(self._workspace),
            None,
        )


def make_backend(
    config: PoolConfig,
    library: str | os.PathLike[str] | None,
    num_cores: int,
) -> ReferenceBackend | NativeBackend:
    """The backend that `library` names; see Pool."""
    resolved = _abi.resolve(library)
    if resolved == "reference":
        return ReferenceBackend(config)
    native = _abi.load(resolved)
    if native.name == "npu" and library is None and not os.environ.get("AVSG_LIBRARY"):
        native = _abi.load(_abi.resolve("cpu"))  # nobody asked for npu, and the arrays lie in host memory
    if native.name == "npu":
        raise ValueError(
            sentence(
                "library",
                f"npu ({native.path})",
                "a library whose device is the CPU, or reference,",
                'pass library="cpu"; device tensors go through the MindSpore and MindIE adapters',
            )
        )
    return NativeBackend(config, native, num_cores)


def _numpy_plan(plan: PlanArgs) -> Plan:
    return Plan(*(v.as_int32() for v in plan.views()))


def _step_struct(step: StepArgs) -> _abi.Step:
    return _abi.Step(
        num_entries=step.num_entries,
        num_queries=step.num_queries,
        **{v.name: v.pointer for v in step.views()},
    )


def _plan_struct(plan: PlanArgs) -> _abi.PlanStruct:
    return _abi.PlanStruct(
        num_entries=plan.num_entries,
        num_queries=plan.num_queries,
        **{field: v.pointer for field, v in zip(PLAN_FIELDS, plan.views())},
    )


def _blocks_struct(copy: CopyArgs) -> _abi.Blocks:
    return _abi.Blocks(
        num_entries=copy.num_entries,
        max_blocks=copy.max_blocks,
        block_size=copy.block_size,
        num_host_blocks=copy.num_host_blocks,
        block_table=copy.block_table.pointer,
    )


def _payload_structs(copy: CopyArgs) -> object:
    return (_abi.Payload * len(copy.payloads))(
        *(
            _abi.Payload(
                row_bytes=p.row_bytes,
                host_kv=p.host_kv.pointer,
                device_kv=p.device_kv.pointer,
                fresh=p.fresh and p.fresh.pointer,
            )
            for p in copy.payloads
        )
    )
