# SPDX-License-Identifier: Apache-2.0
"""A decode node of PD separation: MindIE's real block count, allocator and pull worker; the mover is ours."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from test_engine_memory import BLOCK, DIMS, INDEX_DIM, LAYERS, make_runtime

pytestmark = pytest.mark.torch


class Mover:
    """LLM-DataDist as far as SeparateDeploymentWorker uses it: addresses, and a prefill node's blocks."""

    def __init__(self, torch, node: dict[int, list]) -> None:
        self.torch, self.node, self.registered, self.caches = torch, node, {}, {}

    def register_blocks_cache(self, cache_desc: object, addresses: list[int], cache_key: object) -> object:
        return list(addresses)

    def set_npu_cache(self, model_id: int, addresses: list[int]) -> None:
        self.registered[model_id] = addresses

    def pull_kv(self, model_id: int, src_block_table, dst_block_table, remote_cluster_id: int) -> object:
        from mindie_llm.utils.status import MindieLlmStatusCode

        import avsg.mindie.engine_memory as engine_memory

        kind = {0: 0, 1: 1, 3: 2}[model_id]
        for tensors, address, source in zip(
            engine_memory._landing.layers, self.registered[model_id], self.node[model_id]
        ):
            assert tensors[kind].data_ptr() == address
            tensors[kind][list(dst_block_table)] = source[list(src_block_table)]
        return MindieLlmStatusCode.SUCCESS


@pytest.fixture
def decode_node(mindie):
    """(torch, runtime, pool, worker, KV of the prefill node by model_id and layer)."""
    from mindie_llm.modeling.model_wrapper.model_info import ModelInfo
    from mindie_llm.text_generator.adapter.torch_utils.kvcache_pool import KVCachePool
    from mindie_llm.text_generator.utils.kvcache_settings import KVCacheSettings
    from mindie_llm.text_generator.utils.separate_deployment_engine import SeparateDeploymentWorker

    from avsg.mindie import active
    from avsg.mindie.register import register, unregister

    register()
    runtime = make_runtime()
    active.activate(runtime)
    info = ModelInfo(
        mindie.device("cpu"),
        mindie.bfloat16,
        2,
        LAYERS,
        1,
        DIMS[0],
        k_head_size=DIMS[0],
        v_head_size=DIMS[1],
        index_head_dim=INDEX_DIM,
        num_index_heads=1,
    )
    memory = 8 * runtime.sizing.hbm_block_bytes / 2**30
    settings = KVCacheSettings(0, info, 0, memory, BLOCK, "torch", True, 1)
    generator = mindie.Generator().manual_seed(2)
    node = {
        model_id: [
            mindie.randn((9, BLOCK, 1, dim), generator=generator).to(mindie.bfloat16)
            for _ in range(LAYERS + 1)
        ]
        for model_id, dim in ((0, DIMS[0]), (1, DIMS[1]), (3, INDEX_DIM))
    }
    worker = object.__new__(SeparateDeploymentWorker)
    worker.cache_desc_map, worker.max_block_nums_map = {}, {}
    worker.cluster_comm_map, worker.cluster_device_ip_map = {7: 0}, {}
    worker.cluster_map_lock, worker.local_cluster_id = threading.Lock(), 1
    worker.separate_deployment_engine = Mover(mindie, node)
    pool = KVCachePool(settings, mindie.device("cpu"))
    shapes = {0: settings.k_block_shape, 1: settings.v_block_shape, 3: settings.index_block_shape}
    for model_id, shape in shapes.items():
        worker.build(model_id, settings.num_layers, settings.num_npu_blocks, shape, "bfloat16")
    pool.allocate_npu_kvcache()
    addresses = {0: pool.k_blocks_addrs, 1: pool.v_blocks_addrs, 3: pool.index_blocks_addrs}
    for model_id, listed in addresses.items():
        worker.set_npu_cache(model_id, listed)
    yield SimpleNamespace(torch=mindie, runtime=runtime, pool=pool, worker=worker, kv=node)
    unregister()


def test_a_request_of_more_blocks_than_the_landing_buffer_arrives_whole(decode_node, monkeypatch) -> None:
    worker, runtime, torch = decode_node.worker, decode_node.runtime, decode_node.torch
    import avsg.mindie.engine_memory as engine_memory

    assert decode_node.pool.kvcache_settings.num_npu_blocks == 8
    engine_memory._landing.num_blocks = 2  # of 16 that are registered: three portions
    source, target = [8, 0, 3, 6, 2], [1, 7, 4, 2, 0]
    assert worker.pull_blocks(7, source, target).name == "SUCCESS"
    for layer in range(LAYERS + 1):
        homes = list(decode_node.pool.npu_cache[layer])
        if layer < LAYERS:
            homes[:2] = runtime.host_layer(layer)
        for model_id, home in zip((0, 1, 3), homes):
            if home.dim() > 1:
                assert torch.equal(home[target], decode_node.kv[model_id][layer][source]), (layer, model_id)
                assert not home[[3, 5, 6]].any()


def test_an_unlinked_node_and_a_foreign_block_are_refused_as_stock_does(decode_node) -> None:
    assert "MODEL_INSTANCE_ID" in decode_node.worker.pull_blocks(8, [0], [0]).name
    assert "BLOCK_ID_OUT_OF_RANGE" in decode_node.worker.pull_blocks(7, [0], [8]).name
    assert decode_node.worker.max_block_nums_map == {0: 16, 1: 16, 3: 16}
