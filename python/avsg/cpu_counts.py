# SPDX-License-Identifier: Apache-2.0
"""What a CPU library counted in its last launch, its core order and instruction set (avsg_cpu.h)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields

from . import layout
from ._abi import NativeLibrary, load, resolve
from .errors import sentence


@dataclass(frozen=True)
class CoreCounts:
    """What one core did in the last launch. Cycles are modelled, and 0 outside the checked library."""

    vector_instructions: int
    vector_repeats: int  # of 256 bytes
    gathered_words: int
    scalar_loads: int  # of UB
    scalar_stores: int  # to UB
    gm_scalars: int  # scalar loads and stores of GM
    dmas: int
    dma_bytes_in: int  # GM to UB
    dma_bytes_out: int  # UB to GM
    barriers: int
    flags: int
    syncs: int
    serial_cycles: float
    pipe_cycles: float


class CoreCountsStruct(ctypes.Structure):
    """avsg_cpu_core_counts"""

    _fields_ = [
        (field.name, ctypes.c_double if field.name.endswith("_cycles") else ctypes.c_uint64)
        for field in fields(CoreCounts)
    ]


class CpuLibrary:
    """The extra calls of a CPU library, for tests and benchmarks; they concern the whole process.

    library: "cpu", "cpu-checked" or a path. Errors: TypeError for the reference, which counts nothing.
    """

    def __init__(self, library: str = "cpu") -> None:
        resolved = resolve(library)
        if isinstance(resolved, str):
            raise TypeError(sentence("library", resolved, "cpu, cpu-checked or a path", "name a CPU library"))
        self._native: NativeLibrary = load(resolved)
        dll = self._native.dll
        dll.avsg_cpu_count.argtypes = [ctypes.c_int]
        dll.avsg_cpu_count.restype = None
        dll.avsg_cpu_counts.argtypes = [ctypes.POINTER(CoreCountsStruct), ctypes.c_int]
        dll.avsg_cpu_counts.restype = ctypes.c_int
        dll.avsg_cpu_shuffle.argtypes = [ctypes.c_uint64]
        dll.avsg_cpu_shuffle.restype = None
        dll.avsg_cpu_level.restype = ctypes.c_char_p
        dll.avsg_cpu_set_level.argtypes = [ctypes.c_char_p]
        dll.avsg_cpu_set_level.restype = ctypes.c_int
        self._dll = dll

    def count(self, on: bool) -> None:
        """Whether later launches count; off at first. The checked library always counts."""
        self._dll.avsg_cpu_count(int(on))

    def counts(self) -> list[CoreCounts]:
        """Counts of the last launch, one per core."""
        raw = (CoreCountsStruct * layout.MAX_CORES)()
        num_cores = self._dll.avsg_cpu_counts(raw, layout.MAX_CORES)
        names = [field.name for field in fields(CoreCounts)]
        return [CoreCounts(*(getattr(core, name) for name in names)) for core in raw[:num_cores]]

    def shuffle(self, seed: int) -> None:
        """Seed of the order in which the checked library runs cores."""
        self._dll.avsg_cpu_shuffle(seed)

    @property
    def level(self) -> str:
        """Instruction set in use: "x86-64-v3", "x86-64-v2", "portable" or "checked"."""
        return self._dll.avsg_cpu_level().decode()

    def set_level(self, level: str) -> None:
        """Chooses the instruction set, not during a launch; ValueError if build or CPU lack it."""
        if self._dll.avsg_cpu_set_level(level.encode()):
            raise ValueError(sentence("level", level, "a level of this build and CPU", f"keep {self.level}"))
