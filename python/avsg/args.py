# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call after checks.py has looked at their structure: what the backends receive."""

from __future__ import annotations

from typing import NamedTuple

from .arrays import ArrayView


class StepArgs(NamedTuple):
    """Input of one match."""

    num_entries: int
    num_queries: int
    topk_tokens: ArrayView  # [B, Q, K]
    verified_lens: ArrayView  # [B]
    seq_lens: ArrayView  # [B]
    leases: ArrayView  # [B]
    rows: ArrayView  # [B]

    def views(self) -> list[ArrayView]:
        return list(self[2:])


class PlanArgs(NamedTuple):
    """A plan's arrays, shapes as in Plan."""

    num_entries: int
    num_queries: int
    slots: ArrayView
    miss_tokens: ArrayView
    miss_slots: ArrayView
    num_misses: ArrayView
    counters: ArrayView
    rows: ArrayView
    verified_lens: ArrayView

    def views(self) -> list[ArrayView]:
        return list(self[2:])


class PayloadArgs(NamedTuple):
    """One pair of buffers; `device_kv` and `fresh` for load, `new_rows` for store."""

    row_bytes: int
    host_kv: ArrayView
    device_kv: ArrayView | None = None
    fresh: ArrayView | None = None
    new_rows: ArrayView | None = None


class CopyArgs(NamedTuple):
    """Payloads of a load or store, and where their host rows are."""

    payloads: list[PayloadArgs]
    block_table: ArrayView  # [B, max_blocks]
    num_entries: int
    max_blocks: int
    num_host_blocks: int
    block_size: int
