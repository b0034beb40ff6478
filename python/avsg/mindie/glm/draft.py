# SPDX-License-Identifier: Apache-2.0
"""GLM-5.x's draft layer over MindIE's deepseek_v3_mtp, which fixes its index at 61 (imports mindie_llm)."""

from __future__ import annotations

from mindie_llm.runtime.models.deepseek_v3 import deepseek_v3_mtp
from torch import nn

from .model import GlmMoeDsaAttention, replaced


class GlmMoeDsaMtpLayer(deepseek_v3_mtp.DeepseekV3MtpLayer):
    """The draft layer: index num_hidden_layers, an indexer of its own, weights that a file may leave out.

    Float checkpoints of GLM-5.x have neither embed_tokens nor shared_head.head in this layer; the loader then
    takes the name in a module's prefix, so these two fall back to the main model's.
    """

    def __init__(self, config, prefix: str, layer_idx: int, quant_config) -> None:
        super().__init__(config, prefix, config.num_hidden_layers, quant_config)
        self.enable_mlapo = False
        self.embed_tokens.prefix = f"{prefix}.embed_tokens"
        self.shared_head.head.prefix = "lm_head"


class GlmMoeDsaMtpModel(deepseek_v3_mtp.DeepseekV3MtpModel):
    """The stock draft model with its layer under the index that the checkpoint names."""

    def __init__(self, config, prefix: str, quant_config) -> None:
        super().__init__(config, prefix, quant_config)
        (layer,) = self.layers.values()
        self.layer_idx = layer.layer_idx
        self.layers = nn.ModuleDict({str(layer.layer_idx): layer})


class GlmMoeDsaMTP(deepseek_v3_mtp.DeepseekV3MTP):
    """What the router gives as draft class."""

    def __init__(self, mindie_llm_config) -> None:
        with replaced(GlmMoeDsaAttention, GlmMoeDsaMtpLayer, GlmMoeDsaMtpModel):
            super().__init__(mindie_llm_config)
