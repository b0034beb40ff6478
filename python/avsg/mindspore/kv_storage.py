# SPDX-License-Identifier: Apache-2.0
"""Where a decoder's KV is: all on the device, on the host with a copy of every selected row, or behind the
pool.

The three storages answer the same two calls, so a model is written once. `select` is called once for a
group of layers that share their top-k, `read` once for each of its layers. All rows come back in the order
of the top-k tokens, so the three give the same bits to attention.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from .. import layout
from ..config import PoolConfig
from ..errors import sentence
from .custom_ops import Primitives
from .gather import SparseGather
from .memory import zeros_parameter

MODES = ("resident", "offload", "avsg")


class KvCodec(nn.Cell):
    """Rows between the float32 of CPU arithmetic and the dtype of the KV; on Ascend rows stay as they are.

    MindSpore's CPU has no gather, matmul or bit cast for bfloat16: such a cache is an int16 Parameter of
    the same bytes, and a row is read through the table of the 65,536 values.
    """

    def __init__(self, kv_dtype: str) -> None:
        super().__init__()
        self.on_cpu = ms.get_context("device_target") == "CPU"
        self.dtype = ms.bfloat16 if kv_dtype == "bfloat16" else ms.float16
        self.by_table = self.on_cpu and kv_dtype == "bfloat16"
        self.cache_dtype = np.dtype(np.int16 if kv_dtype == "bfloat16" else np.float16)
        values = (
            (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32) if self.by_table else np.zeros(1)
        )
        self.values = ms.Tensor(values.astype(np.float32))

    def encode(self, rows):
        """float32 rows in the dtype of the KV, to the nearest even."""
        return ops.cast(rows, self.dtype)

    def decode(self, rows):
        """Rows of a cache as float32 (CPU)."""
        if self.by_table:
            return ops.gather(self.values, ops.bitwise_and(ops.cast(rows, ms.int32), 0xFFFF), 0)
        return ops.cast(rows, ms.float32) if self.on_cpu else rows


class PagedCache(nn.Cell):
    """A paged cache on the device, [num_blocks, block_size, items]: the indexer's keys, or a layer's KV if
    resident."""

    def __init__(self, shape: tuple[int, int], items: tuple[int, ...], codec: KvCodec, name: str) -> None:
        super().__init__()
        self.block_size = shape[1]
        self.caches = ms.ParameterTuple(
            [zeros_parameter((*shape, n), codec.cache_dtype, f"{name}_{i}") for i, n in enumerate(items)]
        )
        self.primitives = Primitives(PoolConfig(1, 64, 8), len(items))  # a store needs no pool
        self.registered = self.primitives.tensor(host_kv=tuple(self.caches))

    def store(self, new_rows, positions, entries, block_table):
        """Writes rows [T, items] of each payload where block_table says."""
        self.primitives.store(self.registered, positions, entries, block_table, *new_rows, *self.caches)

    def read(self, tokens, block_table):
        """Rows [B, Q, K, items] of each payload for tokens int32 [B, Q, K]; a negative token reads token
        0."""
        tokens = ops.maximum(tokens, 0)
        shape = tokens.shape
        flat = tokens.reshape((shape[0], -1))
        blocks = ops.gather_elements(block_table, 1, flat // self.block_size)
        at = ops.stack((blocks, flat % self.block_size), axis=-1).reshape((*shape, 2))
        return tuple([ops.gather_nd(cache, at) for cache in self.caches])


class Resident(nn.Cell):
    """Every row on the device: nothing is copied, and memory grows with the context."""

    def __init__(
        self, items: tuple[int, ...], num_layers: int, shape: tuple[int, int], codec: KvCodec
    ) -> None:
        super().__init__()
        self.layers = nn.CellList([PagedCache(shape, items, codec, f"kv_{i}") for i in range(num_layers)])
        self.nothing = ms.Tensor(np.zeros(2, np.int32))
        self.codec = codec

    def select(self, topk_tokens, step):
        """topk_tokens int32 [B, Q, K], padding last; returns what `read` needs."""
        return (topk_tokens,)

    def read(self, plan, layer, new_rows, step):
        """Stores the step's rows, new_rows float32 [B*Q, items] per payload; returns the selected rows per
        payload [B, Q, K, items] in the cache's dtype, and load_counters int32 [2]."""
        encoded = tuple([self.codec.encode(rows) for rows in new_rows])
        self.layers[layer].store(encoded, step[5], step[6], step[4])
        return self.layers[layer].read(plan[0], step[4]), self.nothing


class Offload(nn.Cell):
    """Every row on the host: all selected rows are copied in each step, hit or not."""

    def __init__(
        self,
        items: tuple[int, ...],
        num_layers: int,
        shape: tuple[int, int],
        codec: KvCodec,
        pool: PoolConfig,
    ) -> None:
        super().__init__()
        self.num_queries, self.top_k = pool.num_queries, pool.top_k
        slots = -(-pool.top_k // layout.SLOT_MULTIPLE) * layout.SLOT_MULTIPLE
        self.num_slots = slots
        self.codec = codec
        host = make_host(items, num_layers, shape, codec)
        self.copies = SparseGather(PoolConfig(pool.num_rows * pool.num_queries, slots, pool.top_k), host)

    def select(self, topk_tokens, step):
        """A plan that misses every token: each query is an entry of its own, and its tokens take slots 0,
        1, ..."""
        tokens = topk_tokens.reshape((-1, self.top_k))
        lines = tokens.shape[0]
        misses = ops.reduce_sum(ops.cast(tokens >= 0, ms.int32), 1)
        each = ops.arange(self.top_k).astype(ms.int32)
        slots = ops.zeros((lines, self.top_k), ms.int32) + each
        rows = ops.arange(lines).astype(ms.int32)
        unused = ops.zeros((lines,), ms.int32)
        table = ops.repeat_interleave(step[4], topk_tokens.shape[1], 0)
        plan = (slots, tokens, slots, misses, unused, rows, unused)
        return plan, table, rows.reshape((-1, 1)) * self.num_slots + each, topk_tokens.shape

    def read(self, plan, layer, new_rows, step):
        """Stores the step's rows, then copies; otherwise as Resident.read."""
        encoded = tuple([self.codec.encode(rows) for rows in new_rows])
        self.copies.store(encoded, step[5], step[6], step[4], layer)
        counters = self.copies.load(plan[0], plan[1], None, layer)
        shape = plan[3]
        rows = [ops.gather(kv, plan[2], 0).reshape((*shape, -1)) for kv in self.copies.layer_device_kv(layer)]
        return tuple(rows), counters


class Pooled(nn.Cell):
    """Every row on the host and S slots a request on the device: only the misses are copied."""

    def __init__(
        self,
        items: tuple[int, ...],
        num_layers: int,
        shape: tuple[int, int],
        codec: KvCodec,
        pool: PoolConfig,
        library: object = None,
    ) -> None:
        super().__init__()
        self.num_slots = pool.num_slots
        self.codec = codec
        self.pool = SparseGather(pool, make_host(items, num_layers, shape, codec), library=library)

    def select(self, topk_tokens, step):
        """One match for the group; the slots become places in device_kv."""
        plan = self.pool.match(topk_tokens, step[0], step[1], step[2], step[3])
        first = ops.maximum(step[3], 0).reshape((-1, 1, 1)) * self.num_slots
        return plan, ops.maximum(plan[0], 0) + first

    def read(self, plan, layer, new_rows, step):
        """Copies the misses, this step's rows straight from the device; otherwise as Resident.read."""
        batch = plan[1].shape[:2]
        # Encoded last: MindSpore's CPU cannot reshape bfloat16 in a graph.
        fresh = tuple([self.codec.encode(rows.reshape((*batch, -1))) for rows in new_rows])
        encoded = tuple([self.codec.encode(rows) for rows in new_rows])
        counters = self.pool.load(plan[0], step[4], fresh, layer)
        self.pool.store(encoded, step[5], step[6], step[4], layer)
        rows = [ops.gather(kv, plan[1], 0) for kv in self.pool.layer_device_kv(layer)]
        return tuple(rows), counters


def make_host(
    items: tuple[int, ...], num_layers: int, shape: tuple[int, int], codec: KvCodec
) -> list[list[np.ndarray]]:
    """Zeroed host_kv[layer][payload] of [num_blocks, block_size, items]."""
    from .. import host_alloc

    return [[host_alloc((*shape, n), codec.cache_dtype) for n in items] for _ in range(num_layers)]


def make_storage(
    mode: str,
    items: tuple[int, ...],
    num_layers: int,
    shape: tuple[int, int],
    codec: KvCodec,
    pool: PoolConfig,
    library: object = None,
) -> nn.Cell:
    """The storage called `mode` for one group of layers.

    items: items of each payload's row. shape: (num_blocks, block_size) of the paged KV. pool: sizes;
    `resident` uses none of them, `offload` its rows, queries and top_k. library: as for SparseGather, used
    by `avsg`. A step is the tuple (verified_lens, seq_lens, leases, rows, block_table, positions, entries):
    int32 [B] four times, [B, max_blocks], and the token and batch entry of each new row, [B*Q] each (entry
    -1: not stored).
    """
    if mode == "resident":
        return Resident(items, num_layers, shape, codec)
    if mode == "offload":
        return Offload(items, num_layers, shape, codec, pool)
    if mode == "avsg":
        return Pooled(items, num_layers, shape, codec, pool, library)
    raise ValueError(sentence("mode", repr(mode), " or ".join(MODES), "choose one of the three"))
