# SPDX-License-Identifier: Apache-2.0
"""What a glm_moe_dsa config.json must say so that MindIE's deepseek_v3 classes and AVSG can serve it."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import sentence
from .groups import layer_groups

MODEL_TYPE = "glm_moe_dsa"
# Values that MindIE's deepseek_v3 code, or an NPU operator that it calls, fixes: the only one, and why.
_FIXED = {
    "index_topk": (2048, "MindIE's indexer asks for 2,048 tokens whatever the config says"),
    "index_head_dim": (128, "npu_lightning_indexer takes 128 only"),
    "kv_lora_rank": (512, "npu_sparse_flash_attention takes 512 only"),
    "qk_rope_head_dim": (64, "npu_sparse_flash_attention takes 64 only"),
    "n_shared_experts": (1, "MindIE's shared expert has the size of one"),
    "topk_method": ("noaux_tc", "MindIE's gate has no other"),
}
_FIXED_OR_ABSENT = {
    "scoring_func": ("sigmoid", "MindIE's gate has no other"),
    "norm_topk_prob": (True, "MindIE always normalises the experts' weights"),
    "attention_bias": (False, "MindIE's projections have no bias"),
    "tie_word_embeddings": (False, "MindIE loads lm_head on its own"),
    "rope_interleave": (True, "MindIE rotates the attention's heads interleaved"),
    "hidden_act": ("silu", "MindIE's experts have no other"),
    "quantization_config": (None, "MindIE loads float weights, or ModelSlim's"),
}
_RANGES = {
    "q_lora_rank": (1, 65536),
    "qk_nope_head_dim": (1, 1024),
    "v_head_dim": (1, 1024),
    "index_n_heads": (1, 64),
    "n_routed_experts": (2, 256),
    "num_hidden_layers": (1, 1000),
}
_PUBLISHED = "use the published config.json of GLM-5.2, or another engine for this model"


def check_config(config: object) -> None:
    """ValueError for the first key of a glm_moe_dsa config that these classes would serve wrongly.

    config: config.json as a mapping, or an object with its keys as attributes.
    """
    for name, (low, high) in _RANGES.items():
        value = get(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(sentence(name, repr(value), f"{low} to {high}", _PUBLISHED))
    for table, may_be_absent in ((_FIXED, False), (_FIXED_OR_ABSENT, True)):
        for name, (only, reason) in table.items():
            value = get(config, name)
            if value != only and not (may_be_absent and value is None):
                raise ValueError(sentence(name, repr(value), f"{only!r} ({reason})", _PUBLISHED))
    layer_groups(config)
    check_rope(config)


def check_rope(config: object) -> None:
    """ValueError for scaled rotary embeddings or a missing theta: GLM-5.x has plain ones."""
    parameters = rope_parameters(config)
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise ValueError(sentence("rope_type", repr(kind), "'default' (no scaling)", _PUBLISHED))
    theta = parameters.get("rope_theta")
    if isinstance(theta, bool) or not isinstance(theta, (int, float)) or theta <= 0:
        raise ValueError(sentence("rope_theta", repr(theta), "a positive number", _PUBLISHED))


def rope_parameters(config: object) -> dict[str, object]:
    """The rotary settings: `rope_parameters` (transformers 5), else `rope_scaling` and `rope_theta` (4)."""
    parameters = get(config, "rope_parameters")
    if isinstance(parameters, Mapping):
        return dict(parameters)
    scaling = get(config, "rope_scaling")
    return {**(scaling if isinstance(scaling, Mapping) else {}), "rope_theta": get(config, "rope_theta")}


def get(config: object, name: str) -> object:
    """config[name] of a mapping, config.name of an object; None where it is absent."""
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
