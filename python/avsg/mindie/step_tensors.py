# SPDX-License-Identifier: Apache-2.0
"""StepTensors: what every layer of a decode step needs, as device tensors that never move, and Staging."""

from __future__ import annotations

import numpy as np
import torch

from .settings import DEVICE_BLOCK_SIZE


class StepTensors:
    """Rows, lengths, block table and new positions of one decode step, derived on the device.

    max_entries: the most batch entries of a step. num_queries: Q of every entry. num_slots: S. top_k: K.
    Contents change with every update, addresses do not, so a captured graph replays an update. int32:
    rows [B] (-1: inactive), verified_lens [B] (seq_len - Q + 1), kv_lens [B] (S where active, else 0: what
    attention may read), block_table [B, S/128] (a row's blocks of device_kv), positions [B * Q] (the tokens
    that this step writes) and entries [B * Q] (their batch entry, -1: nothing to write).
    """

    def __init__(
        self, max_entries: int, num_queries: int, num_slots: int, top_k: int, device: torch.device | str
    ) -> None:
        self.num_queries, self.num_slots = num_queries, num_slots
        blocks = num_slots // DEVICE_BLOCK_SIZE

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        def upto(count: int) -> torch.Tensor:
            return torch.arange(count, dtype=torch.int32, device=device)

        self._rows, self._verified_lens, self._kv_lens = (zeros(max_entries) for _ in range(3))
        self._block_table = zeros(max_entries, blocks)
        self._positions, self._entries = (zeros(max_entries, num_queries) for _ in range(2))
        self._topk = zeros(max_entries * num_queries, top_k)
        self._entry, self._query, self._block = upto(max_entries), upto(num_queries), upto(blocks)
        self._set_size(0)

    def update(self, rows: torch.Tensor, seq_lens: torch.Tensor) -> None:
        """rows int32 [B] from the host's lookup, seq_lens int32 [B] on the device, as late as they are known.

        Nothing here is known on the host: async scheduling corrects seq_lens there after the lookup. No
        torch.where with a number: torch_npu copies the number from the host, and a graph would capture that.
        """
        self._set_size(seq_lens.shape[0])
        self.rows.copy_(rows).masked_fill_(seq_lens <= 0, -1)
        active = self.rows >= 0
        self.verified_lens.copy_(seq_lens - (self.num_queries - 1))
        self.kv_lens.copy_(active.to(torch.int32) * self.num_slots)
        first = self.rows.clamp(min=0).unsqueeze(1) * (self.num_slots // DEVICE_BLOCK_SIZE)
        self.block_table.copy_(first + self._block)
        last = seq_lens.unsqueeze(1) - self.num_queries
        self.positions.view(-1, self.num_queries).copy_(last + self._query)
        entry = self._entry[: self.num_entries].masked_fill(self.rows < 0, -1)
        self.entries.view(-1, self.num_queries).copy_(entry.unsqueeze(1))

    def topk_of_entries(self, topk_tokens: torch.Tensor) -> torch.Tensor:
        """The indexer's top-k int32 [T, 1, K] by entry, [B, Q, K].

        T past B * Q are padding tokens of the engine. Where T is less (a captured size that Q does not
        divide), the missing queries belong to a padding entry.
        """
        queries, topk = self.num_entries * self.num_queries, topk_tokens.view(-1, topk_tokens.shape[-1])
        if topk.shape[0] < queries:
            self._topk[: topk.shape[0]].copy_(topk)
            topk = self._topk
        return topk[:queries].view(self.num_entries, self.num_queries, -1)

    def _set_size(self, num_entries: int) -> None:
        self.num_entries = num_entries
        self.rows = self._rows[:num_entries]
        self.verified_lens = self._verified_lens[:num_entries]
        self.kv_lens = self._kv_lens[:num_entries]
        self.block_table = self._block_table[:num_entries]
        self.positions = self._positions[:num_entries].view(-1)
        self.entries = self._entries[:num_entries].view(-1)


class Staging:
    """One buffer for the rows that a layer writes, used by every offloaded layer in turn.

    A decode step's new rows lie in it in token order; a prompt's rows lie in consecutive blocks, each request
    from a block of its own, so that prefill attention reads them there. num_tokens is rounded up to whole
    blocks. nope [num_blocks, block_size, 1, nope_dim], rope [num_blocks, block_size, 1, rope_dim]; slots
    int32 [num_tokens]: 0, 1, 2, ..., the slot_mapping of a decode step.
    """

    def __init__(
        self,
        num_tokens: int,
        dims: tuple[int, int],
        *,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        self.block_size = block_size
        self.num_blocks = -(-num_tokens // block_size)
        shape = (self.num_blocks, block_size, 1)
        self.nope, self.rope = (torch.zeros((*shape, dim), dtype=dtype, device=device) for dim in dims)
        self.slots = torch.arange(self.num_blocks * block_size, dtype=torch.int32, device=device)

    def payloads(self) -> list[torch.Tensor]:
        """nope and rope as rows [num_tokens, dim]."""
        return [self.nope.view(-1, self.nope.shape[-1]), self.rope.view(-1, self.rope.shape[-1])]

    def place_prompts(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where prompts of these lengths lie: (slots int32 [sum], block table int32 [B, most blocks]).

        RuntimeError: they need more blocks than there are; nothing has been written.
        """
        blocks = -(-np.asarray(lengths, np.int64) // self.block_size)
        if blocks.sum() > self.num_blocks:
            raise RuntimeError(
                f"a prefill of {int(np.sum(lengths))} tokens in {len(lengths)} requests takes "
                f"{int(blocks.sum())} staging blocks of {self.num_blocks}: lower maxPrefillTokens "
                "or maxPrefillBatchSize to what the scheduler sends, or raise them in the configuration."
            )
        first = np.concatenate([[0], np.cumsum(blocks)[:-1]])
        tables = first[:, None] + np.arange(blocks.max(initial=1))
        slots = [start * self.block_size + np.arange(length) for start, length in zip(first, lengths)]
        return np.concatenate(slots).astype(np.int32), np.minimum(tables, self.num_blocks - 1).astype(
            np.int32
        )
