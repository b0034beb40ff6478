# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench.py measures: data, the compiled C++ side and the runs."""

from __future__ import annotations

import ctypes
import subprocess
import time
from pathlib import Path

import numpy as np

import avsg

ROOT = Path(__file__).resolve().parent.parent
BASELINES = ("dual pointer, std::sort", "dual pointer, radix", "hash map + LRU list")
CONTEXT = 49152  # tokens of a request
BLOCK_SIZE = 128
I32, I64 = ctypes.c_int32, ctypes.c_int64


class WrongResult(RuntimeError):
    """A measured method gave a wrong slot or row, so its time means nothing."""


class MatchData(ctypes.Structure):
    """bench::Data."""

    _fields_ = [("topk_tokens", ctypes.c_void_p)] + [
        (name, I32) for name in ("num_steps", "num_warm_steps", "num_rows", "top_k", "num_slots")
    ]


class LoadData(ctypes.Structure):
    """bench::LoadData."""

    _fields_ = (
        [(name, ctypes.c_void_p) for name in ("host_kv", "device_kv", "block_table")]
        + [("row_bytes", I64), ("num_host_blocks", I64)]
        + [(name, I32) for name in ("num_requests", "top_k", "num_slots", "max_blocks", "block_size")]
    )


class Result(ctypes.Structure):
    """bench::Result."""

    _fields_ = [(name, I64) for name in ("num_wrong", "num_misses", "num_calls")]


def build_native(directory: str) -> ctypes.CDLL:
    """Compiles the measured C++ with -O3 for this CPU."""
    output = Path(directory) / "bench.so"
    command = ["g++", "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-o", str(output)]
    command += [f"-I{ROOT / folder}" for folder in ("scripts", "framework/c_api", "op_kernel")]
    command += [str(ROOT / "scripts" / name) for name in ("bench_baselines.cpp", "bench_library.cpp")]
    subprocess.run([*command, "-ldl", "-pthread"], check=True)
    native = ctypes.CDLL(str(output))
    native.bench_copy_all.restype = native.bench_step_library.restype = I64
    return native


def make_topk(
    rng: np.random.Generator, num_steps: int, top_k: int, miss_share: float, fill_steps: int
) -> np.ndarray:
    """Top-k tokens int32 [fill_steps + num_steps, K] of one request.

    A step keeps a random part of the last one and takes the rest from tokens not used for long: every policy
    that keeps the last step has the same misses.
    The first fill_steps change everything, so that the buffer is full when the measurement starts.
    """
    ring, taken = rng.permutation(CONTEXT).astype(np.int32), 0
    steps = np.empty((fill_steps + num_steps, top_k), np.int32)
    current = np.empty(0, np.int32)
    for step in range(len(steps)):
        num_new = top_k if step < fill_steps else round(top_k * miss_share)
        kept = rng.permutation(current)[: top_k - num_new]
        new = np.empty(0, np.int32)
        while new.size < num_new:
            candidates = ring[(taken + np.arange(num_new - new.size)) % CONTEXT]
            taken += candidates.size
            new = np.concatenate([new, candidates[~np.isin(candidates, current)]])
        current = rng.permutation(np.concatenate([kept, new]))
        steps[step] = current
    return steps


def stack(seed: int, num_requests: int, *shape: float) -> np.ndarray:
    """make_topk of several requests, each with its own seed: int32 [steps, num_requests, K]."""
    requests = [make_topk(np.random.default_rng([seed, request]), *shape) for request in range(num_requests)]
    return np.ascontiguousarray(np.stack(requests, axis=1))


def reference_times(topk: np.ndarray, num_slots: int, num_warm: int, num_steps: int) -> tuple[list[int], int]:
    """Nanoseconds of the numpy reference's matches, one request a call, and their misses."""
    num_rows, top_k = topk.shape[1:]
    pool = avsg.Pool(avsg.PoolConfig(num_rows, num_slots, top_k), library="reference")
    full = np.array([CONTEXT], np.int32)
    one = np.ones(1, np.int32)
    times, misses = [], 0
    for step in range(num_warm + num_steps):
        for row in range(num_rows):
            tokens, rows = topk[step, row][None, None], np.array([row], np.int32)
            begin = time.perf_counter_ns()
            plan = pool.match(tokens, verified_lens=full, seq_lens=full, leases=one, rows=rows, check=False)
            if step >= num_warm:
                times.append(time.perf_counter_ns() - begin)
                misses += int(plan.num_misses[0])
    return times, misses


def measure_match(
    native: ctypes.CDLL,
    library: str,
    top_k: int,
    num_slots: int,
    miss_share: float,
    *,
    seed: int,
    num_rows: int,
    num_steps: int,
) -> list[dict]:
    """One record per method: p50 and p90 of a match, hit rate, ratio to the library's median."""
    num_warm = num_slots // top_k + 4
    topk = stack(seed, num_rows, num_steps + 4, top_k, miss_share, num_warm - 4)
    data = MatchData(topk.ctypes.data, len(topk), num_warm, num_rows, top_k, num_slots)
    records = []
    for method in ("avsg", *BASELINES, "numpy"):
        result, times = Result(), np.zeros(num_steps * num_rows, np.int64)
        clock = times.ctypes.data_as(ctypes.c_void_p)
        if method == "avsg":
            native.bench_match_library(library.encode(), ctypes.byref(data), clock, ctypes.byref(result))
        elif method in BASELINES:
            index = BASELINES.index(method)
            native.bench_match_baseline(index, ctypes.byref(data), clock, ctypes.byref(result))
        else:
            measured, misses = reference_times(topk, num_slots, num_warm, 2)
            times, result = np.array(measured), Result(0, misses, len(measured))
        if result.num_wrong:
            raise WrongResult(f"{method}: {result.num_wrong} wrong slots at K={top_k}, S={num_slots}.")
        records.append(
            {
                "method": method,
                "top_k": top_k,
                "num_slots": num_slots,
                "miss_share": miss_share,
                "hit_rate": 1 - result.num_misses / (result.num_calls * top_k),
                "p50_us": float(np.median(times)) / 1e3,
                "p90_us": float(np.percentile(times, 90)) / 1e3,
            }
        )
    for record in records:
        record["ratio"] = record["p50_us"] / records[0]["p50_us"]
    return records


def measure_load(
    native: ctypes.CDLL,
    library: str,
    miss_share: float,
    *,
    seed: int,
    num_requests: int,
    top_k: int,
    num_slots: int,
    row_bytes: int,
    num_steps: int,
    num_threads: int,
) -> dict:
    """Medians of match and copy with the library and of copying all selected rows, and their ratio."""
    fill = num_slots // top_k
    topk = stack(seed, num_requests, num_steps + 4, top_k, miss_share, fill)
    rng = np.random.default_rng(seed)
    max_blocks = CONTEXT // BLOCK_SIZE
    num_blocks = num_requests * max_blocks
    table = rng.permutation(num_blocks).astype(np.int32)
    words = np.arange(num_blocks * BLOCK_SIZE * row_bytes // 8, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    device = np.zeros(num_requests * num_slots * row_bytes, np.uint8)
    data = LoadData(
        words.ctypes.data,
        device.ctypes.data,
        table.ctypes.data,
        row_bytes,
        num_blocks,
        num_requests,
        top_k,
        num_slots,
        max_blocks,
        BLOCK_SIZE,
    )
    tokens = topk.ctypes.data_as(ctypes.c_void_p)
    library_times, all_times, misses = (np.zeros(len(topk), np.int64) for _ in range(3))
    wrong = native.bench_step_library(
        library.encode(),
        ctypes.byref(data),
        tokens,
        len(topk),
        num_threads,
        library_times.ctypes.data_as(ctypes.c_void_p),
        misses.ctypes.data_as(ctypes.c_void_p),
    )
    wrong += native.bench_copy_all(
        ctypes.byref(data), tokens, len(topk), num_threads, all_times.ctypes.data_as(ctypes.c_void_p)
    )
    if wrong:
        raise WrongResult(f"{wrong} wrong rows at {miss_share:.0%} misses.")
    warm = fill + 4
    record = {"miss_share": float(misses[warm:].sum()) / topk[warm:].size}
    for name, times in (("avsg", library_times[warm:]), ("copy_all", all_times[warm:])):
        record[f"{name}_p50_us"] = float(np.median(times)) / 1e3
        record[f"{name}_p90_us"] = float(np.percentile(times, 90)) / 1e3
    record["speedup"] = record["copy_all_p50_us"] / record["avsg_p50_us"]
    return record
