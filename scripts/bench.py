#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares match and load of the AVSG library on this CPU with plain C++ and numpy on the same data.

    scripts/bench.py match    slots for one request a call: library, dual pointer, hash map and list, numpy
    scripts/bench.py load     match and copy of 8 requests against copying every selected row

Every time is of this CPU, none of an NPU. The C++ side is compiled with -O3 -march=native at the start.
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
import click
import numpy as np
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


def numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> list[float]:
    """Comma-separated numbers of an option."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 2048,4096.") from None


def report(
    title: str, columns: list[str], rows: list[list[str]], records: list[dict], library: str, as_json: bool
) -> None:
    """Prints the records as a table or as JSON, with the machine."""
    if as_json:
        click.echo(json.dumps({"title": title, "machine": machine(library), "records": records}, indent=1))
        return
    table = Table(
        title=title, caption=f"CPU: {machine(library)}", caption_justify="left", title_justify="left"
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=110 if not sys.stdout.isatty() else None).print(table)


@click.group(help=__doc__.split("\n")[0])
def main() -> None:
    pass


@main.command()
@click.option("--top-k", default="256,512,1024,2048", callback=numbers, show_default=True)
@click.option("--slots", default="2048,4096,8192", callback=numbers, show_default=True)
@click.option(
    "--misses", default="0,5,10,20", callback=numbers, show_default=True, help="Percent of a step's tokens."
)
@click.option(
    "--rows", default=16, show_default=True, help="Requests that take turns, each with its own data."
)
@click.option("--steps", default=20, show_default=True, help="Measured steps of each request.")
@click.option("--seed", default=0, show_default=True)
@click.option("--library", default="cpu", show_default=True, help="cpu, cpu-checked or a path.")
@click.option("--json", "as_json", is_flag=True)
def match(
    top_k: list[float],
    slots: list[float],
    misses: list[float],
    rows: int,
    steps: int,
    seed: int,
    library: str,
    as_json: bool,
) -> None:
    """Time of a match: slots for the top-k of one request, allocation and linking included."""
    path = str(_abi.resolve(library))
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
    table = [
        [
            f"{case[0]['top_k']}, {case[0]['num_slots']}, {case[0]['hit_rate']:.0%}",
            f"{case[0]['p50_us']:.1f}",
            f"{case[0]['p90_us']:.1f}",
            *(f"{record['p50_us']:.0f} ({record['ratio']:.1f}x)" for record in case[1:]),
        ]
        for case in records
    ]
    columns = ["K, S, hits", "avsg p50 us", "p90", *(f"{record['method']}" for record in records[0][1:])]
    report("match: median us a request (ratio to avsg)", columns, table, sum(records, []), path, as_json)


@main.command()
@click.option(
    "--misses", default="0,5,20,100", callback=numbers, show_default=True, help="Percent of a step's tokens."
)
@click.option("--requests", default=8, show_default=True)
@click.option("--top-k", default=2048, show_default=True)
@click.option("--slots", default=8192, show_default=True)
@click.option("--row-bytes", default=1152, show_default=True)
@click.option("--steps", default=40, show_default=True, help="Measured steps.")
@click.option(
    "--threads", default=os.cpu_count(), show_default=True, help="For the library and the baseline."
)
@click.option("--seed", default=0, show_default=True)
@click.option("--library", default="cpu", show_default=True, help="cpu, cpu-checked or a path.")
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
    library: str,
    as_json: bool,
) -> None:
    """Time of match and copy of all requests, against copying all K rows of each."""
    path = str(_abi.resolve(library))
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
    table = [
        [
            f"{record['miss_share']:.1%}",
            *(
                f"{record[key]:.0f}"
                for key in ("avsg_p50_us", "avsg_p90_us", "copy_all_p50_us", "copy_all_p90_us")
            ),
            f"{record['speedup']:.2f}x",
        ]
        for record in records
    ]
    title = (
        f"match and copy: {requests} requests, K={top_k}, S={slots}, {row_bytes}-byte rows, {threads} threads"
    )
    columns = ["misses", "avsg p50 us", "p90", "copy all rows p50 us", "p90", "avsg faster by"]
    report(title, columns, table, records, path, as_json)


if __name__ == "__main__":
    main()
