# SPDX-License-Identifier: Apache-2.0
"""Prelude of a process that runs libavsg_npu.so on the fake CANN of its environment."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_void_p
from pathlib import Path

from abi_calls import Calls
from avsg import _abi
from fake_cann import NPU_LIBRARY

library = _abi.load(NPU_LIBRARY)
acl = ctypes.CDLL(str(Path(os.environ["ASCEND_HOME_PATH"]) / "lib64" / "libascendcl.so"))
package = ctypes.CDLL(str(Path(os.environ["ASCEND_OPP_PATH"]) / "vendors/avsg/op_api/lib/libcust_opapi.so"))
package.FakeAttributes.restype = ctypes.c_char_p
CALLS = ("match", "load", "step_fused", "store")


def fail(function: str, code: int, message: str = "planned") -> None:
    """From now on this function of the fake fails; code 0: no more."""
    acl.FakeFail(function.encode(), code, message.encode())


def calls(fresh: bool = True) -> Calls:
    """Valid arguments; their memory is the host's, so that a launch fails on the fake device."""
    result = Calls(library, fresh)
    result.config.num_cores = 0
    return result


def host_alloc(num_bytes: int, huge_pages: int = 0) -> tuple[int, int]:
    """Address for the CPU and for the device."""
    host, alias = c_void_p(), c_void_p()
    options = _abi.HostOptions(huge_pages=huge_pages)
    library.call("avsg_host_alloc", num_bytes, byref(options), byref(host), byref(alias))
    return host.value, alias.value


acl.aclrtSetDevice(0)
