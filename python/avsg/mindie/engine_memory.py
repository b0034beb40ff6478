# SPDX-License-Identifier: Apache-2.0
"""Where KV lies: replacements for MindIE's block count, its allocator, its block copies and its pull of
blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

from .active import find_runtime
from .sizing import LANDING_BLOCKS

if TYPE_CHECKING:
    import torch

    from .landing import Landing

NOPE, ROPE, INDEX = 0, 1, 3  # model_id of a cache in MindIE's SeparateDeploymentWorker
_landing: Landing | None = None


def wrap_calc_block_mem(stock: Callable) -> Callable:
    """HBM of a KV block: indexer keys and the draft layer's KV."""

    @wraps(stock)
    def calc_block_mem(model_info: object, block_size: int, num_speculative_tokens: int | None = None) -> int:
        runtime = find_runtime()
        if runtime is None:
            return stock(model_info, block_size, num_speculative_tokens)
        return runtime.sizing.hbm_block_bytes

    return calc_block_mem


def wrap_settings_init(stock: Callable) -> Callable:
    """The number of blocks: what HBM holds of indexer keys and host memory of the rest; none for MindIE's
    swap."""

    @wraps(stock)
    def __init__(self: object, *args: object, **kwargs: object) -> None:
        stock(self, *args, **kwargs)
        runtime = find_runtime()
        if runtime is None:
            return
        if self.need_nz:
            raise RuntimeError(
                "MindIE lays KV out in the NZ format on this chip, and AVSG holds rows one by one: use "
                "an Atlas A2 or A3, or set models.avsg.enable to false."
            )
        self.cache_block_bytes = runtime.sizing.hbm_block_bytes
        self.num_cpu_blocks = 0
        self.num_npu_blocks = self.npu_mem // self.cache_block_bytes
        if self.num_npu_blocks > 1:  # MindIE warms up with the memory of exactly one block
            gib = runtime.settings.host_gib
            host_bytes = None if gib is None else int(gib * 2**30)
            left = self.npu_mem - runtime.sizing.landing_bytes  # allocated with the blocks, not before
            self.num_npu_blocks = runtime.sizing.num_blocks(
                hbm_bytes=left, host_bytes=host_bytes, fixed_allocated=True
            )

    return __init__


def wrap_allocate(stock: Callable) -> Callable:
    """Paged caches of the indexer and of the draft layer; staging in the place of the others' nope and rope.

    A layer without an indexer of its own has no indexer cache. With PD separation the tensors that blocks
    are pulled into are a landing buffer's.
    """

    @wraps(stock)
    def _allocate_npu_kvcache_base(self: object) -> None:
        runtime = find_runtime()
        if runtime is None:
            stock(self)
            return
        import torch

        settings = self.kvcache_settings
        runtime.bind(settings.num_npu_blocks)

        def paged(shape: tuple[int, ...]) -> torch.Tensor:
            size = (settings.num_npu_blocks, *shape)
            return torch.zeros(size, dtype=settings.dtype, device=self.device)

        # MindIE binds a layer's caches anew where the first is another object: the same memory, but new
        # tensors.
        nope, rope = (cache.view(cache.shape) for cache in (runtime.staging.nope, runtime.staging.rope))
        owners = {group.layers[0] for group in runtime.groups}
        none = torch.zeros((1,), dtype=settings.dtype, device=self.device)
        for layer in range(settings.num_layers):
            if runtime.offloads(layer):
                index = paged(settings.index_block_shape) if layer in owners else none
                self.npu_cache.append((nope, rope, index))
            else:
                shapes = (settings.k_block_shape, settings.v_block_shape, settings.index_block_shape)
                self.npu_cache.append(tuple(paged(shape) for shape in shapes))
        if settings.is_separated_pd:
            _land(self, runtime)

    return _allocate_npu_kvcache_base


def _land(pool: object, runtime: object) -> None:
    global _landing
    from .landing import Landing

    settings = pool.kvcache_settings
    _landing = Landing(
        runtime,
        pool.npu_cache,
        LANDING_BLOCKS,
        (settings.k_block_shape, settings.v_block_shape, settings.index_block_shape),
        lambda shape: pool._create_aligned_tensor(shape, settings.dtype),
    )
    lists = {NOPE: pool.k_blocks_addrs, ROPE: pool.v_blocks_addrs, INDEX: pool.index_blocks_addrs}
    for model_id, addresses in zip(lists, _landing.addresses()):
        lists[model_id].extend(addresses)


def wrap_worker_build(stock: Callable) -> Callable:
    """What is registered for remote access is the landing buffer, with its number of blocks."""

    @wraps(stock)
    def build(
        self: object, model_id: int, num_tensors: int, num_blocks: int, blockshape: tuple, dtype: str
    ) -> None:
        blocks = num_blocks if find_runtime() is None else LANDING_BLOCKS
        stock(self, model_id, num_tensors, blocks, blockshape, dtype)

    return build


def wrap_pull_blocks(stock: Callable) -> Callable:
    """Pulls a prefill node's blocks in portions of the landing buffer and sends each to where it belongs."""

    @wraps(stock)
    def pull_blocks(
        self: object, remote_model_instance_id: int, src_block_table: list[int], dst_block_table: list[int]
    ) -> object:
        if find_runtime() is None or not src_block_table:
            return stock(self, remote_model_instance_id, src_block_table, dst_block_table)
        if not _landing.holds(dst_block_table):
            from mindie_llm.utils.log.error_code import ErrorCode

            return ErrorCode.TEXT_GENERATOR_PD_BLOCK_ID_OUT_OF_RANGE
        for source, target, places in _landing.portions(src_block_table, dst_block_table):
            status = stock(self, remote_model_instance_id, source, places)
            if str(getattr(status, "name", status)) != "SUCCESS":
                return status
            _landing.deliver(target)
        return status

    return pull_blocks


def wrap_copy_blocks(stock: Callable) -> Callable:
    """Copy-on-write of blocks (best-of, beam search), in the paged caches and in host memory."""

    @wraps(stock)
    def copy_blocks(self: object, src_dst_map: object) -> None:
        runtime = find_runtime()
        if runtime is None:
            stock(self, src_dst_map)
            return
        raise RuntimeError(
            "MindIE asked for a copy of KV blocks (best_of, n or beam search), which AVSG does not do in "
            "host memory: serve these requests without it, or set models.avsg.enable to false."
        )

    return copy_blocks


def wrap_swap(stock: Callable) -> Callable:
    """MindIE's own swap of paged blocks to the host; AVSG's blocks are there already."""

    @wraps(stock)
    def sync_swap_base(self: object, swap_decision: object) -> None:
        if find_runtime() is None:
            stock(self, swap_decision)
            return
        raise RuntimeError(
            "MindIE asked to swap KV blocks between HBM and host memory, but with AVSG they are in host "
            "memory: set cpuMemSize to 0 and let preempted requests be recomputed."
        )

    return sync_swap_base
