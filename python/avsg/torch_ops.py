# SPDX-License-Identifier: Apache-2.0
"""AVSG in torch: the operators torch.ops.avsg.match, load, step and store, and TorchPool, which calls them.

`python -m avsg.torch_ops` compiles the extension for the installed torch, once. The operators write into
tensors of the caller, wait for nothing, allocate nothing and look at no value, so a captured graph replays
them at the same addresses. Shapes are static. Schemas: framework/torch/ops.cpp.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import torch

from . import _abi, layout, torch_build
from .config import PoolConfig
from .errors import LibraryNotFoundError, sentence
from .plan import plan_shapes

_bound: dict[str, _abi.NativeLibrary] = {}  # device type -> the library that its operators call


def build() -> str:
    """Compiles the extension for the installed torch if that is needed; returns its path."""
    return str(torch_build.build())


def load(library: str | os.PathLike[str] | None = None) -> None:
    """Makes torch.ops.avsg.* ready; idempotent.

    library: "cpu", "cpu-checked", "npu" or the path of a libavsg_*.so, which then serves its device from
    now on. None: keeps what is bound, otherwise binds AVSG_LIBRARY or cpu, and npu where torch_npu and
    libavsg_npu.so are present. Errors: LibraryNotFoundError with the command that builds what is missing,
    LibraryError.
    """
    extension = torch_build.built_extension()
    if str(extension) not in torch.ops.loaded_libraries:
        torch.ops.load_library(str(extension))
    if library is not None:
        _bind(library)
        return
    if not _bound:
        _bind(os.environ.get("AVSG_LIBRARY") or "cpu")
    if "npu" not in _bound and torch_build.torch_npu() is not None:
        try:
            _bind("npu")
        except LibraryNotFoundError:
            return  # an NPU tensor is refused with a sentence then


def _bind(library: str | os.PathLike[str]) -> None:
    resolved = _abi.resolve(library)
    if resolved == "reference":
        raise ValueError(
            sentence("library", "reference", "a native library", 'pass "cpu", "cpu-checked", "npu" or a path')
        )
    native = _abi.load(resolved)
    torch.ops.avsg.bind(str(native.path))
    _bound["npu" if native.name == "npu" else "cpu"] = native


def host_zeros(
    size: Sequence[int],
    dtype: torch.dtype = torch.uint8,
    *,
    device: torch.device | str = "cpu",
    huge_pages: bool = True,
) -> torch.Tensor:
    """A CPU tensor of zeroed, page-aligned host memory that `device` can address (avsg_host_alloc).

    size: items per dimension, one or more each. huge_pages: use huge pages when the system has them. The
    memory is freed with the last tensor on it. Errors: ValueError; RuntimeError when the system refuses.
    """
    load()
    return torch.ops.avsg.host_zeros(list(size), dtype, torch.device(device), huge_pages)


def register_host(tensor: torch.Tensor, device_alias: int) -> None:
    """Names the address by which the NPU reads the memory of a contiguous CPU tensor that others allocated.

    Keep the tensor until unregister_host. Errors: ValueError, also where its memory is registered already.
    """
    load()
    torch.ops.avsg.register_host(tensor.data_ptr(), device_alias, tensor.nbytes)


def unregister_host(tensor: torch.Tensor) -> None:
    """Forgets the address of a tensor that was registered. Errors: ValueError."""
    torch.ops.avsg.unregister_host(tensor.data_ptr())


class TorchPlan(NamedTuple):
    """What one match decides, as avsg.Plan: int32 tensors slots [B, Q, K], miss_tokens and miss_slots [B,
    Q*K], num_misses [B], counters [B, 8], rows [B], verified_lens [B].
    """

    slots: torch.Tensor
    miss_tokens: torch.Tensor
    miss_slots: torch.Tensor
    num_misses: torch.Tensor
    counters: torch.Tensor
    rows: torch.Tensor
    verified_lens: torch.Tensor


class TorchPool:
    """The pool of a group of layers that share their top-k, on a device (SPEC.md).

    config: the sizes. device: "cpu" or an NPU. max_entries: the most batch entries of a call. library: as
    for `load`; None keeps what is bound. All memory is allocated here, and the same addresses serve every
    call, so calls can be captured in a graph: contents change, addresses do not. Each method is one
    operator call; arguments as in torch.ops.avsg, dtypes and shapes as in `Pool`, all contiguous and on
    `device`, except host_kv, which on an NPU is a CPU tensor from host_zeros or register_host, or an NPU
    tensor. Refusals raise ValueError or TypeError before anything is written. Attributes: config, device,
    sizes, state (uint8 [num_rows, stride]), workspace, load_counters and store_counters (int32 [2]).
    """

    def __init__(
        self,
        config: PoolConfig,
        device: torch.device | str = "cpu",
        max_entries: int = 64,
        library: str | os.PathLike[str] | None = None,
    ) -> None:
        if max_entries < 1:
            raise ValueError(
                sentence("max_entries", max_entries, "1 or more", "pass the batch size of a step")
            )
        load(library)
        self.config = config
        self.device = torch.device(device)
        self.max_entries = max_entries
        native = _bound.get("cpu" if self.device.type == "cpu" else "npu")
        if native is None:
            raise LibraryNotFoundError(
                f"No library of AVSG is bound for {self.device}: install the NPU package and torch_npu, or "
                'pass device="cpu".'
            )
        numbers = {name: getattr(config, name) for name in config.__dataclass_fields__}
        self.sizes = native.sizes(_abi.Config(num_cores=0, **numbers))
        self.state = self._bytes(self.sizes.state_bytes).view(config.num_rows, -1)
        self.workspace = self._bytes(max(self.sizes.workspace_bytes, layout.WORKSPACE_BYTES))
        self.load_counters = self._int32(layout.NUM_LOAD_COUNTERS)
        self.store_counters = self._int32(layout.NUM_STORE_COUNTERS)
        shapes = plan_shapes(max_entries, config.num_queries, config.top_k)
        self._plan_memory = [self._int32(torch.Size(shape).numel()) for shape in shapes.values()]
        self._plans: dict[tuple[int, int], TorchPlan] = {}
        self._ints = (config.num_slots, config.num_queries, config.max_life)

    def plan(self, num_entries: int, num_queries: int = 1) -> TorchPlan:
        """The pool's plan for B entries of Q queries: views of one memory at the same addresses for all B, Q.

        Errors: ValueError past max_entries or num_queries.
        """
        key = (num_entries, num_queries)
        if key not in self._plans:
            self._plans[key] = self._make_plan(*key)
        return self._plans[key]

    def match(
        self,
        topk_tokens: torch.Tensor,
        verified_lens: torch.Tensor,
        seq_lens: torch.Tensor,
        leases: torch.Tensor,
        rows: torch.Tensor,
        out: TorchPlan | None = None,
    ) -> TorchPlan:
        """Gives every valid token a slot, as Pool.match; returns `out`, else the pool's plan of this B, Q."""
        plan = self._plan_of(topk_tokens) if out is None else out
        torch.ops.avsg.match(
            topk_tokens,
            verified_lens,
            seq_lens,
            leases,
            rows,
            self.state,
            *plan,
            self.workspace,
            *self._ints,
        )
        return plan

    def load(
        self,
        plan: TorchPlan,
        block_table: torch.Tensor,
        host_kv: Sequence[torch.Tensor],
        device_kv: Sequence[torch.Tensor],
        fresh: Sequence[torch.Tensor] = (),
        load_counters: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Copies the plan's rows for one layer, as Pool.load; returns the counters, int32 [2] on the device.

        load_counters: an own tensor, where those of several layers must be kept apart.
        """
        counters = self.load_counters if load_counters is None else load_counters
        misses = (plan.miss_tokens, plan.miss_slots, plan.num_misses, plan.rows, plan.verified_lens)
        torch.ops.avsg.load(
            *misses,
            block_table,
            list(host_kv),
            list(fresh),
            list(device_kv),
            self.state,
            counters,
            self.workspace,
            self.config.num_slots,
            self.config.top_k,
        )
        return counters

    def step(
        self,
        topk_tokens: torch.Tensor,
        verified_lens: torch.Tensor,
        seq_lens: torch.Tensor,
        leases: torch.Tensor,
        rows: torch.Tensor,
        block_table: torch.Tensor,
        host_kv: Sequence[torch.Tensor],
        device_kv: Sequence[torch.Tensor],
        fresh: Sequence[torch.Tensor] = (),
        out: TorchPlan | None = None,
        load_counters: torch.Tensor | None = None,
    ) -> TorchPlan:
        """match and load in one launch, as Pool.step; returns the plan."""
        plan = self._plan_of(topk_tokens) if out is None else out
        torch.ops.avsg.step(
            *(topk_tokens, verified_lens, seq_lens, leases, rows),
            block_table,
            list(host_kv),
            list(fresh),
            list(device_kv),
            self.state,
            *plan,
            self.load_counters if load_counters is None else load_counters,
            self.workspace,
            *self._ints,
        )
        return plan

    def store(
        self,
        positions: torch.Tensor,
        entries: torch.Tensor,
        block_table: torch.Tensor,
        new_rows: Sequence[torch.Tensor],
        host_kv: Sequence[torch.Tensor],
        store_counters: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Writes a layer's new rows, one or more, to its host_kv, as Pool.store; returns the counters."""
        counters = self.store_counters if store_counters is None else store_counters
        torch.ops.avsg.store(
            positions, entries, block_table, list(new_rows), list(host_kv), counters, self.workspace
        )
        return counters

    def reset(self, rows: int | Sequence[int] | torch.Tensor | None = None) -> None:
        """Empties rows (None: all), as Pool.reset: their next step starts from a reset. Between steps."""
        if rows is None:
            self.state.zero_()
        else:
            self.state[rows] = 0

    def device_kv(self, host_kv: torch.Tensor) -> torch.Tensor:
        """Zeros [num_rows * S, ...] on the device for one payload with the rows and the dtype of host_kv."""
        num_rows = self.config.num_rows * self.config.num_slots
        return torch.zeros((num_rows, *host_kv.shape[2:]), dtype=host_kv.dtype, device=self.device)

    def _plan_of(self, topk_tokens: torch.Tensor) -> TorchPlan:
        shape = topk_tokens.shape
        return self.plan(shape[0], shape[1] if len(shape) > 1 else 1)

    def _make_plan(self, num_entries: int, num_queries: int) -> TorchPlan:
        most = (self.max_entries, self.config.num_queries)
        if not (1 <= num_entries <= most[0] and 1 <= num_queries <= most[1]):
            raise ValueError(
                sentence(
                    "[B, Q] of the step",
                    [num_entries, num_queries],
                    f"up to [max_entries, num_queries] = {list(most)}",
                    "make the TorchPool with a larger max_entries, or the PoolConfig with more queries",
                )
            )
        shapes = plan_shapes(num_entries, num_queries, self.config.top_k).values()
        return TorchPlan(
            *(m[: torch.Size(shape).numel()].view(shape) for m, shape in zip(self._plan_memory, shapes))
        )

    def _bytes(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.uint8, device=self.device)

    def _int32(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.int32, device=self.device)


if __name__ == "__main__":
    print(build())
