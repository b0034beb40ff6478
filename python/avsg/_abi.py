# SPDX-License-Identifier: Apache-2.0
"""ctypes binding of framework/c_api/avsg.h: structs, library discovery, error codes as exceptions."""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint32, c_void_p
from pathlib import Path

from .errors import LibraryError, LibraryNotFoundError, RuleViolationError, sentence

ABI_VERSION = 1
LIBRARY_NAMES = ("cpu", "cpu-checked", "npu")
_PACKAGE_DIR = Path(__file__).resolve().parent


class Struct(ctypes.Structure):
    """A struct of avsg.h; its first field is set to its own size."""

    def __init__(self, **fields: object) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(type(self)), **fields)


def _fields(*groups: tuple[type, str]) -> list[tuple[str, type]]:
    return [("struct_bytes", c_uint32), *((name, ctype) for ctype, names in groups for name in names.split())]


class Config(Struct):
    """avsg_config"""

    _fields_ = _fields((c_int32, "num_rows num_slots top_k num_queries max_life num_cores"))


class SizeReport(Struct):
    """avsg_size_report"""

    _fields_ = _fields(
        (c_int32, "num_buckets probe_rounds lag_min num_cores max_num_slots"),
        (c_int64, "state_row_bytes state_stride_bytes state_bytes workspace_bytes ub_bytes"),
    )


class Step(Struct):
    """avsg_step"""

    _fields_ = _fields(
        (c_int32, "num_entries num_queries"), (c_void_p, "topk_tokens verified_lens seq_lens leases rows")
    )


class PlanStruct(Struct):
    """avsg_plan"""

    _fields_ = _fields(
        (c_int32, "num_entries num_queries"),
        (c_void_p, "slots miss_tokens miss_slots num_misses counters rows verified_lens"),
    )


class Blocks(Struct):
    """avsg_blocks"""

    _fields_ = _fields(
        (c_int32, "num_entries max_blocks block_size"),
        (c_int64, "num_host_blocks"),
        (c_void_p, "block_table"),
    )


class Payload(Struct):
    """avsg_payload"""

    _fields_ = _fields((c_uint32, "reserved"), (c_int64, "row_bytes"), (c_void_p, "host_kv device_kv fresh"))


class StorePayload(Struct):
    """avsg_store_payload"""

    _fields_ = _fields((c_uint32, "reserved"), (c_int64, "row_bytes"), (c_void_p, "host_kv new_rows"))


class HostOptions(Struct):
    """avsg_host_options"""

    _fields_ = _fields((c_int32, "huge_pages"))


C_STRUCTS = {
    "avsg_config": Config,
    "avsg_size_report": SizeReport,
    "avsg_step": Step,
    "avsg_plan": PlanStruct,
    "avsg_blocks": Blocks,
    "avsg_payload": Payload,
    "avsg_store_payload": StorePayload,
    "avsg_host_options": HostOptions,
}
_PROTOTYPES = {
    "avsg_sizes": [POINTER(Config), POINTER(SizeReport)],
    "avsg_match": [POINTER(Config), POINTER(Step), c_void_p, POINTER(PlanStruct), c_void_p, c_void_p],
    "avsg_load": [
        POINTER(Config),
        POINTER(PlanStruct),
        POINTER(Blocks),
        POINTER(Payload),
        c_int32,
        c_void_p,
        c_void_p,
        c_void_p,
        c_void_p,
    ],
    "avsg_step_fused": [
        POINTER(Config),
        POINTER(Step),
        c_void_p,
        POINTER(PlanStruct),
        POINTER(Blocks),
        POINTER(Payload),
        c_int32,
        c_void_p,
        c_void_p,
        c_void_p,
    ],
    "avsg_store": [
        POINTER(Config),
        POINTER(Blocks),
        POINTER(StorePayload),
        c_int32,
        c_void_p,
        c_void_p,
        c_int32,
        c_void_p,
        c_void_p,
        c_void_p,
    ],
    "avsg_host_alloc": [c_int64, POINTER(HostOptions), POINTER(c_void_p), POINTER(c_void_p)],
    "avsg_host_free": [c_void_p],
}


class NativeLibrary:
    """One loaded libavsg_*.so. `call` turns an error code into the exception that its sentence deserves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._dll = ctypes.CDLL(str(path))
            self._dll.avsg_abi_version.restype = c_uint32
            version = self._dll.avsg_abi_version()
        except (OSError, AttributeError) as error:
            raise LibraryError(
                f"{path} is not a usable AVSG library ({error}): rebuild it with `pip install .`, or name "
                f"another one of {', '.join(LIBRARY_NAMES)}, reference or a path."
            ) from None
        if version != ABI_VERSION:
            raise LibraryError(
                f"{path} speaks version {version} of the AVSG C ABI, but this package speaks {ABI_VERSION}: "
                "rebuild the library and the package from the same source with `pip install .`."
            )
        self._dll.avsg_library_name.restype = c_char_p
        self._dll.avsg_last_error.restype = c_char_p
        for name, arguments in _PROTOTYPES.items():
            getattr(self._dll, name).argtypes = arguments
            getattr(self._dll, name).restype = ctypes.c_int
        self.name = self._dll.avsg_library_name().decode()

    @property
    def dll(self) -> ctypes.CDLL:
        """The ctypes handle, for calls that only one library has (counters of the CPU backend)."""
        return self._dll

    def call(self, function: str, *arguments: object) -> None:
        """Calls `function`; an error code raises an exception with the library's sentence."""
        code = getattr(self._dll, function)(*arguments)
        if code:
            text = (
                self._dll.avsg_last_error().decode(errors="replace") or f"{function} failed with code {code}"
            )
            raise _EXCEPTIONS.get(code, LibraryError)(text)

    def sizes(self, config: Config) -> SizeReport:
        """avsg_sizes"""
        report = SizeReport()
        self.call("avsg_sizes", byref(config), byref(report))
        return report


_EXCEPTIONS = {1: ValueError, 2: ValueError, 3: MemoryError, 4: RuleViolationError}
_loaded: dict[Path, NativeLibrary] = {}


def file_name(name: str) -> str:
    """File of a native library: cpu-checked is libavsg_cpu_checked.so."""
    return f"libavsg_{name.replace('-', '_')}.so"


def search_paths(name: str) -> list[Path]:
    """Where a library may be: the installed package, then the build directory of a source tree."""
    directories = [_PACKAGE_DIR / "lib"]
    root = _PACKAGE_DIR.parents[1]
    if (root / "CMakeLists.txt").exists():
        directories.append(root / "build")
    return [directory / file_name(name) for directory in directories]


def find_library(name: str) -> Path | None:
    """Path of the library called `name` ("cpu", "cpu-checked", "npu"), or None."""
    return next((path for path in search_paths(name) if path.exists()), None)


def resolve(library: str | os.PathLike[str] | None) -> str | Path:
    """ "reference", or the path of the library to load.

    library: "cpu", "cpu-checked", "npu", "reference" or a path. None: the environment variable AVSG_LIBRARY
    if set, else npu if present, else cpu. Errors: LibraryNotFoundError says where it looked and what to run.
    """
    if library is None:
        library = os.environ.get("AVSG_LIBRARY") or ("npu" if find_library("npu") else "cpu")
    text = os.fspath(library) if isinstance(library, (str, os.PathLike)) else library
    if not isinstance(text, str):
        names = f"reference, {', '.join(LIBRARY_NAMES)}"
        raise TypeError(sentence("library", repr(library), f"one of {names}, a path or None", "pass a str"))
    if text == "reference":
        return text
    if text in LIBRARY_NAMES:
        path = find_library(text)
        if path is None:
            looked = ", ".join(str(candidate) for candidate in search_paths(text))
            remedy = (
                'Build it on a machine with CANN, or use library="cpu".'
                if text == "npu"
                else "Run `pip install .` in the source tree (needs g++ and cmake), or use "
                'library="reference", which needs numpy only.'
            )
            raise LibraryNotFoundError(f"library {text!r} is not built: looked for {looked}. {remedy}")
        return path
    path = Path(text)
    if not path.is_file():
        raise LibraryNotFoundError(
            f"library {text!r} is neither a file nor one of reference, {', '.join(LIBRARY_NAMES)}: pass "
            "one of these names or the path of a libavsg_*.so."
        )
    return path.resolve()


def load(path: Path) -> NativeLibrary:
    """Loads a library once per process."""
    if path not in _loaded:
        _loaded[path] = NativeLibrary(path)
    return _loaded[path]


if sys.byteorder != "little":
    raise ImportError("AVSG keeps its state little-endian and runs on little-endian machines only")
