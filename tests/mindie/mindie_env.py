# SPDX-License-Identifier: Apache-2.0
"""MindIE-LLM's Python classes on a CPU: native modules faked, the torch_npu operators from ops_cpu, one rank.

MINDIE_LLM_HOME names the folder that holds `mindie_llm` (a source tree or the installed wheel's parent).
Without it, and without an importable mindie_llm, tests that need the real classes skip.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

import pytest

NATIVE_MODULES = (
    "torch_npu",
    "torch_npu._C",
    "torch_npu._C._distributed_c10d",
    "acl",
    "numba",
    "numba.core",
    "llm_datadist",
    "_cpu_logits_handler",
    "atb_llm",
    "atb_llm.utils",
    "atb_llm.utils.env",
    "atb_llm.utils.initial",
    "mindie_llm.connector.common.model_execute_data_pb2",  # made from a .proto file by MindIE's own build
)
HOW_TO_GET_IT = (
    "needs MindIE-LLM: git clone https://github.com/Ascend/MindIE-LLM and set MINDIE_LLM_HOME to that folder "
    "(and pip install torch transformers psutil)"
)


class _Module(types.ModuleType):
    """A native module that is not on this machine: any attribute is a mock, so that `import` and
    decorators work."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


def source_root() -> Path | None:
    """The folder to put on sys.path, None when mindie_llm is importable already; pytest.skip when there is
    none."""
    home = os.environ.get("MINDIE_LLM_HOME")
    if home:
        if not (Path(home) / "mindie_llm").is_dir():
            pytest.fail(f"MINDIE_LLM_HOME is {home}, which holds no mindie_llm: name the folder above it.")
        return Path(home).resolve()
    if importlib.util.find_spec("mindie_llm") is None:
        pytest.skip(HOW_TO_GET_IT)
    return None


def set_up() -> types.ModuleType:
    """Makes mindie_llm importable with CPU operators and one rank; returns the torch module. Skips without
    it."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
    for needed in ("transformers", "psutil"):
        pytest.importorskip(needed, reason=f"needs {needed}, which MindIE-LLM imports: pip install {needed}")
    torch.set_num_threads(1)  # tensors are small, and threads that wait for each other take longer
    root = source_root()
    if "mindie_llm.runtime" not in sys.modules:
        if root is not None and str(root) not in sys.path:
            sys.path.insert(0, str(root))
        os.environ.setdefault("MINDIE_LLM_HOME_PATH", str(root or Path.cwd()))
        os.environ["MINDIE_LOG_TO_FILE"] = "0"
        for name in NATIVE_MODULES:
            if name not in sys.modules:
                sys.modules[name] = _Module(name)
        if not hasattr(torch, "npu"):
            torch.npu = MagicMock(name="torch.npu")
            torch.Tensor.npu = lambda tensor: tensor
        sys.modules["acl"].rt.get_mem_info = lambda _: (1 << 34, 1 << 35, 0)  # free, total, status
        sys.modules["numba"].njit = lambda function=None, **_: function or (lambda decorated: decorated)
        sys.modules["acl"].get_soc_name = lambda: "Ascend910B3"
        import ops_cpu

        for name, function in ops_cpu.OPERATORS.items():
            setattr(sys.modules["torch_npu"], name, function)
    from mindie_llm.runtime.layers.linear import linear
    from mindie_llm.runtime.utils.distributed import set_parallel_info_manager

    linear.dist = types.SimpleNamespace(all_reduce=lambda *_, **__: None)  # a sum over one rank
    set_parallel_info_manager(one_rank())
    return torch


class _OneRank:
    """A parallel info manager of one rank without any group."""

    rank = 0
    local_rank = 0
    world_size = 1
    is_distribution_enabled = False

    def __init__(self) -> None:
        from mindie_llm.runtime.utils.distributed.parallel_info_manager import ParallelInfo, ParallelType

        for kind in ParallelType:
            setattr(self, kind.value, ParallelInfo(group_size=1, num_group=1, current_group_id=0, rank=0))
        self.word_embed_tp = self.attn_tp  # as ParallelInfoManager has it

    def get(self, kind: str) -> object:
        return getattr(self, getattr(kind, "value", kind))

    def __getattr__(self, name: str) -> object:
        if name.startswith("has_"):  # has_dp() and so on
            return lambda: False
        raise AttributeError(name)


def one_rank() -> _OneRank:
    return _OneRank()
