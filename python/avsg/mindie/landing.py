# SPDX-License-Identifier: Apache-2.0
"""Landing: a few HBM blocks that a prefill node's KV is pulled into, on its way to host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .runtime import Runtime


class Landing:
    """num_blocks blocks of nope, rope and indexer key for every layer of the cache, the draft layer included.

    A KV mover addresses HBM of one kind for all layers, whereas here a token's KV goes to three places:
    nope and rope of offloaded layers to host memory, indexer keys and the draft layer's KV to paged
    caches. paged: MindIE's npu_cache, in layer order. shapes: of a block of nope, rope and indexer key.
    allocate: gives HBM of a shape, aligned as the mover wants it. Used by one thread at a time, the one
    that pulls.
    """

    def __init__(
        self,
        runtime: Runtime,
        paged: Sequence[tuple[torch.Tensor, ...]],
        num_blocks: int,
        shapes: Sequence[tuple[int, ...]],
        allocate: Callable[[tuple[int, ...]], torch.Tensor],
    ) -> None:
        self._runtime, self._paged, self.num_blocks = runtime, list(paged), num_blocks
        self.layers = [tuple(allocate((num_blocks, *shape)) for shape in shapes) for _ in self._paged]

    def addresses(self) -> list[list[int]]:
        """Of the nope tensors of all layers, of the rope tensors, of the indexer's."""
        return [[tensors[kind].data_ptr() for tensors in self.layers] for kind in range(3)]

    def holds(self, blocks: Sequence[int]) -> bool:
        """Whether all of these block ids exist."""
        return all(0 <= block < self._runtime.host_kv.num_blocks for block in blocks)

    def portions(
        self, source: Sequence[int], target: Sequence[int]
    ) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """(remote blocks, our blocks, landing blocks) of at most num_blocks each."""
        for first in range(0, len(source), self.num_blocks):
            ours = list(target[first : first + self.num_blocks])
            yield list(source[first : first + self.num_blocks]), ours, list(range(len(ours)))

    def deliver(self, target: Sequence[int]) -> None:
        """Moves landing blocks 0, 1, ... to our blocks; returns when they are there."""
        chosen = torch.tensor(target, dtype=torch.int64)
        for layer, (landed, paged) in enumerate(zip(self.layers, self._paged)):
            homes = list(paged)
            if self._runtime.offloads(layer):
                homes[:2] = self._runtime.host_layer(layer)
            for tensor, home in zip(landed, homes):
                if home.dim() > 1:  # a layer without an indexer has a placeholder
                    home[chosen.to(home.device)] = tensor[: len(target)].to(home.device)
        device = self.layers[0][0].device
        if device.type != "cpu":  # the mover writes the next portion without regard to streams
            getattr(torch, device.type).current_stream(device).synchronize()
