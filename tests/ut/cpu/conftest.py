# SPDX-License-Identifier: Apache-2.0
"""Builds the CPU backend with the test kernels, once per level, and runs them through ctypes."""

import ctypes
import platform
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
CPU = HERE.parents[2] / "framework" / "cpu"
HALF = 64 * 1024
OPERAND = 16 * 1024
FLAGS = ["-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", f"-I{CPU}", f"-I{HERE}"]
LEVELS = ["x86-64-v2", "x86-64-v3", "checked"] if platform.machine() == "x86_64" else ["portable", "checked"]
KERNEL_SOURCES = [
    "operations.cpp",
    "operations_move.cpp",
    "operations_memory.cpp",
    "broken.cpp",
    "broken_order.cpp",
    "driver.cpp",
]
DTYPES = {
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "float": np.float32,
}
UNTOUCHED = 0xEE


def untouched(out, start):
    """All bytes from `start` on still hold what was there before."""
    return bool((out[start:] == UNTOUCHED).all())


class RuleBroken(Exception):
    """The sentence of the checked build."""


class CoreCounts(ctypes.Structure):
    """Mirror of avsg_cpu_core_counts."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in [
            *("vector_instructions", "vector_repeats", "gathered_words", "scalar_loads", "scalar_stores"),
            *("gm_scalars", "dmas", "dma_bytes_in", "dma_bytes_out", "barriers", "flags", "syncs"),
        ]
    ] + [("serial_cycles", ctypes.c_double), ("pipe_cycles", ctypes.c_double)]


class Cpu:
    """One build of the backend with the test kernels."""

    def __init__(self, level: str, library: Path) -> None:
        self.level = level
        self.checked = level == "checked"
        self.library = ctypes.CDLL(str(library))
        self.library.make_list.argtypes = [ctypes.c_void_p]
        self.library.make_list.restype = ctypes.c_uint64
        self.library.avsg_cpu_shuffle.argtypes = [ctypes.c_uint64]

    def run(self, name, *operands, p=(), num_cores=1, before=0xEE):
        """Runs a kernel on operands A, B, C, D. Returns its 64 KiB result; each byte held `before`."""
        inputs = np.zeros(HALF, np.uint8)
        for i, operand in enumerate(operands):
            data = np.frombuffer(np.ascontiguousarray(operand).tobytes(), np.uint8)
            inputs[i * OPERAND : i * OPERAND + data.size] = data
        return self.run_raw(name, inputs, p=p, num_cores=num_cores, before=before)

    def run_raw(self, name, inputs, *, p=(), num_cores=1, before=0xEE):
        out = np.full(HALF, before, np.uint8)
        parameters = np.zeros(16, np.int64)
        parameters[: len(p)] = p
        message = ctypes.create_string_buffer(2000)
        failed = self.library.run(
            name.encode(),
            num_cores,
            inputs.ctypes.data_as(ctypes.c_void_p),
            out.ctypes.data_as(ctypes.c_void_p),
            parameters.ctypes.data_as(ctypes.c_void_p),
            message,
            len(message),
        )
        if failed:
            raise RuleBroken(message.value.decode())
        return out

    def counts(self, num_cores=1):
        out = (CoreCounts * num_cores)()
        self.library.avsg_cpu_counts(out, num_cores)
        return list(out)


def compile_objects(level: str, folder: Path) -> list:
    """Objects of the runtime and of the test kernels for one level."""
    checked = int(level == "checked")
    march = [f"-march={level}"] if level.startswith("x86") else []
    identifier = level.replace("-", "_")
    jobs = []
    for name in [
        "hardware.cpp",
        "pool.cpp",
        "fibers.cpp",
        "checks.cpp",
        "hazards.cpp",
        "device_order.cpp",
        "registry.cpp",
        "timeline.cpp",
    ]:
        jobs.append((CPU / "runtime" / name, [f"-DAVSG_CPU_CHECKED={checked}"]))
    for name in KERNEL_SOURCES:
        jobs.append(
            (HERE / name, [f"-DAVSG_CPU_CHECKED={checked}", f"-DAVSG_CPU_LEVEL={identifier}", *march])
        )

    def compile_one(job):
        source, definitions = job
        target = folder / f"{identifier}_{source.stem}.o"
        subprocess.run(["g++", *FLAGS, *definitions, "-c", str(source), "-o", str(target)], check=True)
        return target

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compile_one, jobs))


@pytest.fixture(scope="session")
def builds(tmp_path_factory):
    """Level to (library, objects), built when asked for."""
    folder = tmp_path_factory.mktemp("cpu")
    done = {}

    def build(level):
        if level not in done:
            objects = compile_objects(level, folder)
            library = folder / f"lib{level}.so"
            subprocess.run(
                ["g++", "-shared", *map(str, objects), "-o", str(library), "-lpthread"], check=True
            )
            done[level] = (Cpu(level, library), objects)
        return done[level]

    return build


@pytest.fixture(params=LEVELS)
def cpu(request, builds):
    """Every build in turn."""
    return builds(request.param)[0]


@pytest.fixture(params=[level for level in LEVELS if level != "checked"])
def fast(request, builds):
    """Every fast build in turn."""
    return builds(request.param)[0]


@pytest.fixture
def checked(builds):
    """The checked build."""
    return builds("checked")[0]
