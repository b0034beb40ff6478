# SPDX-License-Identifier: Apache-2.0
"""HostKv: the whole KV of one rank's offloaded layers, in host memory that its device can address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch

from .. import torch_ops
from ..errors import sentence

PAYLOADS = ("nope", "rope")


class HostRegion(NamedTuple):
    """One payload of one layer as a KV mover sees it: num_blocks blocks of block_bytes from `address` on."""

    layer: int
    payload: str
    address: int
    num_blocks: int
    block_bytes: int


class HostKv:
    """nope [num_blocks, block_size, 1, nope_dim] and rope [..., rope_dim] of every offloaded layer, zeroed.

    Both ways in end here: a prefill on this rank and KV received from prefill nodes are written by `store`,
    or by a mover to addresses(). Renew the sequence's lease after a write that did not go through a step. The
    library allocates each payload of a layer by itself (avsg_host_alloc: huge pages where the system has
    them, registered with the device in chunks), so that no allocation is large. dtype: of both payloads.
    device: what reads it; on "cpu" pages take memory when they are first written, on an NPU at once. Errors:
    ValueError for sizes, MemoryError when the machine has less memory available (checked before anything is
    allocated), RuntimeError when the system refuses.
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        *,
        block_size: int = 128,
        nope_dim: int = 512,
        rope_dim: int = 64,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cpu",
        huge_pages: bool = True,
    ) -> None:
        sizes = {
            "num_layers": num_layers,
            "num_blocks": num_blocks,
            "block_size": block_size,
            "nope_dim": nope_dim,
            "rope_dim": rope_dim,
        }
        for name, value in sizes.items():
            if value < 1:
                raise ValueError(sentence(name, value, "1 or more", "count at least one"))
        self.num_layers, self.num_blocks, self.block_size, self.dtype = (
            num_layers,
            num_blocks,
            block_size,
            dtype,
        )
        shapes = [(num_blocks, block_size, 1, dim) for dim in (nope_dim, rope_dim)]
        self._device = torch.device(device)
        self.total_bytes = (
            num_layers * num_blocks * block_size * (nope_dim + rope_dim) * torch.empty((), dtype=dtype).nbytes
        )
        _refuse_more_than_the_machine_has(self.total_bytes)
        self._layers: list[tuple[torch.Tensor, ...]] | None = [
            tuple(
                torch_ops.host_zeros(shape, dtype, device=device, huge_pages=huge_pages) for shape in shapes
            )
            for _ in range(num_layers)
        ]

    def layer(self, layer: int) -> tuple[torch.Tensor, ...]:
        """(nope, rope) of the n-th offloaded layer: CPU tensors that TorchPool takes as host_kv."""
        return self._open()[layer]

    def addresses(self) -> list[HostRegion]:
        """Where every payload of every layer is, for a KV mover that writes host memory."""
        return [
            HostRegion(layer, name, payload.data_ptr(), self.num_blocks, payload[0].nbytes)
            for layer, payloads in enumerate(self._open())
            for name, payload in zip(PAYLOADS, payloads)
        ]

    def close(self) -> None:
        """Gives the memory up after the steps that the device has queued; freed with the last tensor on it.

        May be called again.
        """
        if self._layers is not None and self._device.type != "cpu":
            getattr(torch, self._device.type).synchronize(self._device)
        self._layers = None

    def _open(self) -> list[tuple[torch.Tensor, ...]]:
        if self._layers is None:
            raise ValueError("this HostKv is closed, and its memory may be gone: make a new one.")
        return self._layers


def available_host_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Host memory that can still be taken: available pages and free huge pages; None where nobody says."""
    try:
        text = meminfo.read_text()
    except OSError:
        return None
    values = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", text, re.M)}
    if "MemAvailable" not in values:
        return None
    huge_kib = values.get("HugePages_Free", 0) * values.get("Hugepagesize", 0)
    return 1024 * (values["MemAvailable"] + huge_kib)


def _refuse_more_than_the_machine_has(wanted: int) -> None:
    available = available_host_bytes()
    if available is not None and wanted > available:
        raise MemoryError(
            sentence(
                "host memory for KV",
                f"{wanted:,} bytes",
                f"{available:,} bytes (what this machine has available)",
                "lower host_gib, maxBatchSize or maxSeqLen, or free memory; each rank takes its own",
            )
        )
