# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V3.2 with MindIE's fused decode preprocess, npu_mla_process: it writes KV to staging as well."""

from __future__ import annotations

from types import SimpleNamespace

import needs_torch  # noqa: F401
import pytest
import torch
from engine import Engine
from ops_cpu import _write_rows
from scenarios import differences
from test_equal_to_stock import long_life, registered  # noqa: F401  (an autouse fixture)
from tiny_model_mindie import NOPE_DIM, ROPE_DIM

pytestmark = pytest.mark.torch
HEADS = 2


def npu_mla_process(
    *,
    input: torch.Tensor,
    kv_cache: torch.Tensor,
    kv_cache_rope: torch.Tensor,
    slotmapping: torch.Tensor,
    **_: object,
) -> tuple[torch.Tensor, ...]:
    """Some function of the hidden states as query and KV; writes both caches at slotmapping."""
    assert slotmapping.dtype == torch.int32 and slotmapping.dim() == 1
    nope, rope = input[:, :NOPE_DIM], input[:, NOPE_DIM : NOPE_DIM + ROPE_DIM]
    _write_rows(kv_cache.view(-1, NOPE_DIM), slotmapping, nope * 0.5)
    _write_rows(kv_cache_rope.view(-1, ROPE_DIM), slotmapping, rope * 0.25)
    return nope.repeat(1, HEADS).contiguous(), kv_cache, rope.repeat(1, HEADS).contiguous(), kv_cache_rope


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("num_queries", [1, 4])
def test_fused_decode_is_equal_to_stock(
    num_queries: int, graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = SimpleNamespace(npu_mla_process=npu_mla_process)
    monkeypatch.setattr(torch.ops, "mie_ops", operators, raising=False)
    stock = Engine(num_queries=num_queries)
    engine = Engine(num_queries=num_queries, groups=[[0], [1], [2]], graph=graph)
    for player in (stock, engine):
        for layer in player.attns.values():
            layer.impl.enable_mlapo = True
    if graph:
        engine.compile()
    script = long_life(num_queries)
    assert differences(script.play(stock), script.play(engine)) == []
