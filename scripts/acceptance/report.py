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


def _named(report: dict, result: str) -> list[str]:
    return [check["name"] for check in report["checks"] if check["result"] == result]


def summary(report: dict) -> str:
    """Counts of the results."""
    counts = [(name, len(_named(report, name))) for name in (PASS, PASS_ON_CPU, FAIL, NOT_RUN)]
    return ", ".join(f"{count} {name}" for name, count in counts if count) + "."


def verdict(report: dict) -> str:
    """What a reader may conclude about the chip."""
    if not report["device"]["chip"]:
        return "Verdict: none, because no chip was asked."
    failed, missing = _named(report, FAIL), _named(report, NOT_RUN)
    left_out = report["vectors"]["all"] - report["vectors"]["run"]
    missing += [f"{left_out} golden vectors"] if left_out > 0 else []
    missing += ["what only many repeats can show"] if report["trial"] else []
    not_shown = f" Not shown: {', '.join(missing)}." if missing else ""
    if failed:
        return f"Verdict: NOT ACCEPTED, do not serve with AVSG here. Failed: {', '.join(failed)}.{not_shown}"
    if missing:
        return f"Verdict: OPEN. Nothing failed, but the chip is not accepted yet.{not_shown}"
    return "Verdict: ACCEPTED. Every check and every golden vector passed on this chip."


def text(report: dict) -> str:
    """The whole report as plain text."""
    out = [
        "AVSG acceptance",
        headline(report),
        summary(report),
        verdict(report),
        f"AVSG {report['version']}, library {report['library']}, {report['time']}",
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
        return [f"Times: none, because {report['no_times']}.", ""]
    out = [f"Times in us, p50 (p10 to p90). call: {report['time_basis']}, its launch by the host included"]
    for line in report["times"]:
        if "failed" in line:
            out += [f"  {line['case']}", f"    failed: {line['failed']}"]
            continue
        out.append(f"  {line['case']}, {line['misses']:.0f} misses a request")
        kernel = line["kernel_us"]
        whole = isinstance(kernel, str)
        for name, us in line["us"].items():
            profiled = "" if whole else f"; kernel {_spread(kernel[name])}"
            out.append(f"    {name:<5} call {_spread(us)}{profiled}")
        if line["load_bytes"]:
            rate = line["load_bytes"] / (line["us"] if whole else kernel)["load"]["p50"] / 1e3
            out.append(
                f"    load moves {rate:.1f} GB/s of the {'call, a lower bound' if whole else 'kernel'}"
            )
        if whole:
            out.append(f"    no kernel times: {kernel}")
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
