# SPDX-License-Identifier: Apache-2.0
"""GLM-5.x (glm_moe_dsa) in MindIE-LLM: layer groups (plain Python), and router, config and model over
MindIE's deepseek_v3 classes (modules router, config, model, draft: they import mindie_llm)."""

from .groups import indexer_types, layer_groups

__all__ = ["indexer_types", "layer_groups"]
