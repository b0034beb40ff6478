# SPDX-License-Identifier: Apache-2.0
"""README.md: its example runs, and every path, command and option that it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from avsg.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", README, re.M | re.S)
PROSE = re.sub(r"^```.*?^```", "", README, flags=re.M | re.S)
CODE = re.findall(r"`([^`\n]+)`", PROSE)
SHELL = [line for kind, text in FENCES if kind in ("sh", "bash") for line in text.splitlines()]
FOLDERS = ("op_kernel", "op_host", "framework", "python", "tests", "scripts", "examples")


def test_example_runs(tmp_path: Path) -> None:
    examples = [text for kind, text in FENCES if kind == "python" and "mindspore" not in text]
    assert examples
    for text in examples:
        subprocess.run([sys.executable, "-c", text], check=True, cwd=tmp_path)


def named_paths() -> list[str]:
    words = [word.rstrip(".,:;") for text in [*CODE, *SHELL] for word in text.split()]
    return sorted({word for word in words if word.split("/")[0] in FOLDERS and not set("*{") & set(word)})


@pytest.mark.parametrize("path", named_paths())
def test_every_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def named_commands() -> list[str]:
    return sorted({text for text in [*CODE, *SHELL] if re.match(r"(\S*/)?avsg [a-z]", text)})


@pytest.mark.parametrize("text", named_commands())
def test_every_command_and_option_exists(text: str) -> None:
    name, *arguments = text.split()[1:]
    command = main.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= known


def test_there_is_something_to_check() -> None:
    assert len(named_paths()) >= 8 and len(named_commands()) >= 3
    assert any(line.startswith("bash scripts/demo.sh") for line in SHELL)
    assert any(line.startswith("bash scripts/test.sh") for line in SHELL)


def test_every_figure_says_where_it_comes_from() -> None:
    table = README.split("## Results")[1].split("\n## ")[0]
    rows = [row for row in re.findall(r"^\|(.*)\|$", table, re.M) if not set(row) <= set("|- :")]
    for row in rows[1:]:
        assert re.search(r"CPU|modelled|published|source", row), row
