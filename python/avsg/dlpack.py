# SPDX-License-Identifier: Apache-2.0
"""Reads the address, shape and dtype of a DLPack export in place, also bf16, which numpy refuses."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

_CPU_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost (pinned memory of the host)
_DEVICE_NAMES = {2: "cuda", 12: "npu", 8: "metal", 10: "rocm"}
_TYPE_NAMES = {0: "int", 1: "uint", 2: "float", 3: "opaque", 4: "bfloat", 5: "complex", 6: "bool"}
_READ_ONLY = 1


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _VersionedTensor(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


class Export(NamedTuple):
    """What a DLPack capsule says; `capsule` keeps the memory alive and frees it when dropped."""

    capsule: object
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in items; None = contiguous
    dtype: str
    itemsize: int
    writable: bool


def device_of(exporter: object) -> str:
    """Device name of an object with `__dlpack_device__`: "cpu", "npu" or another word."""
    kind = int(exporter.__dlpack_device__()[0])  # type: ignore[attr-defined]
    return "cpu" if kind in _CPU_DEVICES else _DEVICE_NAMES.get(kind, f"dlpack device {kind}")


def export(exporter: object) -> Export:
    """Exports an object with `__dlpack__` (either protocol version); the memory is shared, not copied."""
    try:
        capsule = exporter.__dlpack__(max_version=(1, 0))  # type: ignore[attr-defined]
    except TypeError:
        capsule = exporter.__dlpack__()  # type: ignore[attr-defined]
    versioned = _pointer(capsule, b"dltensor_versioned")
    if versioned is not None:
        managed = _VersionedTensor.from_address(versioned)
        tensor, writable = managed.tensor, not managed.flags & _READ_ONLY
    else:
        address = _pointer(capsule, b"dltensor")
        if address is None:
            raise TypeError(f"{type(exporter).__name__}.__dlpack__ returned no unused DLPack capsule")
        tensor, writable = _DLTensor.from_address(address), True
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    bits = tensor.bits * tensor.lanes
    name = _TYPE_NAMES.get(tensor.code, f"type{tensor.code}_") + str(tensor.bits)
    name = name if tensor.lanes == 1 else f"{name}x{tensor.lanes}"
    pointer = (tensor.data or 0) + tensor.byte_offset
    return Export(capsule, pointer, shape, strides, name, bits // 8, writable)


def _pointer(capsule: object, name: bytes) -> int | None:
    api = ctypes.pythonapi
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return get(capsule, name) if is_valid(capsule, name) else None
