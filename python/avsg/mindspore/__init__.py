# SPDX-License-Identifier: Apache-2.0
"""AVSG in MindSpore: SparseGather in PyNative and graph mode, and models that decode through it.

Importing this package loads nothing; each name loads MindSpore on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .compiled import compiled as compiled
    from .configs import DEEPSEEK_V3_2 as DEEPSEEK_V3_2
    from .configs import GLM_5_2 as GLM_5_2
    from .configs import TINY as TINY
    from .configs import DsaConfig as DsaConfig
    from .custom_ops import LOCK as LOCK
    from .custom_ops import Primitives as Primitives
    from .gather import SparseGather as SparseGather
    from .gather import sparse_gather as sparse_gather
    from .glm_dsa import DsaModel as DsaModel
    from .memory import host_parameter as host_parameter

_MODULE_OF = {
    "DEEPSEEK_V3_2": "configs",
    "DsaConfig": "configs",
    "DsaModel": "glm_dsa",
    "GLM_5_2": "configs",
    "TINY": "configs",
    "Primitives": "custom_ops",
    "SparseGather": "gather",
    "LOCK": "custom_ops",
    "compiled": "compiled",
    "host_parameter": "memory",
    "sparse_gather": "gather",
}
__all__ = list(_MODULE_OF)
__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
