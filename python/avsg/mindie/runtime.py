# SPDX-License-Identifier: Apache-2.0
"""Runtime: everything of AVSG in one MindIE worker process, without MindIE: rows, buffers, host KV, one
decode step."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from .host_kv import HostKv
from .layer_group import LayerGroup
from .metrics import Metrics
from .request_rows import RequestRows
from .settings import DEVICE_BLOCK_SIZE, EngineFacts, Settings
from .sizing import KvSizing
from .step_tensors import Staging, StepTensors

if TYPE_CHECKING:
    from .operations import Operations

_MAX_FULL_LEASE = 2**31 - 2


@dataclass(frozen=True)
class KvLayout:
    """What a token's KV is (immutable): layer groups, items of nope and rope, dtype, tokens in a block."""

    groups: Sequence[Sequence[int]]
    nope_dim: int = 512
    rope_dim: int = 64
    dtype: torch.dtype = torch.bfloat16
    block_size: int = 128

    @property
    def dims(self) -> tuple[int, int]:
        """Items of the two payloads."""
        return self.nope_dim, self.rope_dim

    @property
    def num_layers(self) -> int:
        """Offloaded layers."""
        return sum(map(len, self.groups))


class StepView(NamedTuple):
    """What attention reads in one layer: slots int32 [T, 1, K], device_kv as blocks [rows * S / 128, 128,
    1, dim], block_table int32 [B, S / 128], kv_lens int32 [B]."""

    slots: torch.Tensor
    nope: torch.Tensor
    rope: torch.Tensor
    block_table: torch.Tensor
    kv_lens: torch.Tensor


class Runtime:
    """AVSG's part of one rank.

    max_entries: the most batch entries of a decode step, padding included. prefill_tokens: the most tokens
    of a prefill step, each request rounded up to whole blocks; 0 on a node that never prefills. Memory on
    the device is allocated here, except what grows with the number of KV blocks (bind). The methods that a
    decode or prefill step calls for a layer queue operators only: no host sync, static addresses. lookup
    and the life of sequences run on the host, from any thread. sizing: bytes of a KV block, for the
    engine's block count.
    """

    def __init__(
        self,
        settings: Settings,
        engine: EngineFacts,
        layout: KvLayout,
        *,
        device: torch.device | str = "cpu",
        max_entries: int | None = None,
        prefill_tokens: int = 0,
        rank: int = 0,
        sizing: KvSizing | None = None,
    ) -> None:
        self.settings, self.engine, self.layout, self.device = settings, engine, layout, torch.device(device)
        self.num_queries = engine.num_queries
        self.max_entries = max_entries or engine.max_requests
        memory = {"dtype": layout.dtype, "device": self.device}
        self.rows = RequestRows(settings.rows)
        self.step = StepTensors(self.max_entries, self.num_queries, settings.slots, engine.top_k, self.device)
        self.staging = Staging(
            max(prefill_tokens, self.max_entries * self.num_queries),
            layout.dims,
            block_size=layout.block_size,
            **memory,
        )
        config = settings.pool_config(engine)
        self.groups: list[LayerGroup] = []
        for layers in layout.groups:  # all work on one stream, so one workspace serves them
            workspace = self.groups[0].pool.workspace if self.groups else None
            options = {"max_entries": self.max_entries, "library": settings.library, "workspace": workspace}
            self.groups.append(LayerGroup(layers, config, layout.dims, **options, **memory))
        self._group_of = {layer: number for number, group in enumerate(self.groups) for layer in group.layers}
        self._first_layer = min(self._group_of)
        row_bytes = sum(layout.dims) * layout.dtype.itemsize
        self.metrics = Metrics(layout.groups, self.device, row_bytes=row_bytes, rank=rank)
        self.host_kv: HostKv | None = None
        self.sizing = sizing
        self.operations: Operations | None = None  # once it serves
        self._mode = settings.mode
        self._full_steps = 0
        self._mode_lock = threading.Lock()

    def bind(self, num_blocks: int) -> HostKv:
        """Host KV of num_blocks blocks; what was there is gone, so every row starts from a reset."""
        layout = self.layout
        if self.host_kv is not None:
            self.host_kv.close()
        self.host_kv = HostKv(
            layout.num_layers,
            num_blocks,
            block_size=layout.block_size,
            nope_dim=layout.nope_dim,
            rope_dim=layout.rope_dim,
            dtype=layout.dtype,
            device=self.device,
            huge_pages=self.settings.huge_pages,
        )
        self.rows.renew_all()
        return self.host_kv

    def start_serving(self) -> None:
        """After warm-up and graph capture: no sequence of theirs keeps a row, and none keeps a lease."""
        self.rows.release_all()
        self.metrics.reset()

    def offloads(self, layer: int) -> bool:
        """Whether a layer's KV is in host memory; the draft layer's is not."""
        return layer in self._group_of

    def lookup(self, sequences: Iterable[Hashable | None]) -> tuple[np.ndarray, np.ndarray]:
        """(rows, leases) int32 [B] of a decode step's entries, in their order; None: no request, row -1.

        A sequence without a row is admitted. In full offload every entry gets a lease that its row has not
        seen, so that the row is reset and every selected row is copied: negative, RequestRows gives
        positive ones only.
        """
        sequences = list(sequences)
        taken = self.rows.admit_step(sequences)
        if taken:
            self.metrics.count("rows_taken", taken)
        rows, leases = self.rows.lookup(sequences)
        with self._mode_lock:
            if self._mode == "full":
                self._full_steps = self._full_steps % _MAX_FULL_LEASE + 1
                leases[rows >= 0] = -self._full_steps
        return rows, leases

    def prefilled(self, sequences: Iterable[Hashable]) -> None:
        """The KV of these sequences is written anew (prefill, recompute, KV received): a new lease at
        their next step."""
        self.rows.preempt(sequences)

    @property
    def mode(self) -> str:
        """ "avsg" or "full"."""
        return self._mode

    def set_mode(self, mode: str) -> None:
        """From the next step on: "avsg", or "full" (every selected row is copied, at every step; match
        still runs).

        Back to "avsg" all leases are renewed. Any thread. ValueError: another word.
        """
        if mode not in ("avsg", "full"):
            raise ValueError(f'mode is {mode!r}; allowed: "avsg" or "full". Pass one of them.')
        with self._mode_lock:
            if mode == self._mode:
                return
            if mode == "avsg":
                self.rows.renew_all()
            self._mode = mode
        self.metrics.count("mode_switches")

    def decode(
        self,
        layer: int,
        topk_tokens: torch.Tensor,
        *,
        rows: torch.Tensor,
        leases: torch.Tensor,
        seq_lens: torch.Tensor,
        block_table: torch.Tensor,
    ) -> StepView:
        """Makes a layer's selected rows present on the device; its new rows lie in staging and go to the
        host.

        topk_tokens int32 [T, 1, K]; rows, leases, seq_lens int32 [B]; block_table int32 [B, M]: device
        tensors of the step. The first layer of a group matches, all of them copy.
        """
        if layer == self._first_layer:
            self.step.update(rows, seq_lens)
        step, number = self.step, self._group_of[layer]
        group = self.groups[number]
        if layer == group.layers[0]:
            plan = group.match(topk_tokens, seq_lens, leases, step)
            self.metrics.record_match(number, plan.counters)
        queries = step.num_entries * self.num_queries
        new_rows = [payload[:queries].unsqueeze(1) for payload in self.staging.payloads()]
        fresh = [payload.view(step.num_entries, self.num_queries, 1, -1) for payload in new_rows]
        host_kv = self.host_layer(layer)
        group.load(layer, block_table, host_kv, fresh)
        group.store(layer, step.positions, step.entries, block_table, new_rows, host_kv)
        if layer == group.layers[-1]:
            self.metrics.record_load(number, group.load_counters)
            self.metrics.record_store(number, group.store_counters)
        blocks = [
            payload.view(-1, DEVICE_BLOCK_SIZE, 1, payload.shape[-1]) for payload in group.device_kv[layer]
        ]
        return StepView(group.slots(topk_tokens.shape[0]), *blocks, step.block_table, step.kv_lens)

    def store_prompt(
        self,
        layer: int,
        *,
        slots: torch.Tensor,
        positions: torch.Tensor,
        entries: torch.Tensor,
        block_table: torch.Tensor,
    ) -> None:
        """Writes a prefill step's rows of one layer from staging to the host.

        int32 [T]: slots of staging, positions in the sequence, entries (-1: not stored); block_table [B, M].
        """
        number = self._group_of[layer]
        new_rows = [payload[slots.long()].unsqueeze(1) for payload in self.staging.payloads()]
        self.groups[number].store(layer, positions, entries, block_table, new_rows, self.host_layer(layer))

    def host_layer(self, layer: int) -> list[torch.Tensor]:
        """A layer's nope and rope in host memory, [num_blocks, block_size, 1, dim]."""
        return list(self.host_kv.layer(layer - self._first_layer))
