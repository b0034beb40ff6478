# SPDX-License-Identifier: Apache-2.0
"""MindIE allocates its caches twice, to warm up (one block) and to serve: nothing may keep the first."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.torch


@pytest.fixture
def torch(mindie, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mindie.distributed, "all_reduce", lambda *args, **kwargs: None)
    return mindie


def allocate(torch, engine, num_blocks: int) -> list:
    """MindIE's KVCachePool with the replaced allocator, for the layers of `engine`; its npu_cache."""
    from engine import BLOCK, INDEX_DIM, NOPE_DIM, NUM_LAYERS, ROPE_DIM

    from avsg.mindie.engine_memory import wrap_allocate

    settings = SimpleNamespace(
        num_npu_blocks=num_blocks,
        num_layers=NUM_LAYERS,
        dtype=torch.bfloat16,
        k_block_shape=(BLOCK, 1, NOPE_DIM),
        v_block_shape=(BLOCK, 1, ROPE_DIM),
        index_block_shape=(BLOCK, 1, INDEX_DIM),
        is_separated_pd=False,
    )
    pool = SimpleNamespace(kvcache_settings=settings, npu_cache=[], device=torch.device("cpu"))
    with engine:
        wrap_allocate(None)(pool)
    return pool.npu_cache


def test_layers_use_the_indexer_cache_of_the_second_allocation(torch) -> None:
    """MindIE tells a new cache from an old one by the identity of a layer's first tensor."""
    from engine import Engine

    engine = Engine(groups=[[0], [1], [2]])
    tables = [np.arange(1, 3, dtype=np.int32)]
    prompt = [np.arange(150) % 97]
    engine.kv = warm_up = allocate(torch, engine, 1)
    engine.prefill([1], [np.arange(100) % 97], [np.zeros(1, np.int32)])
    used = warm_up[0][2].clone()
    engine.kv = allocate(torch, engine, 24)
    engine.prefill([2], prompt, tables)
    assert torch.equal(warm_up[0][2], used), "a prefill wrote to the warm-up's indexer cache"
    for _, _, index in engine.kv:
        assert index[1].any() and index[2, : 150 - 128].any() and not index[3:].any()
