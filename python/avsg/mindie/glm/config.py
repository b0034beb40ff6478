# SPDX-License-Identifier: Apache-2.0
"""GlmMoeDsaConfig: MindIE's deepseek_v3 config with the sizes of GLM-5.x (imports mindie_llm)."""

from __future__ import annotations

import copy
from typing import Any

from mindie_llm.runtime.models.deepseek_v3.config_deepseek_v3 import DeepseekV3Config, DeepSeekV3RopeScaling

from .checks import check_config, check_rope, rope_parameters

_INDEXER = ("index_n_heads", "index_head_dim", "index_topk")  # the stock class overwrites them
_STOCK_CAPS = {"q_lora_rank": 1536, "qk_nope_head_dim": 128}  # of DeepseekV3Config.validate: too low for GLM


class GlmMoeDsaConfig(DeepseekV3Config):
    """config.json of glm_moe_dsa as the config that MindIE's deepseek_v3 classes read.

    Differs from the stock class in four places: the indexer's sizes come from the file, the rotary embedding
    is unscaled (YaRN with factor 1: the same to float32 rounding), `dtype` counts as `torch_dtype`, and
    `validate` knows GLM's sizes.
    """

    model_type: str = "glm_moe_dsa"

    def __init__(self, **kwargs: Any) -> None:
        check_rope(kwargs)
        theta, dtype = rope_parameters(kwargs)["rope_theta"], kwargs.get("torch_dtype", kwargs.get("dtype"))
        super().__init__(**{"moe_layer_freq": 1, **kwargs, "rope_theta": theta, "torch_dtype": dtype})
        for name in _INDEXER:
            setattr(self, name, kwargs.get(name))

    def validate(self) -> None:
        """ValueError with a sentence (check_config), then the stock checks with its two caps lifted."""
        check_config(self)
        clone = copy.copy(self)
        for name, cap in _STOCK_CAPS.items():
            setattr(clone, name, min(getattr(self, name), cap))
        super(GlmMoeDsaConfig, clone).validate()

    def _create_rope_scaling(
        self, rope_scaling_dict: dict[str, Any], rope_theta: float, max_position_embeddings: int | None
    ) -> DeepSeekV3RopeScaling:
        unscaled = {"factor": 1.0, "original_max_position_embeddings": max_position_embeddings}
        return super()._create_rope_scaling(unscaled, rope_theta, max_position_embeddings)
