# SPDX-License-Identifier: Apache-2.0
"""A model of three of MindIE's real DSA attention layers with residuals, small enough for a CPU."""

from __future__ import annotations

import torch
from torch import nn

NUM_LAYERS, HIDDEN, VOCABULARY = 3, 48, 97
NOPE_DIM, ROPE_DIM, INDEX_DIM = 32, 16, 32


def tiny_config(num_layers: int = NUM_LAYERS):
    from mindie_llm.runtime.models.deepseek_v3.config_deepseek_v3 import DeepseekV3Config

    rope = {"beta_fast": 32, "beta_slow": 1, "factor": 4, "mscale": 0.7, "mscale_all_dim": 0.7}
    config = DeepseekV3Config.from_dict(
        {
            "q_lora_rank": 32,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": ROPE_DIM,
            "kv_lora_rank": NOPE_DIM,
            "v_head_dim": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "num_hidden_layers": num_layers,
            "topk_method": "greedy",
            "topk_group": 1,
            "n_group": 1,
            "num_attention_heads": 2,
            "hidden_size": HIDDEN,
            "rope_scaling": {**rope, "original_max_position_embeddings": 512, "type": "yarn"},
        }
    )
    config.torch_dtype, config.rms_norm_eps = torch.bfloat16, 1e-6
    config.index_n_heads, config.index_head_dim = 2, INDEX_DIM
    return config


class TinyModel(nn.Module):
    """Attention layers with residuals; what the runner asks of a model."""

    def __init__(self, config, layers: list[int], shared: dict[int, int]) -> None:
        from mindie_llm.runtime.models.deepseek_v3.deepseek_v3 import DeepseekV3Attention

        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(
            DeepseekV3Attention(config, f"model.layers.{layer}.self_attn", None, enable_mlapo=False)
            for layer in layers
        )
        generator = torch.Generator().manual_seed(7)
        for name, weight in self.named_parameters():
            if not name.endswith(("layernorm.weight", "k_norm.weight")):
                weight.data = torch.randn(weight.shape, generator=generator).to(weight.dtype) / 4
        for layer in self.layers:
            layer.attn.impl.process_weights_after_loading()
        for layer, owner in shared.items():
            self._share_indexer(self.layers[layer].attn.impl, self.layers[owner].attn.impl)

    @staticmethod
    def _share_indexer(impl, owner) -> None:
        """A GLM-5.2 `shared` layer: the owner's top-k of the same forward."""
        select = owner.indexer_select

        def keep(*args: object) -> torch.Tensor:
            owner.kept = select(*args)
            return owner.kept

        owner.indexer_select = keep
        impl.indexer_select = lambda *_: owner.kept

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(input_ids)
        for layer in self.layers:
            layer.rope_emb.set_cos_sin_indexed_cache(positions)
            hidden = hidden + layer(hidden)
        return hidden

    def maybe_gather_and_unpad_for_flashcomm(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden

    maybe_pad_and_gather_cross_dp_and_unpad = compute_logits = maybe_gather_and_unpad_for_flashcomm
