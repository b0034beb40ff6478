# SPDX-License-Identifier: Apache-2.0
"""SparseGather: a pool as a MindSpore Cell; sparse_gather: its step on Parameters of the caller."""

from __future__ import annotations

import os
from collections.abc import Sequence

import mindspore as ms
import numpy as np
from mindspore import nn

from .. import layout
from ..config import PoolConfig
from ..errors import sentence
from .custom_ops import Primitives, refuse_copy
from .memory import host_parameter, zeros_parameter


def sparse_gather(
    primitives,
    topk_tokens,
    verified_lens,
    seq_lens,
    leases,
    rows,
    block_table,
    state,
    host_kv,
    device_kv,
    fresh=None,
):
    """Match and load in one launch, on memory that the caller owns; works in PyNative and in ms.jit.

    primitives: a Primitives made outside of jit. topk_tokens int32 [B, Q, K]; verified_lens, seq_lens,
    leases, rows int32 [B]; block_table int32 [B, max_blocks], as in `Pool.step`. state: a whole Parameter,
    uint8 [num_rows, stride], zeroed once. host_kv, device_kv: tuples of whole Parameters [num_blocks,
    block_size, ...] and [num_rows * S, ...]. fresh: None or a tuple of [B, Q, ...]. Returns (slots,
    miss_tokens, miss_slots, num_misses, counters, rows, verified_lens, load_counters), int32, as in `Plan`.
    Errors: TypeError, ValueError; a state or device_kv that is a view or a plain tensor is refused, because
    its update would be lost.
    """
    if not isinstance(state, ms.Parameter):
        refuse_copy("state")
    for tensor in device_kv:
        if not isinstance(tensor, ms.Parameter):
            refuse_copy("device_kv")
    step = (primitives.unregistered, topk_tokens, verified_lens, seq_lens, leases, rows, block_table, state)
    if fresh is None:
        return primitives.step(*step, *host_kv, *device_kv)
    return primitives.step_fresh(*step, *host_kv, *device_kv, *fresh)


class SparseGather(nn.Cell):
    """The pool of a group of layers that share their top-k (SPEC.md); owns its state and device_kv.

    config: the sizes. host_kv: host_kv[layer][payload], numpy arrays (avsg.host_alloc) or Parameters
    [num_blocks, block_size, ...]; they are used in place. library, num_cores, check: as for Primitives;
    check=False skips the value checks and lets PyNative calls return before they have run.

    Works in PyNative, under ms.jit (capture_mode "ast") and in GRAPH_MODE, at static shapes. A plan is the
    tuple (slots, miss_tokens, miss_slots, num_misses, counters, rows, verified_lens) of `avsg.Plan`. Sparse
    attention reads `device_kv[row * S + slot]` after the load. Attributes: state, device_kv and host_kv,
    Parameters; payload p of layer i is device_kv[i * num_payloads + p].
    """

    def __init__(
        self,
        config: PoolConfig,
        host_kv: Sequence[Sequence[np.ndarray | ms.Parameter]],
        *,
        library: str | os.PathLike[str] | None = None,
        num_cores: int = 0,
        check: bool = True,
    ) -> None:
        super().__init__()
        layers = _layers(host_kv)
        self.config = config
        self.num_payloads = len(layers[0])
        self.num_layers = len(layers)
        self.primitives = Primitives(config, self.num_payloads, library, num_cores, check)
        stride = layout.state_stride_bytes(config.num_slots)
        self.state = zeros_parameter((config.num_rows, stride), np.uint8, "state")
        self.host_kv = ms.ParameterTuple(_named("host_kv", layers))
        self.device_kv = ms.ParameterTuple(_device_kv(config, layers))
        self.registered = ms.ParameterTuple(self._registered())

    def construct(self, topk_tokens, verified_lens, seq_lens, leases, rows, block_table, fresh=None):
        """Match and load of layer 0 in one launch, as `Pool.step`; returns (plan, load_counters).

        topk_tokens int32 [B, Q, K]; verified_lens, seq_lens, leases, rows int32 [B]; block_table int32 [B,
        max_blocks]; fresh: None or a tuple of [B, Q, ...], one per payload. load_counters int32 [2]: rows
        copied, bad blocks. Further layers of the group call `load` with the plan.
        """
        step = (
            self.registered[0],
            topk_tokens,
            verified_lens,
            seq_lens,
            leases,
            rows,
            block_table,
            self.state,
        )
        buffers = self._payloads(0)
        if fresh is None:
            outputs = self.primitives.step(*step, *buffers)
        else:
            outputs = self.primitives.step_fresh(*step, *buffers, *fresh)
        return outputs[:-1], outputs[-1]

    def match(self, topk_tokens, verified_lens, seq_lens, leases, rows):
        """Gives every valid token a slot, as `Pool.match`; returns the plan."""
        return self.primitives.match(
            self.registered[0], topk_tokens, verified_lens, seq_lens, leases, rows, self.state
        )

    def load(self, plan, block_table, fresh=None, layer=0):
        """Copies the plan's rows for one layer, as `Pool.load`; returns load_counters int32 [2].

        Every layer of the group loads every plan before the next match, otherwise the caller renews the
        lease.
        """
        misses = (
            self.registered[layer],
            plan[1],
            plan[2],
            plan[3],
            plan[5],
            plan[6],
            block_table,
            self.state,
        )
        buffers = self._payloads(layer)
        if fresh is None:
            return self.primitives.load(*misses, *buffers)
        return self.primitives.load_fresh(*misses, *buffers, *fresh)

    def store(self, new_rows, positions, entries, block_table, layer=0):
        """Writes a layer's new rows to its host_kv, as `Pool.store`; returns store_counters int32 [2].

        new_rows: a tuple of [T, ...], one per payload; positions, entries int32 [T] with T >= 1.
        """
        first = layer * self.num_payloads
        host_kv = self.host_kv[first : first + self.num_payloads]
        return self.primitives.store(
            self.registered[layer], positions, entries, block_table, *new_rows, *host_kv
        )

    def layer_device_kv(self, layer=0):
        """The device buffers of one layer: a tuple of Parameters [num_rows * S, ...], one per payload."""
        first = layer * self.num_payloads
        return self.device_kv[first : first + self.num_payloads]

    def reset(self) -> None:
        """Empties every row, as `Pool.reset`; call it outside of a graph, when no step is in flight."""
        self.state.asnumpy()[...] = 0

    def _payloads(self, layer):
        first = layer * self.num_payloads
        last = first + self.num_payloads
        return self.host_kv[first:last] + self.device_kv[first:last]

    def _registered(self) -> list[ms.Parameter]:
        registered = []
        for layer in range(self.num_layers):
            first, last = layer * self.num_payloads, (layer + 1) * self.num_payloads
            tensor = self.primitives.tensor(self.state, self.device_kv[first:last], self.host_kv[first:last])
            tensor.name = f"registered_{layer}"
            registered.append(tensor)
        return registered


def _layers(host_kv: object) -> list[list[object]]:
    layers = [list(layer) for layer in host_kv] if isinstance(host_kv, (list, tuple)) else []
    nested = layers and all(isinstance(layer, (list, tuple)) for layer in host_kv)
    if not nested or len({len(layer) for layer in layers}) != 1 or not layers[0]:
        raise TypeError(
            sentence(
                "host_kv",
                f"a {type(host_kv).__name__}",
                "only a list of layers, each a list of the same number of payloads,",
                "pass [[nope, rope]] for one layer of two payloads",
            )
        )
    return layers


def _named(name: str, layers: list[list[object]]) -> list[ms.Parameter]:
    parameters = []
    for i, layer in enumerate(layers):
        for p, tensor in enumerate(layer):
            if not isinstance(tensor, ms.Parameter):
                tensor = host_parameter(tensor, f"{name}_{i}_{p}")
            if len(tensor.shape) < 3:
                raise ValueError(
                    sentence(
                        f"{name}[{i}][{p}]",
                        f"of shape {list(tensor.shape)}",
                        "[num_blocks, block_size, ...]",
                        "reshape it",
                    )
                )
            tensor.name = f"{name}_{i}_{p}"
            parameters.append(tensor)
    return parameters


def _device_kv(config: PoolConfig, layers: list[list[object]]) -> list[ms.Parameter]:
    rows = config.num_rows * config.num_slots
    buffers = []
    for i, layer in enumerate(layers):
        for p, tensor in enumerate(layer):
            shape, dtype = (rows, *tensor.shape[2:]), tensor.dtype
            name = f"device_kv_{i}_{p}"
            if isinstance(dtype, np.dtype):
                buffers.append(zeros_parameter(shape, dtype, name))
            else:
                buffers.append(
                    ms.Parameter(ms.mint.zeros(shape, dtype=dtype), name=name, requires_grad=False)
                )
    return buffers
