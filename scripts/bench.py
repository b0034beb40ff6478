#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares match and load of the AVSG library on this CPU with plain C++ and numpy on the same data.

    scripts/bench.py match    slots for one request a call: library, dual pointer, hash map and list, numpy
    scripts/bench.py load     match and copy of 8 requests against copying every selected row
    scripts/bench.py model    scalar accesses and modelled time of a match on one vector core of an NPU

Every time but that of `model` is of this CPU, none of an NPU. The C++ side is compiled with -O3
-march=native at the start.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_measure
import bench_model
import click
import numpy as np
from bench_options import LIBRARY, POSITIVE, check_sizes, numbers, percents
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from avsg import _abi


def machine(library: str) -> str:
    """What ran the measurement, in one line."""
    cpu = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    compiler = subprocess.run(
        ["g++", "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return (
        f"{cpu}, {os.cpu_count()} threads, g++ {compiler} -O3, numpy {np.__version__}, {Path(library).name}"
    )


def report(title: str, columns: list[str], rows: list[list[str]], notes: list[str], library: str) -> None:
    """Prints rows as a table, with what ran them."""
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    console.print(table)
    for line in [*notes, f"CPU: {machine(library)}"]:
        console.print(line)


def report_json(title: str, records: list[dict], library: str) -> None:
    """Prints the records and the machine as JSON."""
    click.echo(json.dumps({"title": title, "machine": machine(library), "records": records}, indent=1))


def growth_notes(cases: list[list[dict]]) -> list[str]:
    """How a match grows from the smallest to the largest S, for each K and share of misses."""
    medians: dict[tuple[int, float], dict[int, float]] = {}
    for first, *_ in cases:
        medians.setdefault((first["top_k"], first["miss_share"]), {})[first["num_slots"]] = first["p50_us"]
    return [
        f"avsg, K={top_k}, {miss_share:.0%} misses: from S={min(times)} to {max(times)} the time grows "
        f"{times[max(times)] / times[min(times)]:.2f} times"
        for (top_k, miss_share), times in medians.items()
        if len(times) > 1
    ]


@click.group(help=__doc__.split("\n")[0])
def main() -> None:
    pass


@main.command()
@click.option("--top-k", default="256,512,1024,2048", callback=numbers, show_default=True)
@click.option("--slots", default="2048,4096,8192", callback=numbers, show_default=True)
@click.option(
    "--misses", default="0,5,10,20", callback=percents, show_default=True, help="Percent of a step's tokens."
)
@click.option(
    "--rows",
    default=16,
    type=POSITIVE,
    show_default=True,
    help="Requests that take turns, each with its own data.",
)
@click.option("--steps", default=20, type=POSITIVE, show_default=True, help="Measured steps of each request.")
@click.option("--seed", default=0, show_default=True)
@LIBRARY
@click.option("--json", "as_json", is_flag=True)
def match(
    top_k: list[float],
    slots: list[float],
    misses: list[float],
    rows: int,
    steps: int,
    seed: int,
    path: str,
    as_json: bool,
) -> None:
    """Time of a match: slots for the top-k of one request, allocation and linking included."""
    check_sizes(top_k, slots)
    cases = [(int(k), int(s), m / 100) for k in top_k for s in slots for m in misses if k <= s]
    records = []
    with (
        tempfile.TemporaryDirectory() as directory,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        native = bench_measure.build_native(directory)
        for k, s, miss_share in progress.track(cases, description="match"):
            records.append(
                bench_measure.measure_match(
                    native, path, k, s, miss_share, seed=seed, num_rows=rows, num_steps=steps
                )
            )
    title = "match: median us of one request (times the library's)"
    if as_json:
        report_json(title, sum(records, []), path)
        return
    table = [
        [
            *(str(first[key]) for key in ("top_k", "num_slots")),
            f"{first['hit_rate']:.0%}",
            *(f"{first[key]:.1f}" for key in ("p50_us", "p90_us")),
            *(f"{record['p50_us']:.1f} ({record['ratio']:.1f}x)" for record in others),
        ]
        for first, *others in records
    ]
    columns = ["K", "S", "hits", "avsg", "p90", *(record["method"] for record in records[0][1:])]
    report(title, columns, table, growth_notes(records), path)


@main.command()
@click.option(
    "--misses", default="0,5,20,100", callback=percents, show_default=True, help="Percent of a step's tokens."
)
@click.option("--requests", default=8, type=POSITIVE, show_default=True)
@click.option("--top-k", default=2048, show_default=True)
@click.option("--slots", default=8192, show_default=True)
@click.option("--row-bytes", default=1152, type=POSITIVE, show_default=True)
@click.option("--steps", default=40, type=POSITIVE, show_default=True, help="Measured steps.")
@click.option(
    "--threads",
    default=os.cpu_count(),
    type=POSITIVE,
    show_default=True,
    help="For the library and the baseline.",
)
@click.option("--seed", default=0, show_default=True)
@LIBRARY
@click.option("--json", "as_json", is_flag=True)
def load(
    misses: list[float],
    requests: int,
    top_k: int,
    slots: int,
    row_bytes: int,
    steps: int,
    threads: int,
    seed: int,
    path: str,
    as_json: bool,
) -> None:
    """Time of match and copy of all requests, against copying all K rows of each."""
    check_sizes([top_k], [slots])
    records = []
    with (
        tempfile.TemporaryDirectory() as directory,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        native = bench_measure.build_native(directory)
        for miss in progress.track(misses, description="load"):
            records.append(
                bench_measure.measure_load(
                    native,
                    path,
                    miss / 100,
                    seed=seed,
                    num_requests=requests,
                    top_k=top_k,
                    num_slots=slots,
                    row_bytes=row_bytes,
                    num_steps=steps,
                    num_threads=threads,
                )
            )
    title = (
        f"match and copy: {requests} requests, K={top_k}, S={slots}, {row_bytes}-byte rows, {threads} threads"
    )
    if as_json:
        report_json(title, records, path)
        return
    keys = ("avsg_p50_us", "avsg_p90_us", "copy_all_p50_us", "copy_all_p90_us")
    table = [
        [f"{record['miss_share']:.1%}", *(f"{record[key]:.0f}" for key in keys), f"{record['speedup']:.2f}x"]
        for record in records
    ]
    columns = ["misses", "avsg us", "p90", "copying all K rows us", "p90", "avsg is faster by"]
    report(title, columns, table, [], path)


@main.command()
@click.option("--json", "as_json", is_flag=True)
def model(as_json: bool) -> None:
    """Modelled cost of a match on one vector core, per query: scalar UB accesses and us, pipes overlapped."""
    records = []
    for case in bench_model.CASES:
        misses, scalars, us = bench_model.model_match(case).T
        records.append(
            {
                **{name: getattr(case, name) for name in ("top_k", "num_slots", "num_queries")},
                "miss_share": misses.mean() / case.top_k,
                "scalars_p50": float(np.median(scalars)),
                "scalars_max": scalars.max(),
                "modelled_us_p50": float(np.median(us)),
                "modelled_us_max": us.max(),
            }
        )
    title = f"match on one vector core at {bench_model.CLOCK_MHZ} MHz: counted and modelled, not measured"
    path = str(_abi.resolve("cpu-checked"))
    if as_json:
        report_json(title, records, path)
        return
    table = [
        [
            *(str(record[name]) for name in ("top_k", "num_slots", "num_queries")),
            f"{record['miss_share']:.1%}",
            *(f"{record[name]:.0f}" for name in ("scalars_p50", "scalars_max")),
            *(f"{record[name]:.1f}" for name in ("modelled_us_p50", "modelled_us_max")),
        ]
        for record in records
    ]
    columns = ["K", "S", "queries", "misses", "scalars", "max", "modelled us", "max"]
    report(title, columns, table, ["Launch excluded; a query."], path)


if __name__ == "__main__":
    main()
