# SPDX-License-Identifier: Apache-2.0
"""Views of the caller's arrays: address, shape and dtype of anything that holds memory, never a copy."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from . import dlpack
from .errors import sentence

_INT32 = np.dtype(np.int32)
_REMEDY_KIND = "pass a numpy array, a buffer, a DLPack exporter or a tensor with data_ptr"


class ArrayView(NamedTuple):
    """Where an argument's memory is. `owner` keeps it alive for the length of the call."""

    name: str
    pointer: int
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    contiguous: bool
    writable: bool
    device: str
    owner: object

    @property
    def nbytes(self) -> int:
        count = self.itemsize
        for extent in self.shape:
            count *= extent
        return count

    def as_int32(self) -> np.ndarray:
        """The memory as an int32 numpy array of the same shape (host memory only)."""
        if type(self.owner) is np.ndarray:
            return self.owner
        return _numpy_at(self.pointer, self.nbytes, self.owner).view(np.int32).reshape(self.shape)

    def as_rows(self, leading: tuple[int, ...], row_bytes: int) -> np.ndarray:
        """The memory as uint8 [*leading, row_bytes] (host memory only)."""
        return _numpy_at(self.pointer, self.nbytes, self.owner).reshape(*leading, row_bytes)


class _Memory:
    """Lets numpy wrap an address and keep its owner alive."""

    def __init__(self, pointer: int, nbytes: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (pointer, False),
        }


def _numpy_at(pointer: int, nbytes: int, owner: object) -> np.ndarray:
    return np.asarray(_Memory(pointer, nbytes, owner)) if nbytes else np.empty(0, np.uint8)


def view(name: str, array: object) -> ArrayView:
    """View of `array` by numpy, data_ptr, `__dlpack__` or the buffer protocol; else TypeError."""
    if isinstance(array, np.ndarray):
        return _from_numpy(name, array)
    if hasattr(array, "data_ptr"):
        return _from_data_ptr(name, array)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(name, array)
    try:
        buffer = memoryview(array)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(sentence(name, f"a {type(array).__name__}", "only an array", _REMEDY_KIND)) from None
    return _from_numpy(name, np.asarray(buffer))


def _from_numpy(name: str, array: np.ndarray) -> ArrayView:
    flags = array.flags
    return ArrayView(
        name,
        array.__array_interface__["data"][0],
        array.shape,
        _dtype_name(array.dtype),
        array.itemsize,
        flags.c_contiguous,
        flags.writeable,
        "cpu",
        array,
    )


def _dtype_name(dtype: np.dtype) -> str:
    if dtype is _INT32 or dtype == _INT32:
        return "int32"
    return dtype.name if dtype.isnative else dtype.str


def _from_data_ptr(name: str, tensor: object) -> ArrayView:
    dtype = str(tensor.dtype).rpartition(".")[2].lower()  # type: ignore[attr-defined]
    size = getattr(tensor, "element_size", None)
    itemsize = int(size()) if callable(size) else int(tensor.itemsize)  # type: ignore[attr-defined]
    is_contiguous = getattr(tensor, "is_contiguous", None)
    contiguous = bool(is_contiguous()) if callable(is_contiguous) else True
    device = str(getattr(tensor, "device", "cpu")).lower().partition(":")[0]
    shape = tuple(int(extent) for extent in tensor.shape)  # type: ignore[attr-defined]
    return ArrayView(
        name,
        int(tensor.data_ptr()),
        shape,
        dtype,
        itemsize,  # type: ignore[attr-defined]
        contiguous,
        True,
        device,
        tensor,
    )


def _from_dlpack(name: str, array: object) -> ArrayView:
    device = dlpack.device_of(array)
    if device != "cpu":  # exporting could wait for another device
        return ArrayView(name, 0, (), "unknown", 0, True, True, device, array)
    e = dlpack.export(array)
    return ArrayView(
        name,
        e.pointer,
        e.shape,
        e.dtype,
        e.itemsize,
        _is_contiguous(e.shape, e.strides),
        e.writable,
        device,
        e.capsule,
    )


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def require(name: str, array: object, *, write: bool = False) -> ArrayView:
    """View of an array that a library on the CPU may use: host memory, contiguous, writable when `write`."""
    v = view(name, array)
    if v.device != "cpu":
        raise ValueError(
            sentence(f"{name}.device", v.device, "cpu", "move it to host memory or use an NPU adapter")
        )
    if not v.contiguous:
        raise ValueError(
            sentence(
                f"{name} (shape {list(v.shape)})",
                "not contiguous",
                "only a C-contiguous array",
                "make it contiguous where it is created, the pool never copies",
            )
        )
    if write and not v.writable:
        raise ValueError(
            sentence(name, "read-only", "only writable memory", "pass memory that the pool may write")
        )
    return v


def require_int32(
    name: str, array: object, shape: tuple[int, ...] | None = None, words: str = "", *, write: bool = False
) -> ArrayView:
    """View of a contiguous int32 array, of exactly `shape` if given; `words` names the dimensions."""
    v = require(name, array, write=write)
    if v.dtype != "int32":
        raise TypeError(
            sentence(f"{name}.dtype", v.dtype, "int32", "create it as int32, the pool never converts")
        )
    if shape is not None and v.shape != shape:
        raise ValueError(
            sentence(f"{name}.shape", list(v.shape), f"{words} = {list(shape)}", "pass that shape")
        )
    if v.pointer % 4:
        raise ValueError(
            sentence(f"the address of {name}", hex(v.pointer), "a multiple of 4", "align the array")
        )
    return v


def refuse_overlap(written: list[ArrayView], read: list[ArrayView]) -> None:
    """ValueError when an array that the call writes shares memory with any other array of the call."""
    spans = [(v.pointer, v.pointer + v.nbytes, True, v.name) for v in written]
    spans += [(v.pointer, v.pointer + v.nbytes, False, v.name) for v in read]
    any_end = writer_end = 0
    any_name = writer_name = ""
    for start, end, writes, name in sorted(span for span in spans if span[0] < span[1]):
        if start < (any_end if writes else writer_end):
            other = any_name if writes else writer_name
            raise ValueError(
                sentence(
                    f"the memory of {name}",
                    f"shared with {other}",
                    "only separate memory",
                    "allocate the two separately, the call writes one of them",
                )
            )
        if end > any_end:
            any_end, any_name = end, name
        if writes and end > writer_end:
            writer_end, writer_name = end, name


def aligned_zeros(shape: tuple[int, ...], dtype: object = np.uint8, alignment: int = 512) -> np.ndarray:
    """Zeroed numpy array at a multiple of `alignment` bytes; its pages are touched on first use only."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(nbytes + alignment, np.uint8)
    start = -raw.__array_interface__["data"][0] % alignment
    return raw[start : start + nbytes].view(dtype).reshape(shape)


def address(array: np.ndarray) -> ctypes.c_void_p:
    """Address of a numpy array for a C call."""
    return ctypes.c_void_p(array.__array_interface__["data"][0])
