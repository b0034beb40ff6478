# SPDX-License-Identifier: Apache-2.0
"""avsg size and avsg doctor: figures, findings and refusals; tables on a narrow terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from avsg import _abi, layout
from avsg.cli import main
from avsg.commands import common, doctor
from avsg.commands.replay import COLUMNS


def avsg(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_size_follows_from_the_layout() -> None:
    values = json.loads(avsg("size", "--slots", "8K", "--rows", 3, "--row-bytes", 656, "--json").stdout)
    assert values["state_bytes"] == 3 * layout.state_stride_bytes(8192)
    assert values["device_kv_bytes"] == 3 * 8192 * 656
    assert values["max_num_slots"] == 8192 and 0 < values["ub_bytes"] <= 184 * 1024
    assert "8,192" in avsg("size").output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--slots", "16K"], "8192"),
        (["--slots", "4K,8K"], "--slots names 2 sizes"),
        (["--top-k", "100"], "multiple of 8"),
        (["--queries", "8"], "num_queries * top_k"),
        (["--rows", "0"], "num_rows"),
        (["--row-bytes", "100"], "multiple of 16"),
    ],
    ids=str,
)
def test_size_refuses_in_a_sentence(arguments: list[str], sentence: str) -> None:
    result = avsg("size", *arguments)
    assert result.exit_code == 2 and sentence in " ".join(result.output.split()), result.output


def test_doctor_finds_what_the_cpu_needs() -> None:
    assert avsg("doctor").exit_code == 0
    document = json.loads(avsg("doctor", "--json").stdout)
    states = {finding["name"]: finding["state"] for finding in document["findings"]}
    assert document["ok"] and states["library cpu"] == states["library cpu-checked"] == "ok"
    assert {"Python", "numpy", "MindSpore", "NPU", "CANN", "library npu"} <= set(states)


def test_doctor_says_how_to_build_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_abi, "find_library", lambda name: None)
    result = avsg("doctor")
    assert result.exit_code == 1
    assert "pip install" in result.output and "Broken: library cpu, library cpu-checked." in result.output


def test_doctor_names_a_library_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "libavsg_cpu.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(_abi, "find_library", lambda name: broken)
    finding = doctor.check_library("cpu")
    assert finding.state == "problem" and finding.needed and str(broken) in finding.advice


@pytest.mark.parametrize(("content", "words"), [(b"not a library", "not a usable"), (None, "neither a file")])
def test_doctor_loads_the_library_that_the_environment_chooses(
    content: bytes | None, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = tmp_path / "libavsg_cpu.so"
    if content is not None:
        chosen.write_bytes(content)
    monkeypatch.setenv("AVSG_LIBRARY", str(chosen))
    (finding,) = doctor.check_choice()
    assert finding.state == "problem" and finding.needed and words in finding.advice
    monkeypatch.setenv("AVSG_LIBRARY", "reference")
    assert doctor.check_choice()[0].state == "ok"


@pytest.mark.parametrize(
    ("numpy_version", "mindspore", "state"),
    [("2.1.0", "2.6.0", "problem"), ("1.26.4", "2.6.0", "ok"), ("2.1.0", None, "absent")],
)
def test_doctor_knows_that_mindspore_needs_numpy_1(
    numpy_version: str, mindspore: str | None, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "__version__", numpy_version)
    monkeypatch.setattr(doctor, "_version", lambda package: mindspore)
    assert {finding.name: finding.state for finding in doctor.check_python()}["MindSpore"] == state


@pytest.mark.parametrize(
    ("release", "state", "text"),
    [("8.3.RC1", "ok", "8.3.RC1"), ("9.0.0", "ok", "9.0.0"), ("8.2.RC1", "problem", "8.3.RC1 or later")],
)
def test_doctor_compares_the_cann_version(release: str, state: str, text: str, tmp_path: Path) -> None:
    info = tmp_path / "aarch64-linux" / "ascend_toolkit_install.info"
    info.parent.mkdir()
    info.write_text(f"package_name=Ascend-cann-toolkit\nversion={release}\n")
    finding = doctor.check_cann(str(tmp_path))
    assert finding.state == state and text in finding.found + finding.advice


def test_doctor_refuses_a_folder_that_is_no_cann_toolkit(tmp_path: Path) -> None:
    assert doctor.check_cann(str(tmp_path)).state == "problem"
    assert doctor.check_cann(None).state == doctor.check_npu("no/such/davinci*").state == "absent"


def test_tight_table_fits_80_columns_and_breaks_no_figure() -> None:
    table = common.table(*COLUMNS, "wrong rows", left=2, tight=True)
    cells = (
        "16,384 (8x)",
        "previous",
        "97.93%",
        "1,646,020",
        "132.3",
        "189.6 MB",
        "1.00",
        "0",
        "0 of 3,072,000",
    )
    table.add_row(*cells)
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(sum(cell in line for line in lines) for cell in (*cells[:-1], "3,072,000")), lines
