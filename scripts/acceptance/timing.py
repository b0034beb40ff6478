# SPDX-License-Identifier: Apache-2.0
"""Times of match and load at the sizes of the paper: kernels by msprof where it is, and calls by events.

The text of the paper's protocol (its Appendix C) was not at hand; this is what its figures need: the chip
alone, warm-up steps that are not counted, then the median of many steps, 10th and 90th percentile beside it.
"""

from __future__ import annotations

import csv
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from device import Device
from device_pool import DevicePool, ReferencePool, Shape
from golden import fill
from run import lines

from avsg import LibraryError, LibraryNotFoundError, PoolConfig, _abi

CONTEXT = 48_000  # tokens of a request
WARM_STEPS, STEPS = 20, 100
OPERATORS = {"AvsgMatch": "match", "AvsgLoad": "load"}  # op types of the profiler


@dataclass(frozen=True)
class Case:
    """One line of the table: requests of top_k 2,048 and 1,152-byte rows, misses in percent of top_k."""

    num_slots: int
    miss_percent: int
    num_requests: int
    huge_pages: bool = True  # of the host memory

    @property
    def name(self) -> str:
        pages = "" if self.huge_pages else ", host memory without huge pages"
        return f"S={self.num_slots}, {self.miss_percent} % misses, {self.num_requests} request(s){pages}"

    @property
    def num_changed(self) -> int:
        return 2048 * self.miss_percent // 100


CASES = tuple(
    Case(num_slots, percent, requests)
    for requests in (1, 8)
    for num_slots in (2048, 8192)
    for percent in (5, 100)
)
# How host pages are allocated may decide about the bandwidth; the paper's match is one of hits alone.
CASES += (Case(8192, 100, 8, huge_pages=False), Case(2048, 0, 1))


def top_k_steps(rng: np.random.Generator, case: Case, num_steps: int):
    """topk_tokens int32 [B, 1, K] of each step; those that come in have left long ago, if ever there."""
    orders = np.stack([rng.permutation(CONTEXT) for _ in range(case.num_requests)])
    tokens = orders[:, :2048].copy()
    used = 2048
    for _ in range(num_steps):
        yield np.stack([rng.permutation(row) for row in tokens])[:, None].astype(np.int32)
        incoming = orders[:, np.arange(used, used + case.num_changed) % CONTEXT]
        used += case.num_changed
        leaving = rng.choice(2048, case.num_changed, replace=False)
        tokens[:, leaving] = incoming


def run_case(library: _abi.NativeLibrary, device: Device, case: Case, num_steps: int) -> dict[str, object]:
    """Times of WARM_STEPS + num_steps steps, the first left out: us by operator, and misses a request."""
    rng = np.random.default_rng(5)
    config = PoolConfig(case.num_requests, case.num_slots, 2048)
    shape = Shape(config, case.num_requests, (1024, 128), 400, 128, 375, huge_pages=case.huge_pages)
    twin, pool = ReferencePool(shape), DevicePool(library, device, shape)
    fill(twin, rng)
    pool.set_inputs(twin)
    us: dict[str, list[float]] = {"match": [], "load": []}
    misses = []
    try:
        for step, topk in enumerate(top_k_steps(rng, case, WARM_STEPS + num_steps)):
            pool.set_step(lines(topk, lease=1, seq_len=CONTEXT))
            measured = {name: device.elapsed_us(getattr(pool, name)) for name in us}
            if step >= WARM_STEPS:
                for name, value in measured.items():
                    us[name].append(value)
                misses.append(float(pool.read_plan()["num_misses"].mean()))
    finally:
        pool.close()
    return {
        "case": case.name,
        "misses": float(np.median(misses)),
        "load_bytes": int(np.median(misses) * case.num_requests * sum(shape.row_bytes)),
        "us": {k: spread(v) for k, v in us.items()},
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """p10, p50 and p90."""
    p10, p50, p90 = np.percentile(values, [10, 50, 90])
    return {"p10": float(p10), "p50": float(p50), "p90": float(p90)}


def profile_case(case: Case, command: Sequence[str], num_steps: int) -> dict[str, dict[str, float]] | str:
    """Kernel times of a case in a process of its own under msprof, or why there are none."""
    tool = shutil.which("msprof")
    if tool is None:
        return "msprof is not in PATH: source the set_env.sh of CANN"
    with tempfile.TemporaryDirectory() as folder:
        # msprof takes no arguments that need quotes; its documentation asks for a script around them.
        script = Path(folder, "case.sh")
        script.write_text(f"exec {shlex.join([*command, '--case', str(CASES.index(case))])}\n")
        run = [tool, f"--output={folder}", shutil.which("bash") or "/bin/bash", str(script)]
        try:
            done = subprocess.run(run, capture_output=True, text=True, timeout=900)
        except subprocess.TimeoutExpired:
            return "msprof did not end within 15 minutes"
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            return f"msprof ended with status {done.returncode} ({last})"
        return kernel_times(Path(folder), num_steps)


def kernel_times(folder: Path, num_steps: int) -> dict[str, dict[str, float]] | str:
    """Task durations of the operators in msprof's op_summary files, the last num_steps of each."""
    rows = []
    for path in sorted(folder.rglob("op_summary*.csv")):
        with path.open(newline="") as file:
            rows += list(csv.DictReader(file))
    times: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = OPERATORS.get((row.get("OP Type") or "").strip())
        if name is not None:
            try:
                started, us = (float(row[column]) for column in ("Task Start Time(us)", "Task Duration(us)"))
            except (KeyError, TypeError, ValueError):
                return "msprof's op_summary has no start and duration in us for every AVSG operator"
            times.setdefault(name, []).append((started, us))
    for op_type, name in OPERATORS.items():
        found = len(times.get(name, ()))
        if found < num_steps:
            return f"msprof's op_summary has {found} of {num_steps} {op_type}"
    return {name: spread([us for _, us in sorted(pairs)[-num_steps:]]) for name, pairs in times.items()}


def modelled_us(case: Case) -> float | None:
    """Median of scripts/bench.py model for one request of this case; None without the checked library."""
    from bench_model import Case as ModelCase
    from bench_model import model_match

    warm = 2 if case.num_slots == 2048 else 8192 // max(case.num_changed, 1)
    model = ModelCase(2048, case.num_slots, 1, case.num_changed, warm, 15)
    try:
        return float(np.median(model_match(model)[:, 2]))
    except (LibraryError, LibraryNotFoundError):
        return None
