# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 as a MindSpore decoder whose decode attention reads the exact top-k rows of its own scores.

Prefill is dense. A decode step works layer by layer: project, select the top_k tokens (`Selector`), let the
storage fetch their rows (storage.py), attend to exactly these rows in ascending token order, and go on.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from .weights import ModelShape, WeightsFile

# Lines of every decode matrix product, used or not. Matrix libraries round products of one line and of
# several differently; with a fixed number a token's values do not depend on how many share its step.
STEP_LINES = 4
PREFILL_CHUNK = 500
MASKED = -1e30


class RowSource(Protocol):
    """What a decode step asks of the KV storage."""

    def read(
        self, layer: int, position: int, keys: np.ndarray, values: np.ndarray, topk_tokens: np.ndarray
    ): ...


class RmsNorm(nn.Cell):
    """x / sqrt(mean(x^2) + epsilon) * weight over the last axis."""

    def __init__(self, weight: np.ndarray, epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = Parameter(Tensor.from_numpy(weight)), epsilon

    def construct(self, x: Tensor) -> Tensor:
        return x * ops.rsqrt(ops.mean(x * x, -1, True) + self.epsilon) * self.weight


class DecoderLayer(nn.Cell):
    """All of one layer but its attention. x [lines, hidden]."""

    def __init__(self, shape: ModelShape, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.shape = shape
        self.attention_norm = RmsNorm(weights["attention_norm"], shape.norm_epsilon)
        self.mlp_norm = RmsNorm(weights["mlp_norm"], shape.norm_epsilon)
        for name in ("qkv", "output", "gate_up", "down"):
            setattr(self, name, Parameter(Tensor.from_numpy(weights[name]), name=name))
        self.matmul = ops.MatMul(transpose_b=True)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [lines, num_heads, head_size], rotated keys and values [lines, row_size]."""
        shape = self.shape
        qkv = self.matmul(self.attention_norm(x), self.qkv)
        rotated_size = shape.hidden + shape.row_size
        heads = qkv[:, :rotated_size].reshape(x.shape[0], -1, shape.head_size)
        low, high = heads[..., : shape.head_size // 2], heads[..., shape.head_size // 2 :]
        rotated = ops.concat((low * cos - high * sin, high * cos + low * sin), -1)
        keys = rotated[:, shape.num_heads :].reshape(x.shape[0], shape.row_size)
        return rotated[:, : shape.num_heads], keys, qkv[:, rotated_size:]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Output projection of attended [lines, hidden], feed-forward, both residuals."""
        x = x + self.matmul(attended, self.output)
        gate_up = self.matmul(self.mlp_norm(x), self.gate_up)
        gate, up = gate_up[:, : self.shape.feed_forward], gate_up[:, self.shape.feed_forward :]
        return x + self.matmul(ops.silu(gate) * up, self.down)


class Selector:
    """Selects the top_k tokens of a query by attention probability, summed over the heads.

    It keeps every layer's keys, whatever the storage of the KV is, as a trained indexer keeps its own
    (smaller) key cache on the device. keys float32 [num_layers, max_tokens, row_size].
    """

    def __init__(self, shape: ModelShape, top_k: int, max_tokens: int) -> None:
        self.top_k = top_k
        self.keys = np.zeros((shape.num_layers, max_tokens, shape.row_size), np.float32)
        self._tensors = [Tensor.from_numpy(keys) for keys in self.keys]  # the same memory
        self._matmul, self._softmax = ops.MatMul(transpose_b=True), ops.Softmax(-1)

    def append(self, layer: int, position: int, keys: np.ndarray) -> None:
        """Keeps the keys [n, row_size] of tokens position..position+n-1."""
        self.keys[layer, position : position + len(keys)] = keys

    def select(self, layer: int, spread_query: Tensor, num_tokens: int) -> np.ndarray:
        """The best of tokens 0..num_tokens-1, int32 [at most top_k], for a query [num_heads, row_size]."""
        scores = self._softmax(self._matmul(spread_query, self._tensors[layer][:num_tokens])).sum(0)
        return ops.topk(scores, min(self.top_k, num_tokens))[1].asnumpy().astype(np.int32)


class Decoder(nn.Cell):
    """The model. Weights are float32; MindSpore's CPU backend lacks most bfloat16 operations."""

    def __init__(self, weights: WeightsFile) -> None:
        super().__init__()
        self.shape = shape = weights.shape
        self.embedding = Parameter(Tensor.from_numpy(weights.embedding()), name="embedding")
        self.layers = nn.CellList([DecoderLayer(shape, weights.layer(i)) for i in range(shape.num_layers)])
        self.final_norm = RmsNorm(weights.final_norm(), shape.norm_epsilon)
        frequencies = shape.rope_base ** (-np.arange(0, shape.head_size, 2) / shape.head_size)
        angles = np.arange(shape.max_tokens)[:, None, None] * frequencies
        self.cos, self.sin = (
            Tensor(np.cos(angles).astype(np.float32)),
            Tensor(np.sin(angles).astype(np.float32)),
        )
        group = np.arange(shape.num_heads) // (shape.num_heads // shape.num_kv_heads)
        own = np.repeat(np.eye(shape.num_kv_heads, dtype=np.float32)[group], shape.head_size, axis=1)
        self.own_block = Tensor(own)  # [num_heads, row_size]: 1 where a head's KV head lies in a row
        self.scaled_block = Tensor(own * np.float32(shape.head_size**-0.5))
        self.matmul, self.transposed = ops.MatMul(), ops.MatMul(transpose_b=True)
        self.batch_matmul, self.batch_transposed = ops.BatchMatMul(), ops.BatchMatMul(transpose_b=True)
        self.softmax = ops.Softmax(-1)

    def step(self, tokens: list[int], position: int, selector: Selector, storage: RowSource) -> np.ndarray:
        """Logits float32 [queries, vocabulary] of 1..STEP_LINES tokens at position, position + 1, ..."""
        count = len(tokens)
        lines = np.array([*tokens, *[tokens[0]] * (STEP_LINES - count)], np.int32)  # unused lines are dropped
        x = ops.gather(self.embedding, Tensor(lines), 0)
        cos, sin = self.cos[position : position + STEP_LINES], self.sin[position : position + STEP_LINES]
        for index, layer in enumerate(self.layers):
            queries, keys, values = layer.project(x, cos, sin)
            spread = ops.tile(queries, (1, 1, self.shape.num_kv_heads)) * self.scaled_block
            new_keys, new_values = keys.asnumpy()[:count], values.asnumpy()[:count]
            selector.append(index, position, new_keys)
            topk = np.full((count, selector.top_k), -1, np.int32)
            for g in range(count):
                selected = selector.select(index, spread[g], position + g + 1)
                topk[g, : len(selected)] = selected
            rows = storage.read(index, position, new_keys, new_values, topk)
            attended = [self._attend(spread[g], *rows[g]) for g in range(count)]
            attended += attended[:1] * (STEP_LINES - count)
            x = layer.finish(x, ops.stack(attended))
        return self.transposed(self.final_norm(x), self.embedding).asnumpy()[:count]

    def _attend(self, spread_query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention [hidden] of one query [num_heads, row_size] over rows [n, row_size]."""
        mixed = self.matmul(self.softmax(self.transposed(spread_query, keys)), values) * self.own_block
        return mixed.reshape(self.shape.num_heads, self.shape.num_kv_heads, -1).sum(1).reshape(-1)

    def prefill(self, tokens: list[int], progress=lambda count: None) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values float32 [num_layers, len(tokens), row_size] of a prompt; attention is dense."""
        shape = self.shape
        caches = np.empty((2, shape.num_layers, len(tokens), shape.row_size), np.float32)
        for first in range(0, len(tokens), PREFILL_CHUNK):
            chunk = np.array(tokens[first : first + PREFILL_CHUNK], np.int32)
            last = first + len(chunk)
            x = ops.gather(self.embedding, Tensor(chunk), 0)
            cos, sin = self.cos[first:last], self.sin[first:last]
            mask = np.triu(np.full((len(chunk), last), MASKED, np.float32), first + 1)
            heads_in_group = shape.num_heads // shape.num_kv_heads
            mask = Tensor(np.tile(mask, (shape.num_kv_heads, heads_in_group, 1)))
            for index, layer in enumerate(self.layers):
                queries, keys, values = layer.project(x, cos, sin)
                caches[0, index, first:last], caches[1, index, first:last] = keys.asnumpy(), values.asnumpy()
                x = layer.finish(x, self._attend_dense(queries, *caches[:, index, :last], mask))
            progress(len(chunk))
        return caches[0], caches[1]

    def _attend_dense(self, queries: Tensor, keys: np.ndarray, values: np.ndarray, mask: Tensor) -> Tensor:
        """Causal attention of a chunk: queries [lines, heads, head_size], keys and values [n, row_size]."""
        shape, lines = self.shape, queries.shape[0]
        heads = (
            (queries * shape.head_size**-0.5)
            .transpose(1, 0, 2)
            .reshape(shape.num_kv_heads, -1, shape.head_size)
        )
        keys = Tensor(np.ascontiguousarray(keys.reshape(len(keys), shape.num_kv_heads, -1).swapaxes(0, 1)))
        values = Tensor(
            np.ascontiguousarray(values.reshape(len(values), shape.num_kv_heads, -1).swapaxes(0, 1))
        )
        mixed = self.batch_matmul(self.softmax(self.batch_transposed(heads, keys) + mask), values)
        return mixed.reshape(shape.num_heads, lines, -1).transpose(1, 0, 2).reshape(lines, shape.hidden)
