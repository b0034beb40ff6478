# SPDX-License-Identifier: Apache-2.0
"""LayerGroup: the pool of the layers that share a top-k, and their device buffers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..config import PoolConfig
from ..torch_ops import TorchPlan, TorchPool
from .step_tensors import StepTensors


class LayerGroup:
    """One pool for `layers`; the first has the indexer, all of them copy by its plan.

    dims: items of a token's nope and rope rows. A layer's device buffers are nope [rows * S, 1, dims[0]] and
    rope [rows * S, 1, dims[1]]. All memory is allocated here and never moves.
    """

    def __init__(
        self,
        layers: Sequence[int],
        config: PoolConfig,
        dims: tuple[int, int],
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        max_entries: int,
        library: str | None = None,
        workspace: torch.Tensor | None = None,
    ) -> None:
        self.layers = list(layers)
        self.pool = TorchPool(config, device, max_entries, library, workspace)
        rows = config.num_rows * config.num_slots
        self.device_kv = {
            layer: [torch.zeros((rows, 1, dim), dtype=dtype, device=device) for dim in dims]
            for layer in self.layers
        }
        self.load_counters, self.store_counters = (
            torch.zeros((len(self.layers), 2), dtype=torch.int32, device=device) for _ in range(2)
        )
        self.plan: TorchPlan | None = None

    def match(
        self, topk_tokens: torch.Tensor, seq_lens: torch.Tensor, leases: torch.Tensor, step: StepTensors
    ) -> TorchPlan:
        """One match for all layers. topk_tokens int32 [T, 1, K], tokens of entry e at e*Q to e*Q + Q - 1."""
        entries = step.topk_of_entries(topk_tokens)
        self.plan = self.pool.match(entries, step.verified_lens, seq_lens, leases, step.rows)
        return self.plan

    def load(
        self,
        layer: int,
        block_table: torch.Tensor,
        host_kv: Sequence[torch.Tensor],
        fresh: Sequence[torch.Tensor],
    ) -> None:
        """Copies the plan's rows for one layer; fresh: this step's own rows, [B, Q, 1, dim] each."""
        counters = self.load_counters[self.layers.index(layer)]
        self.pool.load(self.plan, block_table, host_kv, self.device_kv[layer], fresh, counters)

    def store(
        self,
        layer: int,
        positions: torch.Tensor,
        entries: torch.Tensor,
        block_table: torch.Tensor,
        new_rows: Sequence[torch.Tensor],
        host_kv: Sequence[torch.Tensor],
    ) -> None:
        """Writes new rows [T, 1, dim] of one layer to the host."""
        counters = self.store_counters[self.layers.index(layer)]
        self.pool.store(positions, entries, block_table, new_rows, host_kv, counters)

    def slots(self, num_tokens: int) -> torch.Tensor:
        """The plan's slots as attention takes them: int32 [num_tokens, 1, K], -1 for padding tokens."""
        slots = self.plan.slots.view(-1, 1, self.plan.slots.shape[-1])
        missing = num_tokens - slots.shape[0]
        if missing > 0:  # the engine's eager mode with padding gives one entry all padding tokens
            return torch.cat([slots, slots.new_full((missing, 1, slots.shape[-1]), -1)])
        return slots[:num_tokens]
