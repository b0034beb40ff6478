# SPDX-License-Identifier: Apache-2.0
"""Decode attention of GLM-5.x and DeepSeek-V3.2 on a pool: how a model uses the operator.

One step of a group of layers that share an indexer reads as

topk_tokens = indexer(...)                      which tokens each query reads plan =
storage.select(topk_tokens, step)        once for the group: match rows = storage.read(plan, layer,
new_rows, ..)  once for each layer: load, store, gather attention over rows [B, Q, K, ...]              MLA
with absorbed projections

with the KV where `mode` says (kv_storage.py). Left out, because they do not touch the pool: mixture of
experts (a dense MLP stands for it), tensor parallelism, quantised weights, the indexer's Hadamard rotation
and FP8, YaRN. Arithmetic is float32 on a CPU.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from .configs import DsaConfig
from .kv_storage import KvCodec, PagedCache, make_storage

_NEVER = -1e30  # a score that no softmax and no top-k will choose


class Weights:
    """Random weights in a fixed order, so that two models of one seed are equal."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> ms.Parameter:
        """A Parameter with variance 1 / fan-in."""
        values = self.rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else shape[0])
        return ms.Parameter(ms.Tensor(values.astype(np.float32)), requires_grad=False)


class RmsNorm(nn.Cell):
    """x / rms(x) * weight over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor(np.ones(size, np.float32)), requires_grad=False)
        self.eps = eps

    def construct(self, x):
        return x * ops.rsqrt(ops.mean(x * x, -1, True) + self.eps) * self.weight


def rotate(x, angles, interleaved):
    """Rotary embedding: x [..., d] by angles [..., d/2], pairs (2i, 2i+1) if interleaved, else (i, i +
    d/2)."""
    half = x.shape[-1] // 2
    cos, sin = ops.cos(angles), ops.sin(angles)
    if interleaved:
        pairs = x.reshape((*x.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        return ops.stack((a * cos - b * sin, a * sin + b * cos), axis=-1).reshape(x.shape)
    a, b = x[..., :half], x[..., half:]
    return ops.concat((a * cos - b * sin, a * sin + b * cos), axis=-1)


class Indexer(nn.Cell):
    """The lightning indexer: scores every token by a small key of its own and selects top_k."""

    def __init__(self, config: DsaConfig, shape: tuple[int, int], codec: KvCodec, weights: Weights) -> None:
        super().__init__()
        self.heads, self.dim, self.top_k = config.index_heads, config.index_head_dim, config.top_k
        self.rope, self.interleaved = config.rope_head_dim, config.index_rope_interleaved
        self.w_query = weights(config.q_lora_rank, self.heads * self.dim)
        self.w_key = weights(config.hidden_size, self.dim)
        self.w_head = weights(config.hidden_size, self.heads)
        self.scale = (self.heads * self.dim) ** -0.5
        self.key_norm = nn.LayerNorm((self.dim,))
        self.codec = codec
        self.cache = PagedCache(shape, (self.dim,), codec, "index_keys")

    def construct(self, x, query_latent, angles, positions, step):
        """x [B, Q, H], query_latent [B, Q, q_lora], positions int32 [B, Q]: topk_tokens int32 [B, Q, K].

        Tokens ascend and padding (-1) is last: a fixed order of rows gives fixed sums.
        """
        batch, queries = positions.shape
        key = self._rotated(self.key_norm(ops.matmul(x, self.w_key)), angles)
        self.cache.store((self.codec.encode(key.reshape((-1, self.dim))),), step[5], step[6], step[4])
        query = ops.matmul(query_latent, self.w_query).reshape((batch, queries, self.heads, self.dim))
        query = self._rotated(query, angles.expand_dims(2)).reshape((batch, queries * self.heads, self.dim))
        num_tokens = step[4].shape[1] * self.cache.block_size
        token = ops.arange(num_tokens).astype(ms.int32)
        every = ops.zeros((batch, 1, num_tokens), ms.int32) + token
        keys = self.codec.decode(self.cache.read(every, step[4])[0].reshape((batch, num_tokens, self.dim)))
        scores = ops.relu(ops.bmm(query, keys.swapaxes(1, 2))).reshape(
            (batch, queries, self.heads, num_tokens)
        )
        head = ops.matmul(x, self.w_head).expand_dims(-1) * self.scale
        scores = ops.reduce_sum(scores * head, 2)
        scores = ops.where(token <= positions.expand_dims(-1), scores, ops.full_like(scores, _NEVER))
        values, chosen = ops.topk(scores, self.top_k, dim=-1)
        chosen = ops.where(values > _NEVER, ops.cast(chosen, ms.int32), num_tokens)
        ascending = ops.sort(chosen, axis=-1)[0]
        return ops.cast(ops.where(ascending < num_tokens, ascending, -1), ms.int32)

    def _rotated(self, x, angles):
        return ops.concat(
            (rotate(x[..., : self.rope], angles, self.interleaved), x[..., self.rope :]), axis=-1
        )


class Mla(nn.Cell):
    """Multi-head latent attention with absorbed projections: every head reads the same two rows of a
    token."""

    def __init__(self, config: DsaConfig, weights: Weights) -> None:
        super().__init__()
        heads, latent, rope = config.num_heads, config.kv_lora_rank, config.rope_head_dim
        nope, value, eps = config.nope_head_dim, config.v_head_dim, config.rms_norm_eps
        self.heads, self.nope, self.rope, self.latent, self.value = heads, nope, rope, latent, value
        self.w_query_down = weights(config.hidden_size, config.q_lora_rank)
        self.query_norm = RmsNorm(config.q_lora_rank, eps)
        self.w_query_up = weights(config.q_lora_rank, heads * (nope + rope))
        self.w_kv_down = weights(config.hidden_size, latent + rope)
        self.kv_norm = RmsNorm(latent, eps)
        self.w_key_up = weights(heads, nope, latent)
        self.w_value_up = weights(heads, latent, value)
        self.w_out = weights(heads * value, config.hidden_size)
        self.scale = (nope + rope) ** -0.5

    def query_latent(self, x):
        """The compressed query [B, Q, q_lora], which the indexer reads too."""
        return self.query_norm(ops.matmul(x, self.w_query_down))

    def new_rows(self, x, angles):
        """The two payload rows of the step's own tokens: [B*Q, kv_lora] and [B*Q, rope]."""
        both = ops.matmul(x, self.w_kv_down)
        latent = self.kv_norm(both[..., : self.latent])
        key = rotate(both[..., self.latent :], angles, True)
        return latent.reshape((-1, self.latent)), key.reshape((-1, self.rope))

    def construct(self, query_latent, angles, latent_rows, rope_rows, is_token):
        """Attention of each query over its rows [B, Q, K, kv_lora] and [B, Q, K, rope]; returns [B, Q, H]."""
        batch, queries, top_k = is_token.shape
        lines = batch * queries
        query = ops.matmul(query_latent, self.w_query_up).reshape((lines, self.heads, self.nope + self.rope))
        nope, rope = query[..., : self.nope], query[..., self.nope :]
        absorbed = ops.bmm(nope.swapaxes(0, 1), self.w_key_up).swapaxes(0, 1)
        rope = rotate(rope, angles.reshape((lines, 1, -1)), True)
        keep = is_token.reshape((lines, top_k, 1))
        # A padded place may hold any row; zeros make its bytes irrelevant.
        latent_rows = latent_rows.reshape((lines, top_k, self.latent))
        latent_rows = ops.where(keep, latent_rows, ops.zeros_like(latent_rows))
        rope_rows = rope_rows.reshape((lines, top_k, self.rope))
        rope_rows = ops.where(keep, rope_rows, ops.zeros_like(rope_rows))
        scores = ops.bmm(absorbed, latent_rows.swapaxes(1, 2)) + ops.bmm(rope, rope_rows.swapaxes(1, 2))
        scores = ops.where(keep.swapaxes(1, 2), scores * self.scale, ops.full_like(scores, _NEVER))
        mixed = ops.bmm(ops.softmax(scores, axis=-1), latent_rows)
        values = ops.bmm(mixed.swapaxes(0, 1), self.w_value_up).swapaxes(0, 1)
        return ops.matmul(values.reshape((batch, queries, self.heads * self.value)), self.w_out)


class DsaLayer(nn.Cell):
    """One decoder layer: MLA and a dense MLP, each with its norm and residual."""

    def __init__(self, config: DsaConfig, weights: Weights) -> None:
        super().__init__()
        self.attention_norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.mla = Mla(config, weights)
        self.mlp_norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.w_up = weights(config.hidden_size, 4 * config.hidden_size)
        self.w_down = weights(4 * config.hidden_size, config.hidden_size)

    def mlp(self, x):
        """The MLP and its residual."""
        return x + ops.matmul(ops.silu(ops.matmul(self.mlp_norm(x), self.w_up)), self.w_down)


class DsaGroup(nn.Cell):
    """The layers that share one indexer: one match, and a copy for each layer.

    config: sizes. num_layers: of this group. mode: "resident", "offload" or "avsg". shape: (num_blocks,
    block_size). num_requests, num_slots, num_queries: the pool's rows, S and queries. library: as for
    SparseGather.
    """

    def __init__(
        self,
        config: DsaConfig,
        num_layers,
        mode,
        shape,
        num_requests,
        num_slots,
        num_queries,
        weights,
        library=None,
    ) -> None:
        super().__init__()
        self.codec = KvCodec(config.kv_dtype)
        self.layers = nn.CellList([DsaLayer(config, weights) for _ in range(num_layers)])
        self.indexer = Indexer(config, shape, self.codec, weights)
        pool = config.pool(num_requests, num_slots, num_queries)
        self.storage = make_storage(mode, config.row_items, num_layers, shape, self.codec, pool, library)

    def construct(self, x, angles, positions, step):
        """x [B, Q, H] after the group's layers, and the int32 [2] sum of load_counters."""
        is_token, plan = None, None
        copied = ops.zeros((2,), ms.int32)
        for i, layer in enumerate(self.layers):
            hidden = layer.attention_norm(x)
            query_latent = layer.mla.query_latent(hidden)
            if i == 0:
                topk_tokens = self.indexer(hidden, query_latent, angles, positions, step)
                is_token = topk_tokens >= 0
                plan = self.storage.select(topk_tokens, step)
            new_rows = layer.mla.new_rows(hidden, angles)
            rows, counters = self.storage.read(plan, i, new_rows, step)
            latent_rows, rope_rows = self.codec.decode(rows[0]), self.codec.decode(rows[1])
            x = layer.mlp(x + layer.mla(query_latent, angles, latent_rows, rope_rows, is_token))
            copied = copied + counters
        return x, copied


class DsaModel(nn.Cell):
    """A decoder of DsaGroups with embedding and head; random weights from a seed.

    config, mode, num_requests, num_slots, num_queries, library: as for DsaGroup; num_slots is unused unless
    mode is "avsg". shape: (num_blocks, block_size) of every paged cache; a block table line must reach over
    top_k tokens.
    """

    def __init__(
        self,
        config: DsaConfig,
        mode: str,
        *,
        vocab_size: int,
        shape: tuple[int, int],
        num_requests: int,
        num_slots: int,
        num_queries: int = 1,
        seed: int = 0,
        library: object = None,
    ) -> None:
        super().__init__()
        weights = Weights(seed)
        self.embedding = ms.Parameter(
            weights(vocab_size, config.hidden_size) * vocab_size**0.5, requires_grad=False
        )
        sizes = (mode, shape, num_requests, num_slots, num_queries, weights, library)
        self.groups = nn.CellList([DsaGroup(config, len(layers), *sizes) for layers in config.groups])
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.head = weights(config.hidden_size, vocab_size)
        exponents = np.arange(config.rope_head_dim // 2) * 2 / config.rope_head_dim
        self.frequencies = ms.Tensor((config.rope_theta**-exponents).astype(np.float32))

    def construct(self, token_ids, verified_lens, leases, rows, block_table):
        """One decode step: logits float32 [B, Q, vocab], and int32 [2] rows copied and bad blocks, all
        layers.

        token_ids int32 [B, Q]: a verified token, then the drafts. verified_lens int32 [B]: V, tokens that
        are final once this step has run, so the first of token_ids has position V - 1. leases, rows int32
        [B], block_table int32 [B, max_blocks]: as for the pool; an entry of row -1 is inactive and its
        logits mean nothing.
        """
        batch, queries = token_ids.shape
        offsets = ops.arange(queries).astype(ms.int32)
        positions = (verified_lens - 1).reshape((-1, 1)) + offsets
        entry = ops.where(rows >= 0, ops.arange(batch).astype(ms.int32), -1).astype(ms.int32)
        entries = (entry.reshape((-1, 1)) + offsets * 0).reshape((-1,))
        seq_lens = verified_lens + (queries - 1)
        step = (verified_lens, seq_lens, leases, rows, block_table, positions.reshape((-1,)), entries)
        angles = positions.astype(ms.float32).expand_dims(-1) * self.frequencies
        x = ops.gather(self.embedding, token_ids, 0)
        copied = ops.zeros((2,), ms.int32)
        for group in self.groups:
            x, counters = group(x, angles, positions, step)
            copied = copied + counters
        return ops.matmul(self.norm(x), self.head), copied
