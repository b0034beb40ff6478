# SPDX-License-Identifier: Apache-2.0
"""Memory of one rank that serves a DSA model with its KV in host memory: the formula, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from .. import layout
from ..config import PoolConfig
from ..errors import sentence
from ..plan import plan_shapes
from .glm import layer_groups
from .settings import EngineFacts, Settings

GIB = 1 << 30
LANDING_BLOCKS = 16  # KV blocks that a decoder node pulls from a prefill node at a time
_LANDING_ALIGNMENT = 2 << 20  # bytes that MindIE adds to each tensor that KV is pulled into


@dataclass(frozen=True)
class ModelShape:
    """What a model's KV takes (immutable).

    num_layers: offloaded layers, without the draft layer. num_groups: layers with an indexer of their own
    (GLM-5.2: `full` layers), each the first of a group that shares its top-k. num_draft_layers: layers that
    MindIE adds to the cache when it speculates. A token's KV in a layer is kv_lora_rank (nope) and
    rope_head_dim items, its indexer key index_head_dim, of element_bytes each.
    """

    name: str
    num_layers: int
    num_groups: int
    top_k: int = 2048
    num_draft_layers: int = 1
    kv_lora_rank: int = 512
    rope_head_dim: int = 64
    index_head_dim: int = 128
    element_bytes: int = 2

    @classmethod
    def of(cls, config: object, element_bytes: int = 2) -> ModelShape:
        """The shape that a config.json describes: a mapping, or an object with its keys as attributes."""

        def get(key: str) -> object:
            return config[key] if isinstance(config, Mapping) else getattr(config, key)

        groups = layer_groups(config)
        return cls(
            name=str(get("model_type")),
            num_layers=sum(map(len, groups)),
            num_groups=len(groups),
            top_k=get("index_topk"),
            kv_lora_rank=get("kv_lora_rank"),
            rope_head_dim=get("qk_rope_head_dim"),
            index_head_dim=get("index_head_dim"),
            element_bytes=element_bytes,
        )

    @property
    def row_bytes(self) -> int:
        """nope and rope of one token in one layer."""
        return (self.kv_lora_rank + self.rope_head_dim) * self.element_bytes

    @property
    def index_bytes(self) -> int:
        """The indexer's key of one token in one layer."""
        return self.index_head_dim * self.element_bytes


# GLM-5.2: indexers in layers 0, 1, 2, 6, 10, ..., 74 of 78. DeepSeek-V3.2: in each of 61.
MODELS = {
    "glm-5.2": ModelShape("glm-5.2", num_layers=78, num_groups=21),
    "deepseek-v3.2": ModelShape("deepseek-v3.2", num_layers=61, num_groups=61),
}

CANN_WORKSPACE_BYTES = 16 << 20  # GetLibApiWorkSpaceSize on Atlas A2 and A3, beside the kernel's own part


@dataclass(frozen=True)
class KvSizing:
    """Memory of one rank, in bytes where the name says so (immutable); KV is whole on each rank.

    With G groups of L layers in all, D draft layers (only when num_queries > 1, as MindIE does), B tokens a
    block, R rows, S slots, Q queries, r = row_bytes and x = index_bytes of the shape:

    host_block_bytes  = L * B * r                            nope and rope of the offloaded layers
    hbm_block_bytes   = B * (G * x + D * (r + x))            indexer keys, and the draft layer's whole KV
    stock_block_bytes = (L + D) * B * (r + x)                MindIE gives every layer an indexer cache
    device_kv_bytes   = L * R * S * r                        the device buffers
    state_bytes       = G * R * state_stride_bytes(S)        SPEC.md "State of one row"
    plan_bytes        = G * (a step's plan for R requests)   slots, miss_tokens, miss_slots, counters, ...
    staging_bytes     = staging_tokens * r                   one buffer, used by every layer in turn: a step's
                        new rows (R * Q), or the prompts of a prefill step, each in whole blocks
    workspace_bytes   = CANN_WORKSPACE_BYTES + WORKSPACE_BYTES, as avsg_sizes says on an NPU; for all groups
    landing_bytes     = (L + D) * (16 * B * (r + x) + 3 * 2 MiB)    on a decoder node, else 0: the buffer that
                        KV of a prefill node is pulled into, three aligned tensors a layer
    blocks_needed     = requests * ceil(context / B)

    Assumed: the adapter's allocator leaves `shared` layers without an indexer cache, so they cost no HBM a
    block (stock MindIE, which has no shared layers, allocates one for every layer). Not counted: weights,
    activations, graphs, a few MB of step tensors, and the rounding of allocators.
    """

    host_block_bytes: int
    hbm_block_bytes: int
    stock_block_bytes: int
    device_kv_bytes: int
    state_bytes: int
    plan_bytes: int
    staging_bytes: int
    workspace_bytes: int
    landing_bytes: int
    staging_tokens: int
    blocks_per_request: int
    blocks_needed: int

    @property
    def fixed_bytes(self) -> int:
        """HBM that does not grow with the number of blocks."""
        return (
            self.device_kv_bytes
            + self.state_bytes
            + self.plan_bytes
            + self.staging_bytes
            + self.workspace_bytes
            + self.landing_bytes
        )

    @property
    def hbm_bytes(self) -> int:
        """HBM for all requests at their full length."""
        return self.fixed_bytes + self.blocks_needed * self.hbm_block_bytes

    @property
    def host_bytes(self) -> int:
        """Host memory for all requests at their full length."""
        return self.blocks_needed * self.host_block_bytes

    @property
    def stock_hbm_bytes(self) -> int:
        """HBM for the same requests with all KV in HBM."""
        return self.blocks_needed * self.stock_block_bytes

    def num_blocks(
        self, *, hbm_bytes: int, host_bytes: int | None = None, fixed_allocated: bool = False
    ) -> int:
        """KV blocks that fit: every block takes hbm_block_bytes of HBM and host_block_bytes of host memory.

        hbm_bytes: HBM for KV and buffers; without the buffers if they are allocated already
        (fixed_allocated). host_bytes None: as many blocks as all requests at their full length need.
        ValueError: one request at its full length does not fit.
        """
        left = hbm_bytes - (0 if fixed_allocated else self.fixed_bytes)
        host_blocks = self.blocks_needed if host_bytes is None else host_bytes // self.host_block_bytes
        blocks = min(max(left, 0) // self.hbm_block_bytes, host_blocks)
        if blocks < self.blocks_per_request:
            needed = self.blocks_per_request
            hbm_needed, host_needed = (
                hbm_bytes - left + needed * self.hbm_block_bytes,
                needed * self.host_block_bytes,
            )
            raise ValueError(
                f"{_gib(hbm_bytes)} of HBM and {_gib(host_blocks * self.host_block_bytes)} of host memory "
                f"hold {blocks} KV blocks, but a request at its full length takes {needed}: give "
                f"{_gib(hbm_needed)} of HBM and {_gib(host_needed)} of host memory or more, lower the rows "
                "or slots, or serve shorter sequences."
            )
        return blocks


def size_kv(
    shape: ModelShape,
    *,
    requests: int,
    context: int,
    num_slots: int = 8192,
    num_queries: int = 1,
    rows: int | None = None,
    block_size: int = 128,
    max_prefill_tokens: int = 8192,
    max_prefill_requests: int = 50,
    landing_blocks: int = 0,
) -> KvSizing:
    """What `requests` sequences of `context` tokens take on one rank.

    rows: of each pool, as many as requests unless given. context counts the prompt, the output and the
    drafts. max_prefill_tokens and max_prefill_requests: of a prefill step; 0 on a node that only decodes.
    landing_blocks: pulled from a prefill node at a time. ValueError: sizes that PoolConfig refuses, or less
    than one request, token or block.
    """
    rows = requests if rows is None else rows
    for name, value in (("requests", requests), ("context", context), ("block_size", block_size)):
        if value < 1:
            raise ValueError(sentence(name, value, "1 or more", "count at least one"))
    if context > layout.MAX_TOKENS:
        raise ValueError(
            sentence("context", context, f"{layout.MAX_TOKENS} or less", "serve shorter sequences")
        )
    config = PoolConfig(rows, num_slots, shape.top_k, num_queries)
    drafts = shape.num_draft_layers if num_queries > 1 else 0
    row, index = shape.row_bytes, shape.index_bytes
    prompts = max_prefill_tokens + min(max_prefill_requests, max_prefill_tokens) * (block_size - 1)
    staging_tokens = -(-max(prompts, rows * num_queries) // block_size) * block_size
    plan_items = sum(map(prod, plan_shapes(rows, num_queries, shape.top_k).values()))
    per_request = -(-context // block_size)
    layers = shape.num_layers + drafts
    landing = layers * (landing_blocks * block_size * (row + index) + 3 * _LANDING_ALIGNMENT)
    return KvSizing(
        host_block_bytes=shape.num_layers * block_size * row,
        hbm_block_bytes=block_size * (shape.num_groups * index + drafts * (row + index)),
        stock_block_bytes=layers * block_size * (row + index),
        device_kv_bytes=shape.num_layers * rows * config.num_slots * row,
        state_bytes=shape.num_groups * rows * layout.state_stride_bytes(config.num_slots),
        plan_bytes=shape.num_groups * 4 * plan_items,
        staging_bytes=staging_tokens * row,
        workspace_bytes=CANN_WORKSPACE_BYTES + layout.WORKSPACE_BYTES,
        landing_bytes=landing if landing_blocks else 0,
        staging_tokens=staging_tokens,
        blocks_per_request=per_request,
        blocks_needed=requests * per_request,
    )


def size_rank(
    shape: ModelShape,
    engine: EngineFacts,
    settings: Settings,
    *,
    max_prefill_tokens: int,
    max_prefill_requests: int,
) -> KvSizing:
    """size_kv for what a rank of an engine serves at most; a decoder node never prefills.

    MindIE warms up with as many prompts as a decode step has requests, which may be more than a prefill step
    takes (Generator._get_request_lengths_by_dp).
    """
    decoder = engine.role == "decoder"
    return size_kv(
        shape,
        requests=engine.max_requests,
        context=engine.max_seq_len,
        num_slots=settings.slots,
        num_queries=engine.num_queries,
        rows=settings.rows,
        block_size=engine.block_size,
        max_prefill_tokens=0 if decoder else max_prefill_tokens,
        max_prefill_requests=max(max_prefill_requests, engine.max_requests),
        landing_blocks=LANDING_BLOCKS if decoder else 0,
    )


def sizing_table() -> list[str]:
    """The table of README.md, a Markdown line each: `python -m avsg.mindie.sizing` prints it."""
    lines = [
        "| model | context | requests | HBM, stock | HBM, AVSG | of it buffers | host memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, shape in MODELS.items():
        for context in (32, 64, 128):
            for requests in (8, 32):
                sizing = size_kv(shape, requests=requests, context=context * 1024)
                cells = (sizing.stock_hbm_bytes, sizing.hbm_bytes, sizing.fixed_bytes, sizing.host_bytes)
                texts = (name, f"{context}K", str(requests), *(f"{cell / GIB:.1f} GiB" for cell in cells))
                lines.append(f"| {' | '.join(texts)} |")
    return lines


def _gib(count: int) -> str:
    """Rounded up, so that what it says is enough."""
    return f"{-(-count * 100 // GIB) / 100:.2f} GiB"


if __name__ == "__main__":
    print("\n".join(sizing_table()))
