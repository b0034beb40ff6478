# SPDX-License-Identifier: Apache-2.0
"""The router of glm_moe_dsa and its way into MindIE's `get_router_ins` (imports mindie_llm when called)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from .checks import MODEL_TYPE


def wrap_get_router_ins(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """MindIE's `get_router_ins(load_config)` that knows glm_moe_dsa; any other model type goes to stock."""

    @wraps(stock)
    def get_router_ins(load_config: Any) -> Any:
        from mindie_llm.runtime.utils.helpers.safety.file import check_file_permission
        from mindie_llm.runtime.utils.helpers.safety.hf import safe_get_config_dict

        check_file_permission(load_config.model_name_or_path)
        config_dict = safe_get_config_dict(load_config.model_name_or_path)
        if str(config_dict.get("model_type")).lower() != MODEL_TYPE:
            return stock(load_config)
        config_dict["model_type"] = MODEL_TYPE
        return router_cls()(config_dict, load_config)

    return get_router_ins


@cache
def router_cls() -> type:
    """GlmMoeDsaRouter, a BaseRouter that names our config, model and draft classes.

    Tokenizer, chat template and reasoning parser are MindIE's defaults. Tool calls are not parsed: MindIE has
    no processor for GLM's, warns, and returns the text.
    """
    from mindie_llm.runtime.models.base.router import BaseRouter

    class GlmMoeDsaRouter(BaseRouter):
        """Router class of glm_moe_dsa."""

        def _get_config_cls(self) -> type:
            from .config import GlmMoeDsaConfig

            return GlmMoeDsaConfig

        def _get_model_cls(self) -> type:
            from .model import GlmMoeDsaForCausalLM

            return GlmMoeDsaForCausalLM

        def _get_draft_cls(self) -> type:
            from .draft import GlmMoeDsaMTP

            return GlmMoeDsaMTP

    return GlmMoeDsaRouter
