# SPDX-License-Identifier: Apache-2.0
"""The report of a run: results, times and machine as JSON, and the same as text to read."""

from __future__ import annotations

import json
from pathlib import Path

PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT RUN"
PASS_ON_CPU = "PASS ON CPU"  # says nothing about a chip, and never counts as PASS


def headline(report: dict) -> str:
    """One sentence: what ran where."""
    device = report["device"]
    if not device["chip"]:
        return f"This was a CPU and no chip ({device['name']}): nothing below is shown about an NPU."
    trial = " It was a trial with few repeats." if report["trial"] else ""
    return f"This ran on {device['name']}, device {device['index']}.{trial}"


def summary(report: dict) -> str:
    """Counts of the results, and what a reader has to know first."""
    results = [check["result"] for check in report["checks"]]
    counts = [
        f"{results.count(name)} {name}" for name in (PASS, PASS_ON_CPU, FAIL, NOT_RUN) if name in results
    ]
    return ", ".join(counts) + "."


def text(report: dict) -> str:
    """The whole report as plain text."""
    out = [
        "AVSG acceptance",
        headline(report),
        summary(report),
        f"library {report['library']}, {report['time']}",
        "",
    ]
    for group in dict.fromkeys(check["group"] for check in report["checks"]):
        out.append(group)
        for check in report["checks"]:
            if check["group"] == group:
                out += [f"  {check['result']:<11} {check['name']}", f"              {check['shows']}"]
                out += [f"              -> {check['detail']}"] if check["detail"] else []
        out.append("")
    out += time_lines(report)
    out.append("Machine (avsg doctor)")
    for finding in report["machine"]:
        out.append(f"  {finding['state']:<8} {finding['name']}: {finding['found']}")
        out += [f"           {finding['advice']}"] if finding["state"] != "ok" and finding["advice"] else []
    return "\n".join(out) + "\n"


def time_lines(report: dict) -> list[str]:
    """The table of times; a time is p50 (p10 to p90)."""
    if not report["times"]:
        return []
    out = [f"Times in us, {report['time_basis']}"]
    for line in report["times"]:
        out.append(f"  {line['case']}, {line['misses']:.0f} misses a request")
        for name, us in line["us"].items():
            kernel = line["kernel_us"]
            profiled = "" if isinstance(kernel, str) else f"; kernel {_spread(kernel[name])}"
            out.append(f"    {name:<5} call {_spread(us)}{profiled}")
        times = line["us"] if isinstance(line["kernel_us"], str) else line["kernel_us"]
        out.append(f"    load moves {line['load_bytes'] / times['load']['p50'] / 1e3:.1f} GB/s")
        if isinstance(line["kernel_us"], str):
            out.append(f"    no kernel times: {line['kernel_us']}")
        if line["modelled_us"] is not None:
            out.append(
                f"    match of one request, modelled by scripts/bench.py model: {line['modelled_us']:.1f}"
            )
    return [*out, ""]


def _spread(us: dict[str, float]) -> str:
    return f"{us['p50']:.1f} ({us['p10']:.1f} to {us['p90']:.1f})"


def write(report: dict, folder: Path) -> tuple[Path, Path]:
    """Writes report.json and report.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "report.json", folder / "report.txt"
    paths[0].write_text(json.dumps(report, indent=1) + "\n")
    paths[1].write_text(text(report))
    return paths
