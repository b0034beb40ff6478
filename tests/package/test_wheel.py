# SPDX-License-Identifier: Apache-2.0
"""The wheel holds both libraries and the traces, and works where there is no compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
HEAVY = ("numpy", "mindspore", "torch", "matplotlib", "avsg.cli", "ctypes.util")


def run(command: list, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    """Built from a clean copy of the sources, so that nothing built before can slip in."""
    return next((built / "build" / "packing" / "wheel").glob("avsg-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> tuple[Path, dict]:
    """A fresh environment with the wheel, and a PATH that holds no compiler."""
    environment = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", environment])
    path = tmp_path_factory.mktemp("path")
    variables = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "AVSG_LIBRARY", "VIRTUAL_ENV")
    }
    variables["PATH"] = f"{environment / 'bin'}:{path}"
    assert shutil.which("g++", path=variables["PATH"]) is None
    run([environment / "bin" / "pip", "install", "--only-binary", ":all:", wheel], env=variables)
    return environment / "bin", variables


def test_wheel_is_for_the_machine_and_any_python(wheel):
    """The libraries are called through ctypes: no CPython in the tag."""
    name, version, python, abi, platform = wheel.stem.split("-")
    assert (name, version) == ("avsg", (ROOT / "VERSION").read_text().strip())
    assert (python, abi) == ("py3", "none")
    assert platform.startswith("linux_")


def test_wheel_holds_libraries_data_and_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    sources = {
        path.relative_to(ROOT / "python").as_posix() for path in (ROOT / "python" / "avsg").rglob("*.py")
    }
    data = {f"avsg/data/{path.name}" for path in (ROOT / "python" / "avsg" / "data").iterdir()}
    assert {"avsg/lib/libavsg_cpu.so", "avsg/lib/libavsg_cpu_checked.so"} <= set(names)
    assert sum(name.endswith(".npz") for name in data) >= 2
    assert sources | data | {"avsg/py.typed", "avsg/sources/framework/torch/ops.cpp"} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
    extra = [name for name in names if not name.startswith(("avsg/", "avsg-"))]
    assert extra == []


def test_installed_wheel_runs_both_libraries(installed):
    binaries, variables = installed
    program = """
import avsg
from avsg import _abi
for name in ("cpu", "cpu-checked"):
    path = _abi.resolve(name)
    library = _abi.load(path)
    report = library.sizes(_abi.Config(num_rows=1, num_slots=2048, top_k=2048, num_queries=1, max_life=2000))
    print(path.parent.name, library.name, report.num_buckets)
"""
    assert (
        run([binaries / "python", "-c", program], env=variables, cwd=binaries)
        == "lib cpu 4096\nlib cpu-checked 4096\n"
    )


def test_import_loads_nothing_heavy(installed):
    binaries, variables = installed
    program = f"import sys, avsg; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run([binaries / "python", "-c", program], env=variables, cwd=binaries) == "[]\n"


def test_import_writes_nothing_and_starts_no_library(installed):
    binaries, variables = installed
    program = "import avsg; print([line for line in open('/proc/self/maps') if 'libavsg' in line])"
    assert run([binaries / "python", "-c", program], env=variables, cwd=binaries) == "[]\n"


def test_console_script_is_installed(installed):
    binaries, variables = installed
    assert "demo" in run([binaries / "avsg", "--help"], env=variables, cwd=binaries)


def test_editable_install_finds_the_libraries_of_the_build_folder():
    """`pip install -e .` and a plain CMake build in build/ leave the libraries in the same place."""
    sys.path.insert(0, str(ROOT / "python"))
    from avsg import _abi

    assert ROOT / "build" / "libavsg_cpu.so" in _abi.search_paths("cpu")
