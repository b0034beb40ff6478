# SPDX-License-Identifier: Apache-2.0
"""Sizes of the models that glm_dsa can decode: GLM-5.2, DeepSeek-V3.2, and a tiny one for tests and
examples."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import PoolConfig
from ..errors import sentence


@dataclass(frozen=True)
class DsaConfig:
    """A decoder whose attention reads the top_k tokens that a lightning indexer selects (immutable).

    q_lora_rank, kv_lora_rank: ranks of the query and KV compression. nope_head_dim, rope_head_dim,
    v_head_dim: per-head sizes without and with rotary embedding, and of the value. index_heads,
    index_head_dim: the indexer's. full_layers: the layers with an indexer, 0 the first of them; a layer
    between two of them shares the indexer, and the pool's row, of the one before. None: every layer has its
    own. A token's KV is one row of kv_lora_rank and one of rope_head_dim items of kv_dtype, "bfloat16" or
    "float16".
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    q_lora_rank: int
    nope_head_dim: int
    v_head_dim: int
    index_heads: int
    top_k: int
    full_layers: tuple[int, ...] | None = None
    kv_lora_rank: int = 512
    rope_head_dim: int = 64
    index_head_dim: int = 128
    index_rope_interleaved: bool = True
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6
    kv_dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        if self.kv_dtype not in ("bfloat16", "float16"):
            raise ValueError(
                sentence("kv_dtype", repr(self.kv_dtype), "bfloat16 or float16", "choose one of the two")
            )
        starts = self.full_layers
        if starts is not None and (
            list(starts) != sorted({0, *starts}) or not starts or starts[-1] >= self.num_layers
        ):
            raise ValueError(
                sentence(
                    "full_layers",
                    starts,
                    f"rising layers from 0 to {self.num_layers - 1}",
                    "name the layers that have an indexer",
                )
            )

    @property
    def row_items(self) -> tuple[int, int]:
        """Items of the two payloads of a token: the compressed KV and the rotary key."""
        return self.kv_lora_rank, self.rope_head_dim

    @property
    def groups(self) -> list[range]:
        """Layers that share an indexer, in order; the first of each group is the one that has it."""
        starts = self.full_layers or range(self.num_layers)
        return [range(*pair) for pair in zip(starts, [*starts[1:], self.num_layers])]

    def pool(self, num_requests: int, num_slots: int, num_queries: int) -> PoolConfig:
        """The pool of one group: a row for each request."""
        return PoolConfig(num_requests, num_slots, self.top_k, num_queries)


GLM_5_2 = DsaConfig(
    num_layers=78,
    hidden_size=6144,
    num_heads=64,
    q_lora_rank=2048,
    nope_head_dim=192,
    v_head_dim=256,
    index_heads=32,
    top_k=2048,
    full_layers=(0, 1, *range(2, 78, 4)),
    rope_theta=8_000_000.0,
    rms_norm_eps=1e-5,
)
DEEPSEEK_V3_2 = DsaConfig(
    num_layers=61,
    hidden_size=7168,
    num_heads=128,
    q_lora_rank=1536,
    nope_head_dim=128,
    v_head_dim=128,
    index_heads=64,
    top_k=2048,
    index_rope_interleaved=False,
)
TINY = DsaConfig(
    num_layers=4,
    hidden_size=64,
    num_heads=4,
    q_lora_rank=32,
    nope_head_dim=16,
    v_head_dim=16,
    index_heads=2,
    top_k=32,
    kv_lora_rank=32,
    rope_head_dim=8,
    index_head_dim=16,
)
