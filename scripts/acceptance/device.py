# SPDX-License-Identifier: Apache-2.0
"""Memory, streams, events and graphs of the device under acceptance: an NPU by libascendcl, or this CPU."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
import platform
import time
from collections.abc import Callable
from ctypes import byref, c_float, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Union

import numpy as np

from avsg.arrays import aligned_zeros

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # aclrtMemcpyKind
HUGE_FIRST = 0  # aclrtMemMallocPolicy
CAPTURE_GLOBAL = 0  # aclmdlRICaptureMode, the strictest: no call that waits or allocates is let through
STREAM_NOT_READY = 1  # aclrtStreamStatus
TIMEOUTS = (107020, 507046)  # ACL_ERROR_RT_TASK_TIMEOUT, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
LONGEST_WAIT = 300  # seconds; the longest check runs for a fraction of one between two waits
POISON = 0xA5


class DeviceError(RuntimeError):
    """A call to the device failed; the text names it, its code and CANN's words.

    is_broken: nothing runs on the device after it.
    """

    def __init__(self, text: str, code: int, is_broken: bool) -> None:
        super().__init__(text)
        self.code, self.is_broken = code, is_broken


class Unavailable(RuntimeError):
    """This device or CANN has no such function; the text says which."""


class CpuDevice:
    """This CPU as the device: its memory is host memory, and a call has finished when it returns."""

    is_chip = False
    stream = None

    def __init__(self) -> None:
        self._arrays: dict[int, np.ndarray] = {}
        self.name = f"{platform.machine()} CPU"

    def alloc(self, num_bytes: int) -> int:
        """Address of new memory."""
        array = aligned_zeros((max(num_bytes, 1),), alignment=512)
        self._arrays[array.ctypes.data] = array
        return array.ctypes.data

    def free(self, address: int) -> None:
        del self._arrays[address]

    def write(self, address: int, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array)
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address: int, array: np.ndarray) -> np.ndarray:
        """Fills a contiguous array from the device and returns it."""
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
        return array

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def beside(self) -> CpuDevice:
        raise Unavailable("a CPU has no streams")

    def elapsed_us(self, call: Callable[[], None]) -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e6

    def capture(self, call: Callable[[], None]) -> Callable[[], None]:
        raise Unavailable("a CPU has no graphs")


def load_acl() -> ctypes.CDLL:
    """libascendcl.so by name, then in the toolkit that ASCEND_HOME_PATH names."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    reasons = []
    for path in ("libascendcl.so", *([str(Path(home) / "lib64" / "libascendcl.so")] if home else [])):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise Unavailable(
        f"libascendcl.so does not load ({'; '.join(reasons)}): source the set_env.sh of CANN first, or pass "
        "--library cpu to try this script on the CPU."
    )


class AscendDevice:
    """Device `index` through the C functions of libascendcl: nothing but CANN itself is needed."""

    is_chip = True

    def __init__(self, index: int) -> None:
        self._acl = load_acl()
        self._acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self._acl.aclrtGetSocName.restype = ctypes.c_char_p
        self.call("aclInit", None)
        self.call("aclrtSetDevice", c_int32(index))
        self.name = (self._acl.aclrtGetSocName() or b"unknown").decode()
        self.stream = self._new("aclrtCreateStream").value
        self._events = [self._new("aclrtCreateEvent") for _ in range(2)]

    def call(self, function: str, *arguments: object) -> None:
        """Calls a function of ACL; pointers and sizes come as ctypes values."""
        try:
            code = getattr(self._acl, function)(*arguments)
        except AttributeError:
            raise Unavailable(f"this CANN has no {function}") from None
        if code:
            words = " ".join((self._acl.aclGetRecentErrMsg() or b"").decode(errors="replace").split())
            text = f"{function} failed with {code}" + (f" ({words[:300]})" if words else "")
            raise DeviceError(text, code, is_broken=507000 <= code < 508000)  # exceptions of the chip

    def _new(self, function: str) -> c_void_p:
        handle = c_void_p()
        self.call(function, byref(handle))
        return handle

    def alloc(self, num_bytes: int) -> int:
        address = c_void_p()
        self.call("aclrtMalloc", byref(address), c_size_t(max(num_bytes, 1)), c_int32(HUGE_FIRST))
        return address.value

    def free(self, address: int) -> None:
        self.call("aclrtFree", c_void_p(address))

    def write(self, address: int, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array)
        self._copy(address, array.ctypes.data, array.nbytes, HOST_TO_DEVICE)

    def read(self, address: int, array: np.ndarray) -> np.ndarray:
        self._copy(array.ctypes.data, address, array.nbytes, DEVICE_TO_HOST)
        return array

    def _copy(self, to: int, from_: int, num_bytes: int, kind: int) -> None:
        size = c_size_t(num_bytes)
        self.call("aclrtMemcpy", c_void_p(to), size, c_void_p(from_), size, c_int32(kind))

    def synchronize(self, seconds: int = LONGEST_WAIT) -> None:
        """Waits so long; what still runs then has stopped the device for good."""
        try:
            limit = c_int32(1000 * seconds)
            self.call("aclrtSynchronizeStreamWithTimeout", c_void_p(self.stream), limit)
        except DeviceError as error:
            ended = error.code in TIMEOUTS
            text = f"the stream did not end within {seconds} s: {error}" if ended else str(error)
            raise DeviceError(text, error.code, error.is_broken or ended) from None

    def is_busy(self) -> bool:
        """Whether something on the stream has not ended."""
        status = c_int32()
        self.call("aclrtStreamQuery", c_void_p(self.stream), byref(status))
        return status.value == STREAM_NOT_READY

    def beside(self) -> AscendDevice:
        """The same device with a stream of its own."""
        other = copy.copy(self)
        other.stream = self._new("aclrtCreateStream").value
        return other

    def elapsed_us(self, call: Callable[[], None]) -> float:
        """Time between two events around the call on the stream: launch and kernel."""
        start, end = self._events
        self.call("aclrtRecordEvent", start, c_void_p(self.stream))
        call()
        self.call("aclrtRecordEvent", end, c_void_p(self.stream))
        self.synchronize()
        milliseconds = c_float()
        self.call("aclrtEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value * 1e3

    def capture(self, call: Callable[[], None]) -> Callable[[], None]:
        """A function that replays what `call` launched; it does not wait."""
        stream, graph = c_void_p(self.stream), c_void_p()
        self.call("aclmdlRICaptureBegin", stream, c_int32(CAPTURE_GLOBAL))
        try:
            call()
        except BaseException:
            with contextlib.suppress(DeviceError):
                self.call("aclmdlRICaptureEnd", stream, byref(graph))
            raise
        self.call("aclmdlRICaptureEnd", stream, byref(graph))
        return lambda: self.call("aclmdlRIExecuteAsync", graph, stream)


Device = Union[CpuDevice, AscendDevice]
