# SPDX-License-Identifier: Apache-2.0
"""Reads a llama-architecture GGUF file: sizes, float32 weights, vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class ModelShape:
    """Sizes of the model. A row holds the keys, or the values, of all KV heads of one token of one layer."""

    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    feed_forward: int
    max_tokens: int
    rope_base: float
    norm_epsilon: float

    @property
    def head_size(self) -> int:
        return self.hidden // self.num_heads

    @property
    def row_size(self) -> int:
        """Items of a key row, and of a value row."""
        return self.num_kv_heads * self.head_size


class WeightsFile:
    """One GGUF file: sizes, metadata and, on demand, float32 arrays."""

    def __init__(self, path: Path) -> None:
        import gguf

        self._dequantize = gguf.quants.dequantize
        self._reader = gguf.GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise ValueError(
                f"{path.name} holds a model of architecture {architecture!r}, but only llama is read: "
                "use the weights of SmolLM2."
            )
        self.shape = ModelShape(
            num_layers=self.field("llama.block_count"),
            hidden=self.field("llama.embedding_length"),
            num_heads=self.field("llama.attention.head_count"),
            num_kv_heads=self.field("llama.attention.head_count_kv"),
            feed_forward=self.field("llama.feed_forward_length"),
            max_tokens=self.field("llama.context_length"),
            rope_base=self.field("llama.rope.freq_base"),
            norm_epsilon=self.field("llama.attention.layer_norm_rms_epsilon"),
        )

    def field(self, name: str) -> object:
        """Value of a metadata field; KeyError if the file lacks it."""
        return self._reader.fields[name].contents()

    def embedding(self) -> np.ndarray:
        """[vocabulary, hidden], also the output projection (tied)."""
        return self._tensor("token_embd.weight")

    def final_norm(self) -> np.ndarray:
        """[hidden]"""
        return self._tensor("output_norm.weight")

    def layer(self, index: int) -> dict[str, np.ndarray]:
        """Matrices [out, in]: qkv (query, key, value heads), output, gate_up, down; norms [hidden]."""
        shape, name = self.shape, f"blk.{index}."
        query = self._halves(self._tensor(name + "attn_q.weight"), shape.num_heads)
        key = self._halves(self._tensor(name + "attn_k.weight"), shape.num_kv_heads)
        gate, up = self._tensor(name + "ffn_gate.weight"), self._tensor(name + "ffn_up.weight")
        return {
            "attention_norm": self._tensor(name + "attn_norm.weight"),
            "qkv": np.concatenate([query, key, self._tensor(name + "attn_v.weight")]),
            "output": self._tensor(name + "attn_output.weight"),
            "mlp_norm": self._tensor(name + "ffn_norm.weight"),
            "gate_up": np.concatenate([gate, up]),
            "down": self._tensor(name + "ffn_down.weight"),
        }

    def _tensor(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return np.ascontiguousarray(self._dequantize(tensor.data, tensor.tensor_type), np.float32)

    def _halves(self, weight: np.ndarray, num_heads: int) -> np.ndarray:
        """GGUF interleaves the two rotary halves of each head; ours are one after the other."""
        pairs = weight.reshape(num_heads, -1, 2, weight.shape[1])
        return pairs.swapaxes(1, 2).reshape(weight.shape)
