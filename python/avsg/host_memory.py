# SPDX-License-Identifier: Apache-2.0
"""Host memory that a device can address, as numpy arrays that free it when they are collected."""

from __future__ import annotations

import ctypes
import os
import weakref

import numpy as np

from . import _abi
from .arrays import aligned_zeros
from .errors import sentence


class _HostBlock:
    """One avsg_host_alloc block. Arrays made from it keep it alive; it is freed with the last of them."""

    def __init__(self, library: _abi.NativeLibrary, nbytes: int, huge_pages: bool) -> None:
        host, alias = ctypes.c_void_p(), ctypes.c_void_p()
        options = _abi.HostOptions(huge_pages=int(huge_pages))
        library.call(
            "avsg_host_alloc", nbytes, ctypes.byref(options), ctypes.byref(host), ctypes.byref(alias)
        )
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (host.value, False),
        }
        finalizer = weakref.finalize(self, library.call, "avsg_host_free", host)
        finalizer.atexit = False  # another thread may still read it while the interpreter goes down


def host_alloc(
    shape: int | tuple[int, ...],
    dtype: object = np.uint8,
    huge_pages: bool = False,
    library: str | os.PathLike[str] | None = None,
) -> np.ndarray:
    """Zeroed, page-aligned numpy array in host memory that the device can address (avsg_host_alloc).

    shape: items per dimension, at least one item in all. dtype: any numpy dtype without Python objects.
    huge_pages: use huge pages when the system has them. library: as for Pool; "reference" gives ordinary
    memory. Pages are touched on first use, so an array larger than the machine's memory is fine as long as
    most of it stays untouched. The memory is freed when the array and all its views are gone. Errors:
    ValueError, TypeError for shape or dtype, MemoryError when the system refuses.
    """
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(sentence("dtype", dtype, "a dtype of plain bytes", "pass for example np.uint8"))
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= int(extent)
    if nbytes < 1 or min(shape, default=1) < 1:
        raise ValueError(
            sentence("shape", list(shape), "one item or more in every dimension", "pass positive extents")
        )
    resolved = _abi.resolve(library)
    if resolved == "reference":
        return aligned_zeros(shape, dtype, alignment=4096)
    block = _HostBlock(_abi.load(resolved), nbytes, huge_pages)
    return np.asarray(block).view(dtype).reshape(shape)
