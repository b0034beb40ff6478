# SPDX-License-Identifier: Apache-2.0
"""Three places for the KV rows that decode attention reads; all give the same rows in ascending token order.

resident  every row is on the device
offload   the full KV is in host memory, and every selected row is copied to the device in every step
avsg      the full KV is in host memory, the device holds a pool, and only rows that miss it are copied

On a CPU "device" is ordinary memory: what is counted here is bytes that would cross the link, never a speed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from mindspore import Tensor, ops

from ... import PoolConfig, RowTable, host_alloc, layout
from ..gather import SparseGather
from .model import STEP_LINES
from .weights import ModelShape

BLOCK_SIZE = 128

Rows = list[tuple[Tensor, Tensor]]  # for each query its selected keys and values, float32 [n, row_size]


@dataclass
class Traffic:
    """What decode steps did with rows (a row is a token's keys and values in one layer)."""

    rows_selected: int = 0
    rows_copied: int = 0
    bytes_copied: int = 0
    hits: int = 0


def ascending(topk_tokens: np.ndarray) -> np.ndarray:
    """Each query's tokens in ascending order, padding (-1) last; int32 [Q, K].

    Sums over rows are rounded in the order of the rows, so equal order makes equal bits in every mode.
    """
    last = np.iinfo(np.int32).max
    ordered = np.sort(np.where(topk_tokens < 0, last, topk_tokens), axis=1)
    return np.where(ordered == last, -1, ordered).astype(np.int32)


class Resident:
    """All rows on the device: two arrays [num_layers, max_tokens, row_size]."""

    mode = "resident"

    def __init__(self, shape: ModelShape, prompt: tuple[np.ndarray, np.ndarray], max_tokens: int) -> None:
        """prompt: keys and values float32 [num_layers, n, row_size] of the tokens that are there already."""
        self.traffic = Traffic()
        self._kv = np.zeros((2, shape.num_layers, max_tokens, shape.row_size), np.float32)
        self._kv[:, :, : prompt[0].shape[1]] = prompt
        self._tensors = [[Tensor.from_numpy(layer) for layer in payload] for payload in self._kv]  # no copies
        self.device_bytes = self._kv.nbytes

    def read(
        self, layer: int, position: int, keys: np.ndarray, values: np.ndarray, topk_tokens: np.ndarray
    ) -> Rows:
        """Stores the step's rows at position.. and returns the selected rows of each query."""
        self._kv[:, layer, position : position + len(keys)] = keys, values
        rows = []
        for tokens in ascending(topk_tokens):
            index = Tensor(tokens[tokens >= 0])
            rows.append(tuple(ops.gather(payload[layer], index, 0) for payload in self._tensors))
            self.traffic.rows_selected += index.shape[0]
        return rows


class HostKv:
    """The full KV in paged host memory: two arrays [num_blocks, BLOCK_SIZE, row_size] a layer, one table."""

    def __init__(
        self,
        shape: ModelShape,
        prompt: tuple[np.ndarray, np.ndarray],
        max_tokens: int,
        library: str | os.PathLike[str] | None,
    ) -> None:
        num_blocks = -(-max_tokens // BLOCK_SIZE)
        # A serving engine hands out blocks in any order; a fixed shuffle keeps the address rule honest.
        blocks = np.random.default_rng(0).permutation(num_blocks).astype(np.int32)
        self.block_table = blocks[None, :]
        self.layers = [
            [
                host_alloc((num_blocks, BLOCK_SIZE, shape.row_size), np.float32, library=library)
                for _ in prompt
            ]
            for _ in range(shape.num_layers)
        ]
        where = self.address(np.arange(prompt[0].shape[1]))
        for index, payloads in enumerate(self.layers):
            for host, rows in zip(payloads, prompt):
                host.reshape(-1, shape.row_size)[where] = rows[index]
        self.row_bytes = len(prompt) * shape.row_size * 4

    def address(self, tokens: np.ndarray) -> np.ndarray:
        """Row of each token in host memory seen as [num_blocks * BLOCK_SIZE, row_size]."""
        return self.block_table[0, tokens // BLOCK_SIZE] * BLOCK_SIZE + tokens % BLOCK_SIZE

    def rows(self, layer: int, tokens: np.ndarray) -> list[np.ndarray]:
        """Keys and values [n, row_size] of tokens, copied out of host memory."""
        where = self.address(tokens)
        return [host.reshape(-1, host.shape[-1])[where] for host in self.layers[layer]]


class Offload:
    """Full KV on the host; every selected row is copied in every step into one staging area on the device."""

    mode = "offload"

    def __init__(
        self,
        shape: ModelShape,
        prompt: tuple[np.ndarray, np.ndarray],
        max_tokens: int,
        top_k: int,
        library: str | os.PathLike[str] | None = None,
    ) -> None:
        self.traffic, self.host = Traffic(), HostKv(shape, prompt, max_tokens, library)
        self.device_bytes = STEP_LINES * top_k * self.host.row_bytes

    def read(
        self, layer: int, position: int, keys: np.ndarray, values: np.ndarray, topk_tokens: np.ndarray
    ) -> Rows:
        """As Resident.read."""
        where = self.host.address(position + np.arange(len(keys)))
        for host, rows in zip(self.host.layers[layer], (keys, values)):
            host.reshape(-1, rows.shape[1])[where] = rows
        selected = []
        for tokens in ascending(topk_tokens):
            tokens = tokens[tokens >= 0]
            selected.append(tuple(Tensor.from_numpy(rows) for rows in self.host.rows(layer, tokens)))
            self.traffic.rows_selected += len(tokens)
            self.traffic.rows_copied += len(tokens)
            self.traffic.bytes_copied += len(tokens) * self.host.row_bytes
        return selected


class Pooled:
    """Full KV on the host; on the device each layer has a pool of num_slots slots (a SparseGather)."""

    mode = "avsg"

    def __init__(
        self,
        shape: ModelShape,
        prompt: tuple[np.ndarray, np.ndarray],
        max_tokens: int,
        config: PoolConfig,
        library: str | os.PathLike[str] | None = None,
    ) -> None:
        """config: of one layer's pool, with one row. library: "cpu", "cpu-checked" or None."""
        self.traffic, self.host = Traffic(), HostKv(shape, prompt, max_tokens, library)
        self.pools = [SparseGather(config, [payloads], library=library) for payloads in self.host.layers]
        self._owned = [RowTable(config.num_rows).admit("the sequence") for _ in self.pools]
        self._block_table = Tensor(self.host.block_table)
        self.device_bytes = sum(
            payload.nbytes for pool in self.pools for payload in (pool.state, *pool.device_kv)
        )

    def read(
        self, layer: int, position: int, keys: np.ndarray, values: np.ndarray, topk_tokens: np.ndarray
    ) -> Rows:
        """As Resident.read: store the step's rows, match and load the selected ones, gather them by slot.

        The first query's token is verified, the drafts after it are not: verified_len = position + 1.
        """
        pool, (row, lease), count = self.pools[layer], self._owned[layer], len(keys)
        positions = Tensor(np.arange(position, position + count, dtype=np.int32))
        new_rows = (Tensor.from_numpy(keys), Tensor.from_numpy(values))
        pool.store(new_rows, positions, Tensor(np.zeros(count, np.int32)), self._block_table)
        numbers = (position + 1, position + count, lease, row)  # verified_len, seq_len, ...
        entry = (Tensor(np.array([number], np.int32)) for number in numbers)
        plan, load_counters = pool(Tensor(ascending(topk_tokens)[None]), *entry, self._block_table)
        self._count(plan[4].asnumpy()[0], load_counters.asnumpy())
        selected = []
        for slots in plan[0].asnumpy()[0]:
            index = Tensor(row * pool.config.num_slots + slots[slots >= 0])
            selected.append(tuple(ops.gather(payload, index, 0) for payload in pool.layer_device_kv()))
        return selected

    def _count(self, counters: np.ndarray, load_counters: np.ndarray) -> None:
        self.traffic.rows_selected += int(counters[layout.COUNTER_VALID])
        self.traffic.hits += int(counters[layout.COUNTER_HITS])
        self.traffic.rows_copied += int(load_counters[0])
        self.traffic.bytes_copied += int(load_counters[0]) * self.host.row_bytes
