# SPDX-License-Identifier: Apache-2.0
"""The launcher: found by execvp, registers before MindIE's worker starts, and shadows nothing by accident."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from avsg.mindie import launcher

STUB = """
import sys
from importlib import import_module

def main():
    print("worker", sys.argv[1:], import_module("avsg.mindie.register").CALLS)
    return {status}
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """A folder of Python modules: a stand-in for MindIE-LLM, and for register()."""
    package = tmp_path / "modules" / "mindie_llm" / "connector"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "main.py").write_text(STUB.format(status=7))
    return tmp_path / "modules"


def start(folder: Path, modules: Path, *arguments: str, register: str) -> subprocess.CompletedProcess:
    """Runs the program as the server does: by its name, through PATH, with arguments."""
    (modules / "sitecustomize.py").write_text(
        "import sys, types, os\n"
        "module = types.ModuleType('avsg.mindie.register')\n"
        f"module.CALLS = []\nexec({register!r}, module.__dict__)\n"
        "sys.modules['avsg.mindie.register'] = module\n"
    )
    source = Path(launcher.__file__).parents[2]
    environment = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{modules}{os.pathsep}{source}",
    }
    code = "import os, sys; os.execvpe(sys.argv[1], sys.argv[1:], os.environ)"
    return subprocess.run(
        [sys.executable, "-I", "-c", code, launcher.PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )


REGISTERS = "def register(config=None):\n    CALLS.append('registered')\n"


def test_the_worker_runs_registered_with_the_servers_arguments_and_status(
    worker: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    launcher.install(folder)
    result = start(folder, worker, "--local_rank", "3", register=REGISTERS)
    assert result.stdout == "worker ['--local_rank', '3'] ['registered']\n" and result.returncode == 7
    assert "INFO avsg.mindie.launcher: AVSG is registered" in result.stderr


def test_no_worker_starts_when_register_fails(worker: Path, tmp_path: Path) -> None:
    launcher.install(tmp_path)
    fails = "def register(config=None):\n    raise RuntimeError('a name moved: x.')\n"
    result = start(tmp_path, worker, register=fails)
    assert result.returncode == 1 and "worker" not in result.stdout
    assert result.stderr.splitlines()[-1] == "AVSG did not register, so no worker starts: a name moved: x."


@pytest.mark.skipif(find_spec("mindie_llm") is not None, reason="this Python has MindIE-LLM")
def test_a_python_without_mindie_is_named(tmp_path: Path) -> None:
    launcher.install(tmp_path)
    (tmp_path / "modules").mkdir()
    result = start(tmp_path, tmp_path / "modules", register=REGISTERS)
    assert result.returncode == 1 and "install AVSG into the Python that runs MindIE-LLM" in result.stderr


def test_install_replaces_its_own_program_and_no_other(tmp_path: Path) -> None:
    target = launcher.install(tmp_path)
    assert launcher.install(tmp_path) == target and os.access(target, os.X_OK)
    target.write_text("#!/bin/sh\n# of MindIE\n")
    with pytest.raises(ValueError, match="did not write"):
        launcher.install(tmp_path)
    assert target.read_text() == "#!/bin/sh\n# of MindIE\n"
    target.unlink()
    target.symlink_to(tmp_path / "gone")
    with pytest.raises(ValueError, match="did not write"):
        launcher.install(tmp_path)


def test_a_python_path_that_a_script_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="quotes"):
        launcher.install(tmp_path / "new", python="/opt/it's/python")
    assert not (tmp_path / "new").exists()


def test_install_command_prints_the_line_that_puts_it_first(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert launcher.main(["install", str(tmp_path / "bin")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f'export PATH="{tmp_path / "bin"}:$PATH"'
    (tmp_path / "bin" / launcher.PROGRAM).write_text("other")
    with pytest.raises(SystemExit) as caught:
        launcher.main(["install", str(tmp_path / "bin")])
    assert caught.value.code == 2 and "name another folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        launcher.main(["install", str(tmp_path / "bin" / launcher.PROGRAM)])
    assert "cannot be written (File exists): name another folder" in capsys.readouterr().err


def test_check_says_which_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(launcher, "find_spec", lambda name: object())
    launcher.install(tmp_path / "ours")
    (tmp_path / "stock").mkdir()
    stock = tmp_path / "stock" / launcher.PROGRAM
    stock.write_text("#!/bin/sh\n")
    stock.chmod(0o755)

    def check(*folders: str) -> tuple[int, list[str]]:
        monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / folder) for folder in folders))
        return launcher.main(["check"]), capsys.readouterr().out.splitlines()

    code, lines = check("ours", "stock")
    assert code == 0 and [line.split(":")[0] for line in lines] == ["starts", "hidden"]
    code, lines = check("stock", "ours")
    assert code == 1 and "without AVSG" in lines[-1] and lines[0] == f"starts: {stock} (not AVSG)"
    code, lines = check("empty")
    assert code == 1 and "No mindie_llm_backend" in lines[0]
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    code, lines = check("ours", "stock")
    assert code == 1 and "not importable" in lines[-1]


def test_a_worker_needs_no_package_beside_numpy(worker: Path, tmp_path: Path) -> None:
    launcher.install(tmp_path)
    for name in ("click", "rich"):
        (worker / f"{name}.py").write_text("raise ImportError\n")
    assert start(tmp_path, worker, register=REGISTERS).returncode == 7


def test_a_program_that_may_not_be_executed_is_not_found(tmp_path: Path) -> None:
    launcher.install(tmp_path).chmod(0o644)
    assert launcher.on_path(str(tmp_path)) == []
