# SPDX-License-Identifier: Apache-2.0
"""A tiny random model of SmolLM2's architecture, and the same forward pass in numpy as its oracle."""

from __future__ import annotations

import numpy as np

import avsg
from avsg.mindspore.smollm2.decode import Decoded, decode
from avsg.mindspore.smollm2.model import STEP_LINES, Decoder, Selector
from avsg.mindspore.smollm2.run import use_cpu
from avsg.mindspore.smollm2.storage import Offload, Pooled, Resident
from avsg.mindspore.smollm2.weights import ModelShape

SHAPE = ModelShape(
    num_layers=2,
    hidden=48,
    num_heads=6,
    num_kv_heads=2,
    feed_forward=64,
    max_tokens=1024,
    rope_base=10000.0,
    norm_epsilon=1e-5,
)
VOCABULARY = 40


class TinyWeights:
    """Random weights with the interface of WeightsFile."""

    shape = SHAPE

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._embedding = self._matrix(VOCABULARY, SHAPE.hidden)
        self._final_norm = self._matrix(SHAPE.hidden) + 1
        self._layers = [self._layer() for _ in range(SHAPE.num_layers)]

    def _matrix(self, *shape: int) -> np.ndarray:
        return self._rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    def _layer(self) -> dict[str, np.ndarray]:
        s = self.shape
        return {
            "attention_norm": self._matrix(s.hidden) + 1,
            "qkv": self._matrix(s.hidden + 2 * s.row_size, s.hidden) * 2,
            "output": self._matrix(s.hidden, s.hidden) * 2,
            "mlp_norm": self._matrix(s.hidden) + 1,
            "gate_up": self._matrix(2 * s.feed_forward, s.hidden),
            "down": self._matrix(s.hidden, s.feed_forward) * 2,
        }

    def embedding(self) -> np.ndarray:
        return self._embedding

    def final_norm(self) -> np.ndarray:
        return self._final_norm

    def layer(self, index: int) -> dict[str, np.ndarray]:
        return self._layers[index]


class TinyRun:
    """A tiny model and a random prompt that repeats itself, so that n-gram drafts are found."""

    def __init__(self, seed: int, prompt_len: int, num_tokens: int, top_k: int, num_slots: int) -> None:
        use_cpu()
        self.seed, self.num_tokens, self.top_k = seed, num_tokens, top_k
        self.weights = TinyWeights(seed)
        self.model = Decoder(self.weights)
        rng = np.random.default_rng(seed)
        phrase = rng.integers(0, VOCABULARY, 30).tolist()
        self.prompt = (phrase * (prompt_len // len(phrase) + 1))[:prompt_len]
        self.max_tokens = prompt_len + num_tokens + STEP_LINES
        self.config = avsg.PoolConfig(1, num_slots, top_k, num_queries=min(num_slots // top_k, STEP_LINES))
        self.kv = self.model.prefill(self.prompt[:-1])

    def storage(self, mode: str, library: str = "cpu") -> Resident | Offload | Pooled:
        if mode == "resident":
            return Resident(SHAPE, self.kv, self.max_tokens)
        if mode == "offload":
            return Offload(SHAPE, self.kv, self.max_tokens, self.top_k, library)
        return Pooled(SHAPE, self.kv, self.max_tokens, self.config, library)

    def decode(self, storage: Resident | Offload | Pooled, drafts: int = 0) -> Decoded:
        selector = Selector(SHAPE, self.top_k, self.max_tokens)
        for layer, keys in enumerate(self.kv[0]):
            selector.append(layer, 0, keys)
        return decode(self.model, selector, storage, self.prompt, self.num_tokens, drafts=drafts)


def oracle(weights: TinyWeights, tokens: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Dense forward pass in float64: logits [n, vocabulary], keys and values [num_layers, n, row_size]."""
    s, n = SHAPE, len(tokens)
    group, all_keys, all_values = s.num_heads // s.num_kv_heads, [], []

    def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + s.norm_epsilon) * weight

    angles = np.arange(n)[:, None] * s.rope_base ** (-np.arange(0, s.head_size, 2) / s.head_size)
    turn = np.exp(1j * angles)[:, None]

    def rotate(x: np.ndarray) -> np.ndarray:
        low, high = np.split(x.reshape(n, -1, s.head_size), 2, axis=-1)
        turned = (low + 1j * high) * turn
        return np.concatenate([turned.real, turned.imag], -1)

    x = weights.embedding().astype(np.float64)[tokens]
    for layer in map(weights.layer, range(s.num_layers)):
        qkv = norm(x, layer["attention_norm"]) @ layer["qkv"].T.astype(np.float64)
        queries, keys, values = np.split(qkv, [s.hidden, s.hidden + s.row_size], axis=1)
        queries, keys, values = rotate(queries), rotate(keys), values.reshape(n, -1, s.head_size)
        all_keys.append(keys.reshape(n, -1))
        all_values.append(values.reshape(n, -1))
        keys, values = np.repeat(keys, group, 1), np.repeat(values, group, 1)
        scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(s.head_size)
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", weight, values).reshape(n, -1) @ layer["output"].T
        gate, up = np.split(norm(x, layer["mlp_norm"]) @ layer["gate_up"].T, 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ layer["down"].T
    logits = norm(x, weights.final_norm()) @ weights.embedding().T
    return logits, np.stack(all_keys), np.stack(all_values)
