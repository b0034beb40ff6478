# SPDX-License-Identifier: Apache-2.0
"""Loading the torch extension, the library that its operators call, and host memory for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

import torch

from .. import _abi
from ..errors import LibraryNotFoundError, sentence
from .extension import built_extension, torch_npu

_bound: dict[str, _abi.NativeLibrary] = {}  # device type -> the library that its operators call


def load(library: str | os.PathLike[str] | None = None) -> None:
    """Makes torch.ops.avsg.* ready; idempotent.

    library: "cpu", "cpu-checked", "npu" or the path of a libavsg_*.so, which then serves its device from
    now on. None: keeps what is bound, otherwise binds AVSG_LIBRARY or cpu, and npu where torch_npu and
    libavsg_npu.so are present. Errors: LibraryNotFoundError with the command that builds what is missing,
    LibraryError.
    """
    extension = built_extension()
    if torch_npu() is not None:
        import_module("torch_npu")  # the extension needs its symbols
    if str(extension) not in torch.ops.loaded_libraries:
        torch.ops.load_library(str(extension))
    if library is not None:
        _bind(library)
        return
    if not _bound:
        _bind(os.environ.get("AVSG_LIBRARY") or "cpu")
    if "npu" not in _bound and torch_npu() is not None:
        try:
            _bind("npu")
        except LibraryNotFoundError:
            return  # an NPU tensor is refused with a sentence then


def _bind(library: str | os.PathLike[str]) -> None:
    resolved = _abi.resolve(library)
    if resolved == "reference":
        raise ValueError(
            sentence("library", "reference", "a native library", 'pass "cpu", "cpu-checked", "npu" or a path')
        )
    native = _abi.load(resolved)
    torch.ops.avsg.bind(str(native.path))
    _bound["npu" if native.name == "npu" else "cpu"] = native


def host_zeros(
    size: Sequence[int],
    dtype: torch.dtype = torch.uint8,
    *,
    device: torch.device | str = "cpu",
    huge_pages: bool = True,
) -> torch.Tensor:
    """A CPU tensor of zeroed, page-aligned host memory that `device` can address (avsg_host_alloc).

    size: items per dimension, one or more each. huge_pages: use huge pages when the system has them. The
    memory is freed with the last tensor on it. Errors: ValueError; RuntimeError when the system refuses.
    """
    load()
    return torch.ops.avsg.host_zeros(list(size), dtype, torch.device(device), huge_pages)


def register_host(tensor: torch.Tensor, device_alias: int) -> None:
    """Names the address by which the NPU reads the memory of a contiguous CPU tensor that others allocated.

    Keep the tensor until unregister_host. Errors: ValueError, also where its memory is registered already.
    """
    load()
    torch.ops.avsg.register_host(tensor.data_ptr(), device_alias, tensor.nbytes)


def unregister_host(tensor: torch.Tensor) -> None:
    """Forgets the address of a tensor that was registered. Errors: ValueError."""
    torch.ops.avsg.unregister_host(tensor.data_ptr())


def bound(device: torch.device) -> _abi.NativeLibrary:
    """The library that serves a device. Errors: LibraryNotFoundError."""
    library = _bound.get({"cpu": "cpu", "npu": "npu", "privateuseone": "npu"}.get(device.type, ""))
    if library is None:
        raise LibraryNotFoundError(
            f"No library of AVSG is bound for {device}: install the NPU package and torch_npu, or pass "
            'device="cpu".'
        )
    return library
