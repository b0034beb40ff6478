# SPDX-License-Identifier: Apache-2.0
"""scripts/npu_acceptance.sh: a report that says what ran where, and never PASS for what did not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fake_cann

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "npu_acceptance.sh"
SILICON = [
    "int32 multiply",
    "Select moves bits",
    "SyncAll visibility",
    "SyncAll on two streams",
    "host writes seen past L2",
    "store seen by the next load",
    "656-byte neighbour stores",
    "one-row latency from host memory",
    "graph replays",
]
MSPROF = """#!/bin/sh
"exec" "{python}" "$0" "$@"
import subprocess, sys
from pathlib import Path
output, *command = sys.argv[1:]
assert all(set(word).isdisjoint(" ()%*$'\\"") for word in command), command  # msprof splits such words
subprocess.run(command, check=True)
folder = Path(output.partition("=")[2]) / "PROF_1" / "mindstudio_profiler_output"
folder.mkdir(parents=True)
lines = ["Op Name,OP Type,Task Start Time(us),Task Duration(us)"]
for step in range(25):
    cold = 900 if step < 20 else 0
    lines.append(f"aclnnAvsgMatch_1,AvsgMatch,{{2 * step}}.5,{{cold + 20 + step % 5}}.0")
    lines.append(f"aclnnAvsgLoad_1,AvsgLoad,{{2 * step + 1}}.5,{{cold + 7}}.25")
    lines.append(f"other,Cast,{{2 * step}}.0,1.0")
(folder / "op_summary_1.csv").write_text("\\n".join(lines))
"""


def accept(folder: Path, *options: object, **environment: str) -> tuple[int, dict, str]:
    """Exit status, report and its text (or the output, where there is no report) of a trial run."""
    command = ["bash", str(SCRIPT), "--trial", "--output", str(folder / "report"), *map(str, options)]
    variables = fake_cann.clean_environment(**environment)
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables["PATH"]])
    done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=folder, timeout=300)
    report = folder / "report" / "report.json"
    if not report.exists():
        return done.returncode, {}, done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text()), report.with_suffix(".txt").read_text()


def results(report: dict) -> dict[str, str]:
    return {check["name"]: check["result"] for check in report["checks"]}


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, str]:
    return fake_cann.make_tree(tmp_path / "cann")


NPU = ("--library", fake_cann.NPU_LIBRARY)
FARTHER = {"FAKE_SLOWER": "8"}  # us more at each measurement: 25 of 200 loads make a row 1.00 us slower


def test_a_cpu_is_called_a_cpu_and_nothing_passes_as_a_chip(tmp_path: Path) -> None:
    status, report, text = accept(tmp_path, "--library", "cpu", "--vectors", "aliases,hostile")
    assert status == 0 and report["device"]["chip"] is False
    names = [*SILICON, "aliases", "hostile", "store"]
    expected = dict.fromkeys(names, "PASS ON CPU")
    needs_a_chip = ("one-row latency from host memory", "graph replays", "SyncAll on two streams")
    expected |= dict.fromkeys(needs_a_chip, "NOT RUN")
    assert results(report) == expected
    assert "This was a CPU and no chip" in text and "9 PASS ON CPU, 3 NOT RUN." in text
    assert "Verdict: none, because no chip was asked." in text
    assert [line["us"]["match"]["p50"] > 0 for line in report["times"]] == [True, True]
    assert {finding["name"] for finding in report["machine"]} >= {"Python", "CANN", "library cpu"}


def test_all_vectors_and_assumptions_pass_through_aclnn_on_the_fake(tmp_path: Path, tree) -> None:
    """The descriptors of libavsg_npu.so carry every golden vector bit for bit; a captured step replays."""
    status, report, text = accept(tmp_path, *NPU, "--no-times", **tree, **FARTHER)
    assert status == 0, text
    vectors = {path.stem for path in (ROOT / "tests" / "golden").glob("*.npz")}
    assert results(report) == dict.fromkeys([*SILICON, *vectors, "store"], "PASS")
    assert len(vectors) >= 27 and report["trial"] and "It was a trial with few repeats." in text
    assert "Verdict: OPEN. Nothing failed" in text and "Not shown: what only many repeats can show." in text
    assert "Times: none, because --no-times was given." in text
    details = {check["name"]: check["detail"] for check in report["checks"]}
    assert details["graph replays"] == "200 replays equal 200 steps"


@pytest.mark.parametrize(
    ("wrong", "failed", "sentence"),
    [
        ("slots", {"Select moves bits", "int32 multiply", "aliases"}, "slots[0, 0, 0] is"),
        ("state", {"Select moves bits", "int32 multiply", "aliases"}, "state row [0] is"),
        (
            "device_kv",
            {"host writes seen past L2", "656-byte neighbour stores"},
            "device_kv of payload 0 [",
        ),
    ],
)
def test_one_wrong_bit_fails_and_the_rest_still_runs(
    tmp_path: Path, tree, wrong: str, failed: set[str], sentence: str
) -> None:
    environment = {**tree, **FARTHER, "FAKE_WRONG": wrong}
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", **environment)
    assert status == 1 and "Verdict: NOT ACCEPTED" in text and "26 golden vectors" in text
    assert "Times: none, because a check failed." in text
    found = results(report)
    assert {name for name, result in found.items() if result == "FAIL"} >= failed
    assert found["store"] == "PASS" and set(found.values()) <= {"PASS", "FAIL"}
    assert sentence in text and report["times"] == []


def test_a_missing_function_of_the_chip_is_a_failure_of_its_check_only(tmp_path: Path, tree) -> None:
    failing = {"FAKE_FAIL": "aclmdlRICaptureBegin=107030"}
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", "--no-times", **tree, **failing)
    found = results(report)
    assert status == 1 and found.pop("graph replays") == "FAIL"
    assert found.pop("one-row latency from host memory") == "NOT RUN" and "it needs graphs: aclmdl" in text
    assert set(found.values()) == {"PASS"}
    assert "aclmdlRICaptureBegin failed with 107030 (planned by FAKE_FAIL)" in text


@pytest.mark.parametrize(
    ("slower", "result", "words"),
    [
        (
            "8",
            "PASS",
            "1.32 us, assumed 1.35 (a load of one row takes 1.63 us from the host and 0.63 from",
        ),
        ("40", "FAIL", "5.32 us, assumed 1.35"),
        ("0", "NOT RUN", "the times do not tell the two apart"),
    ],
)
def test_a_latency_passes_only_where_it_is_measured_and_within_the_models(
    tmp_path: Path, tree, slower: str, result: str, words: str
) -> None:
    """Times that do not differ, or the wrong way round, show nothing about host memory."""
    options = (*NPU, "--vectors", "aliases", "--no-times")
    status, report, text = accept(tmp_path, *options, **tree, FAKE_SLOWER=slower)
    assert results(report)["one-row latency from host memory"] == result and words in text
    assert status == (result == "FAIL")


def test_streams_that_never_waited_at_the_same_time_show_nothing(tmp_path: Path, tree) -> None:
    options = (*NPU, "--vectors", "aliases", "--no-times")
    status, report, text = accept(tmp_path, *options, **tree, FAKE_IDLE="1")
    assert results(report)["SyncAll on two streams"] == "NOT RUN" and "the streams did not compete" in text
    assert status == 0 and "Verdict: OPEN" in text and "Not shown: SyncAll on two streams, " in text


def test_nothing_is_asked_of_a_device_that_broke(tmp_path: Path, tree) -> None:
    failing = {"FAKE_FAIL": "aclrtSynchronizeStreamWithTimeout=507035"}
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", **tree, **failing)
    assert status == 1
    assert list(results(report).values()) == ["FAIL", *["NOT RUN"] * (len(SILICON) + 1)]
    assert "the device failed in int32 multiply" in text


@pytest.mark.parametrize("code", [107020, 507046])
def test_a_kernel_that_never_ends_ends_the_run_with_a_report(tmp_path: Path, tree, code: int) -> None:
    failing = {"FAKE_FAIL": f"aclrtSynchronizeStreamWithTimeout={code}"}
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", **tree, **failing)
    found = list(results(report).values())
    assert status == 1 and found[0] == "FAIL" and set(found[1:]) == {"NOT RUN"}
    assert "the stream did not end within 300 s: aclrtSynchronizeStreamWithTimeout failed with" in text


def test_a_case_that_cannot_be_timed_leaves_the_results_of_the_checks(tmp_path: Path, tree) -> None:
    failing = {"FAKE_MOST_HOST_BYTES": "20000000"}  # the timed cases have 59 MB of host rows
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", **tree, **failing)
    assert status == 0 and results(report)["store"] == "PASS"
    assert len(report["times"]) == 2 and "failed: aclrtHostRegister of" in text


def test_kernel_times_are_the_profilers_without_the_warm_steps(tmp_path: Path, tree) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "msprof").write_text(MSPROF.format(python=sys.executable))
    (tools / "msprof").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", **tree, PATH=path)
    assert status == 0, text
    (first, *_) = report["times"]
    assert first["kernel_us"]["match"] == {"p10": 20.4, "p50": 22.0, "p90": 23.6}
    assert first["kernel_us"]["load"]["p50"] == 7.25
    assert "; kernel 22.0 (20.4 to 23.6)" in text


def test_no_profiler_is_said_beside_the_times_of_events(tmp_path: Path, tree) -> None:
    status, report, text = accept(tmp_path, *NPU, "--vectors", "aliases", **tree)
    assert status == 0 and "msprof is not in PATH" in text and "GB/s of the call, a lower bound" in text
    reason = "msprof is not in PATH: source the set_env.sh of CANN"
    assert report["times"][0]["us"]["match"] == pytest.approx({"p10": 10, "p50": 10, "p90": 10})
    assert [line["kernel_us"] for line in report["times"]] == [reason] * 2
    assert report["times"][1]["misses"] == 2048 and report["time_basis"] == "by events of the stream"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["OP Type,Task Start Time(us),Task Duration(us)", "AvsgMatch,1.5\t,2.0\t"] * 3, "0 of 5 AvsgLoad"),
        (
            ["OP Type,Task Start Time(us),Task Duration(us)", "AvsgMatch,N/A,2.0"],
            "no start and duration in us",
        ),
        (["OP Type,Task Duration(us)", "AvsgLoad,2.0"], "no start and duration in us"),
        ([], "0 of 5 AvsgMatch"),
    ],
)
def test_a_summary_of_the_profiler_that_says_too_little_gives_no_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], words: str
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "acceptance"))
    from timing import kernel_times

    head, *rest = lines or [""]
    body = [line for line in rest if line != head]
    (tmp_path / "op_summary_1.csv").write_text("\n".join([head, *body * 5]))
    assert words in kernel_times(tmp_path, 5)


def test_help_names_the_options_of_the_script_itself(tmp_path: Path) -> None:
    status, _, output = accept(tmp_path, "--help")
    assert status == 0 and "Usage: scripts/npu_acceptance.sh" in output
    assert "--package FILE.run" in output and "--install-path DIR" in output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--library", fake_cann.NPU_LIBRARY), "libascendcl.so does not load"),
        (("--library", "gpu"), "neither a file nor"),
        (("--library", "reference"), "give --library npu, cpu or a path"),
        (("--library", "cpu", "--vectors", "nope"), "has no vector nope"),
        (("--library", "cpu", "--golden", "."), "has no vector *.npz"),
        (("--package", "missing.run"), "missing.run is no file"),
        (("--package",), "--package has no value"),
    ],
    ids=str,
)
def test_what_cannot_start_says_why_with_status_2(tmp_path: Path, options: tuple, sentence: str) -> None:
    fake_cann.libraries()
    status, report, output = accept(tmp_path, *options)
    assert (status, report) == (2, {}) and sentence in " ".join(output.split())


def test_a_package_is_installed_and_its_environment_sourced_first(tmp_path: Path) -> None:
    package = tmp_path / "avsg-1.run"
    package.write_text(
        "for option; do case $option in --install-path=*) home=${option#*=}/vendors/avsg ;; esac; done\n"
        'mkdir -p "$home/bin"\n'
        "echo 'export ASCEND_CUSTOM_OPP_PATH=installed; echo sourced >&2' > \"$home/bin/set_env.bash\"\n"
    )
    target = tmp_path / "in a folder"
    options = ("--package", package, "--install-path", target, "--library", "cpu", "--vectors", "aliases")
    status, report, _ = accept(tmp_path, *options, "--no-times")
    assert status == 0 and (target / "vendors" / "avsg" / "bin" / "set_env.bash").exists()
    package.write_text("exit 4\n")
    (tmp_path / "report" / "report.json").unlink()
    status, _, output = accept(tmp_path, *options)
    assert status == 2 and "was not installed" in output
