# SPDX-License-Identifier: Apache-2.0
"""The import hook that takes GLM's router into MindIE's server process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from avsg.mindie.glm import __main__ as command
from avsg.mindie.glm import hook

MODELS = """
def get_router_ins(load_config):
    return "stock", load_config
"""


def run(code: str, *folders: Path) -> str:
    """Standard output of a Python process that has these folders on its path, a fake MindIE among them."""
    code = f"import sys; sys.path[:0] = {[str(folder) for folder in folders]}\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def fake_mindie(tmp_path: Path) -> Path:
    """A folder with mindie_llm.runtime.models."""
    models = tmp_path / "mindie" / "mindie_llm" / "runtime" / "models"
    models.mkdir(parents=True)
    for package in (models.parent.parent, models.parent):
        (package / "__init__.py").touch()
    (models / "__init__.py").write_text(MODELS)
    return tmp_path / "mindie"


def test_the_installed_line_wraps_mindies_router_when_its_models_are_imported(
    fake_mindie: Path, tmp_path: Path
) -> None:
    """As Python does it at its start: site executes the import lines of .pth files in site-packages."""
    site_packages = tmp_path / "site-packages"
    site_packages.mkdir()
    assert hook.install(site_packages).read_text().startswith("import ")
    code = (
        f"import site; site.addsitedir({str(site_packages)!r}); site.addsitedir({str(site_packages)!r})\n"
        "print('mindie_llm' in sys.modules)\n"
        "from mindie_llm.runtime.models import get_router_ins\n"
        "print(hasattr(get_router_ins, '__wrapped__'), hasattr(get_router_ins.__wrapped__, '__wrapped__'))\n"
        "print(get_router_ins.__wrapped__(7), any(type(f).__name__ == '_Finder' for f in sys.meta_path))\n"
    )
    assert run(code, fake_mindie) == "False\nTrue False\n('stock', 7) False\n"


def test_models_that_are_imported_already_are_wrapped_once(fake_mindie: Path) -> None:
    code = (
        "import mindie_llm.runtime.models as models\n"
        "from avsg.mindie.glm import hook\n"
        "stock = models.get_router_ins; hook.add(); wrapped = models.get_router_ins; hook.add()\n"
        "print(wrapped.__wrapped__ is stock, models.get_router_ins is wrapped)\n"
    )
    assert run(code, fake_mindie) == "True True\n"


def test_a_moved_router_is_said_and_breaks_nothing(fake_mindie: Path) -> None:
    (fake_mindie / "mindie_llm" / "runtime" / "models" / "__init__.py").write_text("kept = 1\n")
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "from avsg.mindie.glm import hook; hook.add()\n"
        "try:\n    import mindie_llm.runtime.models\n"
        "except UserWarning as warning:\n    print(warning)\n"
    )
    assert run(code, fake_mindie) == (
        "mindie_llm.runtime.models has no get_router_ins, so AVSG cannot add glm_moe_dsa: "
        "use a MindIE-LLM that AVSG knows.\n"
    )


def test_a_process_without_mindie_is_not_disturbed() -> None:
    code = (
        "from avsg.mindie.glm import hook; hook.add()\n"
        "try:\n    import mindie_llm.runtime.models\n"
        "except ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    assert run(code) in ("mindie_llm\n", "mindie_llm.runtime\n")


def test_a_python_that_does_not_see_avsg_starts_as_ever(tmp_path: Path) -> None:
    """AVSG is on PYTHONPATH where its set_env.bash was sourced; the line is read by every process."""
    hook.install(tmp_path)
    code = f"import site; site.addsitedir({str(tmp_path)!r}); print('fine')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_the_command_installs_and_removes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(command.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path)})
    assert command.main(["install"]) == 0 and (tmp_path / hook.FILE).is_file()
    assert command.main(["remove"]) == command.main(["remove"]) == 0 and not (tmp_path / hook.FILE).exists()
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{tmp_path / hook.FILE} is written") and said[1].endswith("is gone.")


def test_site_packages_that_cannot_be_written_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(command.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path / "none")})
    with pytest.raises(SystemExit, match="2"):
        command.main(["install"])
    assert "none cannot be written (No such file or directory)" in " ".join(capsys.readouterr().err.split())
