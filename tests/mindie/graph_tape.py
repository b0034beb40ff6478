# SPDX-License-Identifier: Apache-2.0
"""A graph on a CPU: records the operators of a run, replays them on the same tensors, refuses what a graph
cannot hold.

Replay calls every recorded operator with the recorded tensors and puts its results where they were, so a
replay depends on the contents of static tensors only, as a captured NPU graph does. Python code does not
run again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HOST_READS = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero")  # results that the host waits for


class _Tape(TorchDispatchMode):
    def __init__(self, calls: list) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        if name in HOST_READS:
            raise RuntimeError(f"operator {name} reads device values on the host, which a graph cannot hold")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._calls.append((func, args, kwargs, result))
        return result


def _storages(values: object) -> set[int]:
    return {
        leaf.untyped_storage().data_ptr() for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)
    }


class Graph:
    """Stands for torch.npu.NPUGraph. replays: how often; the static tensors it reads are those of the
    capture."""

    def __init__(self) -> None:
        self._calls: list = []
        self.replays = 0

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        with _Tape(self._calls):
            yield

    def replay(self) -> None:
        self.replays += 1
        for func, args, kwargs, recorded in self._calls:
            result = func(*args, **kwargs)
            inputs = _storages((args, kwargs))
            for old, new in zip(tree_leaves(recorded), tree_leaves(result)):
                if isinstance(old, torch.Tensor) and old.untyped_storage().data_ptr() not in inputs:
                    old.copy_(new)

    def update(self, **_: object) -> None:
        """MindIE hands host lengths of other attention kernels here; nothing recorded uses them."""

    def addresses(self) -> set[int]:
        """Storages of every tensor that the capture saw."""
        return set().union(*(_storages((args, kwargs, result)) for _, args, kwargs, result in self._calls))


def install(npu: object) -> None:
    """Puts Graph in the place of NPUGraph and of its capture context on a faked torch.npu."""
    npu.NPUGraph = Graph
    npu.graph = lambda npu_graph, **_: npu_graph.capture()
