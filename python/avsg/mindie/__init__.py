# SPDX-License-Identifier: Apache-2.0
"""MindIE-LLM's DSA models (DeepSeek-V3.2, GLM-5.x) decoding through AVSG: see README.md in this folder.

Importing this package loads neither torch nor MindIE-LLM; each name is loaded on first use. register() is in
avsg.mindie.register: a name of this package would be taken by that module when it is imported.
"""

from __future__ import annotations

from ..lazy import lazy_names

_MODULE_OF = {
    "EngineFacts": "settings",
    "HostKv": "host_kv",
    "Metrics": "metrics",
    "RequestRows": "request_rows",
    "Settings": "settings",
    "parse_settings": "settings",
    "size_kv": "sizing",
}
__all__ = list(_MODULE_OF)
__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
