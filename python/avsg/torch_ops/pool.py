# SPDX-License-Identifier: Apache-2.0
"""TorchPool: a pool's memory on a device, and one operator call for each step of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import torch

from .. import _abi, layout
from ..config import PoolConfig
from ..errors import sentence
from ..plan import plan_shapes
from .library import bound, load


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
    for `load`; None keeps what is bound. workspace: that of another pool on the device, if all calls of both
    are on one stream. All other memory is allocated here, and the same addresses serve every call, so calls
    can be captured in a graph: contents change, addresses do not. Each method is one operator call;
    arguments as in torch.ops.avsg, dtypes and shapes as in `Pool`, all contiguous and on `device`, except
    host_kv, which on an NPU is a CPU tensor from host_zeros or register_host, or an NPU tensor.
    Refusals raise ValueError or TypeError before anything is written. Attributes: config, device,
    sizes, state (uint8 [num_rows, stride]), workspace, load_counters and store_counters (int32 [2]).
    """

    def __init__(
        self,
        config: PoolConfig,
        device: torch.device | str = "cpu",
        max_entries: int = 64,
        library: str | os.PathLike[str] | None = None,
        workspace: torch.Tensor | None = None,
    ) -> None:
        if max_entries < 1:
            raise ValueError(
                sentence("max_entries", max_entries, "1 or more", "pass the batch size of a step")
            )
        load(library)
        self.config = config
        self.device = torch.device(device)
        self.max_entries = max_entries
        self.load_counters = self._int32(
            layout.NUM_LOAD_COUNTERS
        )  # the first tensor: torch starts the device
        numbers = {name: getattr(config, name) for name in config.__dataclass_fields__}
        self.sizes = bound(self.device).sizes(_abi.Config(num_cores=0, **numbers))
        self.state = self._bytes(self.sizes.state_bytes).view(config.num_rows, -1)
        if workspace is None:
            workspace = self._bytes(max(self.sizes.workspace_bytes, layout.WORKSPACE_BYTES))
        self.workspace = workspace
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
