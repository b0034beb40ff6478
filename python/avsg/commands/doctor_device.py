# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on the device: can the NPU address host memory, tried through libavsg_npu.so."""

from __future__ import annotations

from pathlib import Path

from .. import _abi
from .doctor_finding import Finding, run_python

TRY_HOST_MEMORY = """
import ctypes, sys
from ctypes import byref, c_void_p
from pathlib import Path
from avsg import _abi
try:
    acl = ctypes.CDLL("libascendcl.so")
except OSError as error:
    sys.exit(print(f"{error}; source the set_env.sh of the CANN toolkit first"))
code = acl.aclInit(None) or acl.aclrtSetDevice(0)
if code:
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    words = " ".join((acl.aclGetRecentErrMsg() or b"").decode(errors="replace").split())[:200]
    advice = "look at npu-smi info and $HOME/ascend/log"
    sys.exit(print(f"device 0 cannot be opened (code {code} {words}); {advice}"))
library = _abi.load(Path(sys.argv[1]))
host, alias = c_void_p(), c_void_p()
try:
    library.call("avsg_host_alloc", 2 << 20, byref(_abi.HostOptions()), byref(host), byref(alias))
    library.call("avsg_host_free", host)
except (ValueError, MemoryError, _abi.LibraryError) as error:
    sys.exit(print(error))
print("ok")
"""


def npu_library_paths() -> list[Path]:
    """Where libavsg_npu.so may be: in the Python package, beside it in an installed tree, in a build tree."""
    package = Path(_abi.__file__).resolve().parent
    root = package.parents[1]
    folders = [package / "lib", root / "lib", root / "build" / "npu", root / "build"]
    return [folder / _abi.file_name("npu") for folder in folders]


def npu_library() -> Path | None:
    """The first libavsg_npu.so there is."""
    return next((path for path in npu_library_paths() if path.is_file()), None)


def check_host_memory(has_device: bool, library: Path | None) -> list[Finding]:
    """Registers 2 MiB of host memory with device 0, where there is a device and the library."""
    name = "host memory"
    if not has_device:
        return []
    if library is None:
        text = f"not tried: no {_abi.file_name('npu')}"
        return [Finding(name, "absent", text, "Install the .run of AVSG that was built for an NPU.")]
    answer = run_python(TRY_HOST_MEMORY, str(library))
    if answer == "ok":
        return [Finding(name, "ok", "the NPU can address registered host memory")]
    advice = "AVSG keeps all KV there: do what the sentence says, then run avsg doctor again."
    return [Finding(name, "problem", answer, advice)]
