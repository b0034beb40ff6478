# SPDX-License-Identifier: Apache-2.0
"""AVSG in torch: the operators torch.ops.avsg.match, load, step and store, and TorchPool, which calls them.

`python -m avsg.torch_ops` compiles the extension for the installed torch, once. The operators write into
tensors of the caller, wait for nothing, allocate nothing and look at no value, so a captured graph replays
them at the same addresses. Shapes are static. Schemas: framework/torch/ops.cpp. Importing this package
imports torch.
"""

from .extension import build
from .library import host_zeros, load, register_host, unregister_host
from .pool import TorchPlan, TorchPool

__all__ = ["TorchPlan", "TorchPool", "build", "host_zeros", "load", "register_host", "unregister_host"]
