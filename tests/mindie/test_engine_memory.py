# SPDX-License-Identifier: Apache-2.0
"""Where MindIE's replaced allocator, block count and block pull put KV; small stand-ins for its classes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from avsg.mindie import active, engine_memory
from avsg.mindie.settings import EngineFacts, Settings
from avsg.mindie.sizing import ModelShape, size_kv

pytestmark = pytest.mark.torch
BLOCK, DIMS, INDEX_DIM, LAYERS = 16, (32, 16), 24, 3
SHAPE = ModelShape(
    "tiny", num_layers=LAYERS, num_groups=2, top_k=8, kv_lora_rank=32, rope_head_dim=16, index_head_dim=24
)


def make_runtime(host_gib: float | None = None, landing_blocks: int = 0):
    """Layers 0 and 1 with indexers, 2 shares the second's; layer 3 is the draft layer."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
    from avsg.mindie.runtime import KvLayout, Runtime

    facts = EngineFacts(top_k=8, max_requests=2, max_seq_len=64, num_queries=2, block_size=BLOCK)
    sizing = size_kv(
        SHAPE,
        requests=2,
        context=64,
        num_slots=128,
        num_queries=2,
        block_size=BLOCK,
        landing_blocks=landing_blocks,
    )
    settings = Settings(rows=2, slots=128, huge_pages=False, host_gib=host_gib)
    layout = KvLayout([[0], [1, 2]], *DIMS, torch.bfloat16, BLOCK)
    return Runtime(settings, facts, layout, sizing=sizing)


@pytest.fixture
def runtime():
    runtime = make_runtime()
    active.activate(runtime)
    yield runtime
    active.activate(None)


def make_pool(num_blocks: int, *, separate: bool = False) -> SimpleNamespace:
    """KVCachePool as far as the allocator reads it, for three layers and the draft layer."""
    import torch

    settings = SimpleNamespace(
        num_npu_blocks=num_blocks,
        num_layers=LAYERS + 1,
        dtype=torch.bfloat16,
        k_block_shape=(BLOCK, 1, DIMS[0]),
        v_block_shape=(BLOCK, 1, DIMS[1]),
        index_block_shape=(BLOCK, 1, INDEX_DIM),
        is_separated_pd=separate,
    )
    return SimpleNamespace(
        kvcache_settings=settings,
        npu_cache=[],
        device=torch.device("cpu"),
        k_blocks_addrs=[],
        v_blocks_addrs=[],
        index_blocks_addrs=[],
        _create_aligned_tensor=lambda shape, dtype: torch.zeros(shape, dtype=dtype),
    )


def test_only_indexer_keys_and_the_draft_layer_are_paged_in_hbm(runtime) -> None:
    pool = make_pool(7)
    engine_memory.wrap_allocate(None)(pool)
    shapes = [[tuple(tensor.shape) for tensor in layer] for layer in pool.npu_cache]
    index = (7, BLOCK, 1, INDEX_DIM)
    staged = [tuple(runtime.staging.nope.shape), tuple(runtime.staging.rope.shape)]
    assert shapes[:3] == [[*staged, index], [*staged, index], [*staged, (1,)]]
    assert shapes[3] == [(7, BLOCK, 1, DIMS[0]), (7, BLOCK, 1, DIMS[1]), index]
    assert len({layer[0].data_ptr() for layer in pool.npu_cache[:3]}) == 1
    assert runtime.host_kv.num_blocks == 7 and runtime.host_kv.num_layers == LAYERS
    paged = [tensor for layer in pool.npu_cache for tensor in layer if tensor.shape[0] == 7]
    assert sum(tensor.nbytes for tensor in paged) == 7 * runtime.sizing.hbm_block_bytes


def test_a_second_allocation_renews_every_lease(runtime) -> None:
    """The host KV of the first one is gone."""
    engine_memory.wrap_allocate(None)(make_pool(1))
    _, before = runtime.lookup([1, None, 2])
    engine_memory.wrap_allocate(None)(make_pool(7))
    rows, after = runtime.lookup([1, None, 2])
    assert rows.tolist() == [0, -1, 1] and after[1] == 0 and after[[0, 2]].min() > before.max()


def test_a_block_costs_hbm_of_its_indexer_keys_and_of_the_draft_layer(runtime) -> None:
    stock = lambda model_info, block_size, num_speculative_tokens=None: 999  # noqa: E731
    replaced = engine_memory.wrap_calc_block_mem(stock)
    row, index = sum(DIMS) * 2, INDEX_DIM * 2
    assert replaced(None, BLOCK, 1) == BLOCK * (2 * index + row + index)
    active.activate(None)
    assert replaced(None, BLOCK, 1) == 999


def count_blocks(npu_mem: int, nz: bool = False) -> SimpleNamespace:
    """KVCacheSettings after its replaced __init__."""

    def stock(self, npu_mem):
        self.npu_mem, self.num_npu_blocks, self.num_cpu_blocks, self.need_nz = npu_mem, 3, 5, nz

    settings = SimpleNamespace()
    engine_memory.wrap_settings_init(stock)(settings, npu_mem)
    return settings


def test_blocks_are_what_hbm_holds_of_them_and_none_is_swapped(runtime) -> None:
    block = runtime.sizing.hbm_block_bytes
    settings = count_blocks(6 * block + block - 1)
    assert (settings.num_npu_blocks, settings.num_cpu_blocks, settings.cache_block_bytes) == (6, 0, block)
    assert count_blocks(block).num_npu_blocks == 1  # MindIE's warm-up


def test_blocks_are_bounded_by_host_memory(runtime) -> None:
    gib = 5 * runtime.sizing.host_block_bytes / 2**30
    active.activate(make_runtime(host_gib=gib))
    block = runtime.sizing.hbm_block_bytes
    assert count_blocks(100 * block).num_npu_blocks == 5
    with pytest.raises(ValueError, match="request at its full length takes 4"):
        count_blocks(3 * block)


def test_a_decoder_node_keeps_room_for_the_landing_buffer(runtime, monkeypatch) -> None:
    """MindIE measures before the buffer is there, and would give all that is left to blocks."""
    monkeypatch.setattr(engine_memory, "LANDING_BLOCKS", 2)
    decoder = make_runtime(landing_blocks=2)
    active.activate(decoder)
    block, landing = runtime.sizing.hbm_block_bytes, decoder.sizing.landing_bytes
    assert count_blocks(landing + 5 * block).num_npu_blocks == 5
    engine_memory.wrap_allocate(None)(make_pool(5, separate=True))
    tensors = [tensor for layer in engine_memory._landing.layers for tensor in layer]
    assert landing == sum(tensor.nbytes for tensor in tensors) + len(tensors) * 2 * 2**20


def test_the_nz_format_is_refused(runtime) -> None:
    with pytest.raises(RuntimeError, match="NZ format"):
        count_blocks(10 * runtime.sizing.hbm_block_bytes, nz=True)


class Worker:
    """SeparateDeploymentWorker over a node whose block b of layer l holds 30 * l + b (and 0.5 per kind)."""

    def __init__(self, pool: SimpleNamespace, fail_at: int | None = None) -> None:
        self.pool, self.built, self.pulls, self.fail_at = pool, {}, [], fail_at

    def build(self, model_id, num_tensors, num_blocks, blockshape, dtype):
        self.built[model_id] = num_blocks

    def pull_blocks(self, remote_model_instance_id, src_block_table, dst_block_table):
        self.pulls.append((list(src_block_table), list(dst_block_table)))
        if self.fail_at is not None and len(self.pulls) > self.fail_at:
            return SimpleNamespace(name="TEXT_GENERATOR_PD_PULL_KV_ERROR")
        for layer, tensors in enumerate(engine_memory._landing.layers):
            for kind, tensor in enumerate(tensors):
                for source, place in zip(src_block_table, dst_block_table):
                    tensor[place] = 30 * layer + source + kind / 2
        return SimpleNamespace(name="SUCCESS")


def test_pulled_blocks_end_in_host_memory_and_in_the_paged_caches(runtime, monkeypatch) -> None:
    monkeypatch.setattr(engine_memory, "LANDING_BLOCKS", 2)
    pool = make_pool(9, separate=True)
    engine_memory.wrap_allocate(None)(pool)
    worker = Worker(pool)
    build = engine_memory.wrap_worker_build(Worker.build)
    for model_id in (0, 1, 3):
        build(worker, model_id, LAYERS + 1, 9, (BLOCK, 1, 1), "bfloat16")
    assert worker.built == {0: 2, 1: 2, 3: 2}
    assert [len(a) for a in (pool.k_blocks_addrs, pool.v_blocks_addrs, pool.index_blocks_addrs)] == [4, 4, 4]
    source, target = [5, 3, 8], [2, 7, 4]
    status = engine_memory.wrap_pull_blocks(Worker.pull_blocks)(worker, 1, source, target)
    assert status.name == "SUCCESS" and worker.pulls == [([5, 3], [0, 1]), ([8], [0])]
    for layer in range(LAYERS + 1):
        homes = list(pool.npu_cache[layer])
        if layer < LAYERS:
            homes[:2] = runtime.host_layer(layer)
        for kind, home in enumerate(homes):
            if layer == 2 and kind == 2:
                continue  # it has no indexer
            expected = np.zeros(9)
            expected[target] = [30 * layer + block + kind / 2 for block in source]
            assert home.float().reshape(9, -1).amax(1).tolist() == expected.tolist(), (layer, kind)


def test_a_pull_that_fails_says_so_and_block_ids_are_checked_first(runtime, monkeypatch, mindie) -> None:
    monkeypatch.setattr(engine_memory, "LANDING_BLOCKS", 2)
    pool = make_pool(9, separate=True)
    engine_memory.wrap_allocate(None)(pool)
    worker = Worker(pool, fail_at=1)
    pull = engine_memory.wrap_pull_blocks(Worker.pull_blocks)
    assert pull(worker, 1, [1, 2, 3], [4, 5, 6]).name == "TEXT_GENERATOR_PD_PULL_KV_ERROR"
    assert len(worker.pulls) == 2
    assert pull(worker, 1, [1], [9]).name == "TEXT_GENERATOR_PD_BLOCK_ID_OUT_OF_RANGE"
    assert len(worker.pulls) == 2


@pytest.mark.parametrize("wrap, words", [("wrap_copy_blocks", "best_of"), ("wrap_swap", "cpuMemSize to 0")])
def test_what_would_move_blocks_behind_the_pool_is_refused(runtime, wrap: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        getattr(engine_memory, wrap)(lambda self, what: None)(None, [[0, 1]])
