# SPDX-License-Identifier: Apache-2.0
"""GLM-5.x over MindIE's deepseek_v3 model: four small subclasses (imports mindie_llm)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mindie_llm.runtime.layers.linear.linear import RowParallelLinear
from mindie_llm.runtime.models.deepseek_v3 import deepseek_v3 as stock
from mindie_llm.runtime.utils.distributed import get_parallel_info_manager

from ...errors import sentence
from .groups import SHARED, indexer_types, layer_groups
from .share import share_topk

_INDEX_NORM_EPS = 1e-6  # transformers' glm_moe_dsa: not the model's rms_norm_eps


class GlmMoeDsaAttention(stock.DeepseekV3Attention):
    """The stock attention with o_proj sized by v, no mlapo, and an indexer in the layers that have one.

    enable_mlapo and input_layernorm are not used: npu_mla_process has DeepSeek's sizes, wants W8A8 weights.
    """

    def __init__(self, config, prefix: str, quant_config, enable_mlapo=False, input_layernorm=None) -> None:
        super().__init__(config, prefix, quant_config, enable_mlapo=False, input_layernorm=None)
        self.o_proj = RowParallelLinear(
            self.num_heads * self.v_head_dim,
            self.hidden_size,
            bias=False,
            quant_config=quant_config,
            prefix=f"{prefix}.o_proj",
            parallel_info=get_parallel_info_manager().attn_tp,
            reduce_results=True,
        )
        self.attn.impl.o_proj = self.o_proj
        if layer_kind(config, prefix) == SHARED:
            self.indexer = self.attn.impl.indexer = None
        else:
            _refuse_quantized_indexer(quant_config, prefix)
            self.indexer.k_norm.variance_epsilon = _INDEX_NORM_EPS
            if getattr(config, "indexer_rope_interleave", True):
                _load_half_rotated(self.indexer)


class GlmMoeDsaLayer(stock.DeepseekV3Layer):
    """The stock layer on the path without mlapo: its input norm runs in decode too."""

    def __init__(self, config, prefix: str, layer_idx: int, quant_config) -> None:
        super().__init__(config, prefix, layer_idx, quant_config)
        self.enable_mlapo = False


class GlmMoeDsaModel(stock.DeepseekV3Model):
    """The stock model whose layers of a group share the top-k of the group's first layer."""

    def __init__(self, config, prefix: str, quant_config) -> None:
        super().__init__(config, prefix, quant_config)
        for group in layer_groups(config):
            share_topk([self.layers[layer].self_attn.attn.impl for layer in group])


class GlmMoeDsaForCausalLM(stock.DeepseekV3ForCausalLM):
    """What the router gives as model class."""

    def __init__(self, mindie_llm_config) -> None:
        with replaced(GlmMoeDsaAttention, GlmMoeDsaLayer, GlmMoeDsaModel):
            super().__init__(mindie_llm_config)


@contextmanager
def replaced(*classes: type) -> Iterator[None]:
    """Each class in the place of its first base, under that base's name in that base's module, while a model
    is built there; RuntimeError: the name is bound to something else, so this is not the MindIE we know."""
    bases = [cls.__bases__[0] for cls in classes]
    for base in bases:
        if getattr(sys.modules[base.__module__], base.__name__, None) is not base:
            what, remedy = f"{base.__module__}.{base.__name__}", "use a MindIE-LLM version that AVSG knows"
            raise RuntimeError(sentence(what, "another object", "the class of that name", remedy))
    try:
        for base, cls in zip(bases, classes):
            setattr(sys.modules[base.__module__], base.__name__, cls)
        yield
    finally:
        for base in bases:
            setattr(sys.modules[base.__module__], base.__name__, base)


def layer_kind(config, prefix: str) -> str:
    """Type of the attention named "model.layers.N.self_attn", full or shared; a draft layer is full."""
    layer, types = int(prefix.split(".layers.")[1].split(".")[0]), indexer_types(config)
    return types[layer] if layer < len(types) else "full"


def _refuse_quantized_indexer(quant_config, prefix: str) -> None:
    described = getattr(quant_config, "quant_descs", {})
    for name in ("wq_b", "wk", "weights_proj"):
        kind = described.get(f"{prefix}.indexer.{name}.weight", "FLOAT")
        if kind != "FLOAT":
            what, allowed = f"quantization of {prefix}.indexer.{name}", "FLOAT (integers lack their scale)"
            raise ValueError(sentence(what, kind, allowed, "quantize the model without its indexers"))


def _load_half_rotated(indexer) -> None:
    """Lets the loader reorder an interleaved indexer's rotary rows to halves, in queries and keys alike.

    MindIE rotates halves (pairs i, i + 32), GLM's indexer pairs (2i, 2i + 1): with both sides' rows in the
    order 0, 2, .., 1, 3, .. the rotation is the same one and every score q . k too.
    """
    rope, head = indexer.rope_head_dim, indexer.head_dim
    order = torch.cat((torch.arange(0, rope, 2), torch.arange(1, rope, 2), torch.arange(rope, head)))
    heads = torch.arange(indexer.n_heads)[:, None] * head
    reorder_on_load(indexer.wq_b.weight, (heads + order.to(heads.device)).reshape(-1))
    for parameter in (indexer.wk.weight, indexer.k_norm.weight, indexer.k_norm.bias):
        reorder_on_load(parameter, order)


def reorder_on_load(parameter, order: torch.Tensor) -> None:
    """parameter's row i becomes row order[i] of what the loader reads."""
    load = parameter.weight_loader

    def load_reordered(target, weight, *args, **kwargs):
        return load(target, weight[order.to(weight.device)], *args, **kwargs)

    parameter.weight_loader = load_reordered
