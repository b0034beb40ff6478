# SPDX-License-Identifier: Apache-2.0
"""MindSpore Parameters on memory of our own choice: aligned, in place, never copied."""

from __future__ import annotations

import mindspore as ms
import numpy as np

from ..arrays import aligned_zeros
from ..errors import sentence


def host_parameter(array: np.ndarray, name: str = "host_kv") -> ms.Parameter:
    """A Parameter that is the array's memory, so that MindSpore and numpy see each other's writes.

    array: contiguous and writable, of a dtype that MindSpore has (pass bfloat16 as int16 or uint8). The
    Parameter keeps it alive. MindSpore launches asynchronously: synchronise (`asnumpy()` of a result)
    before numpy reads what a primitive wrote, or writes what one still reads. Errors: TypeError,
    ValueError.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            sentence(name, f"a {type(array).__name__}", "only a numpy array", "make one with avsg.host_alloc")
        )
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError(
            sentence(
                name,
                f"an array with strides {array.strides}, writable {array.flags.writeable}",
                "only a contiguous, writable array",
                "make one with avsg.host_alloc",
            )
        )
    tensor = ms.Tensor.from_numpy(array)
    parameter = ms.Parameter(ms.mint.empty((1,), dtype=tensor.dtype), name=name, requires_grad=False)
    parameter.set_data(tensor, slice_shape=True)
    if array.size and parameter.data_ptr() != array.ctypes.data:
        raise RuntimeError(
            f"MindSpore {ms.__version__} copied {name} instead of using its memory: install the version that "
            "python -m pip install 'avsg[mindspore]' chooses."
        )
    return parameter


def zeros_parameter(shape: tuple[int, ...], dtype: np.dtype, name: str) -> ms.Parameter:
    """A zeroed Parameter whose memory starts at a multiple of 64 bytes (MindSpore's own starts at 16)."""
    return host_parameter(aligned_zeros(shape, np.dtype(dtype), alignment=64), name)
