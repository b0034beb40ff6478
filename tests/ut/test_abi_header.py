# SPDX-License-Identifier: Apache-2.0
"""avsg.h compiles as C99 and C++11, its ctypes mirror has its layout, the libraries export just that."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from avsg import _abi

ROOT = Path(__file__).resolve().parents[2]
HEADERS = {
    "avsg.h": ROOT / "framework" / "c_api" / "avsg.h",
    "avsg_cpu.h": ROOT / "framework" / "cpu" / "avsg_cpu.h",
}


def declared(header: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", HEADERS[header].read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(avsg_\w+)\(", text))


def compile_and_run(tmp_path: Path, compiler: str, options: list[str], source: str, suffix: str) -> str:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    (tmp_path / f"main{suffix}").write_text(source)
    includes = [f"-I{path.parent}" for path in HEADERS.values()]
    subprocess.run(
        [
            compiler,
            *options,
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            *includes,
            "-o",
            tmp_path / "main",
            tmp_path / f"main{suffix}",
        ],
        check=True,
    )
    return subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("compiler, standard, suffix", [("gcc", "c99", ".c"), ("g++", "c++11", ".cpp")])
def test_mirror_has_the_layout_of_the_header(tmp_path, compiler, standard, suffix):
    lines = []
    for name, struct in _abi.C_STRUCTS.items():
        lines.append(f'printf("{name} size %zu\\n", sizeof({name}));')
        for field, _ in struct._fields_:
            lines.append(f'printf("{name} {field} %zu\\n", offsetof({name}, {field}));')
    source = '#include "avsg.h"\n#include "avsg_cpu.h"\n#include <stdio.h>\nint main(void) {\n'
    source += "\n".join(lines) + "\nreturn 0;\n}\n"
    printed = compile_and_run(tmp_path, compiler, [f"-std={standard}"], source, suffix)
    expected = []
    for name, struct in _abi.C_STRUCTS.items():
        expected.append(f"{name} size {ctypes.sizeof(struct)}")
        expected += [f"{name} {field} {getattr(struct, field).offset}" for field, _ in struct._fields_]
    assert printed.splitlines() == expected


def test_mirror_has_every_field_of_the_header():
    text = re.sub(r"/\*.*?\*/", "", HEADERS["avsg.h"].read_text(), flags=re.DOTALL)
    found = re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.DOTALL)
    assert {name for _, name in found} == set(_abi.C_STRUCTS)
    for body, name in found:
        fields = [line.split()[-1].lstrip("*") for line in body.split(";") if line.strip()]
        assert fields == [field for field, _ in _abi.C_STRUCTS[name]._fields_], name


@pytest.mark.parametrize("name", ["cpu", "cpu-checked"])
def test_library_exports_the_abi_and_nothing_else(name):
    if shutil.which("nm") is None:
        pytest.skip("no nm on this machine")
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", _abi.resolve(name)], check=True, capture_output=True, text=True
    )
    exported = {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}
    assert exported == declared("avsg.h") | declared("avsg_cpu.h")


@pytest.mark.parametrize("name", ["cpu", "cpu-checked"])
def test_library_needs_no_cxx_runtime(name):
    """A machine without a compiler may lack libstdc++, and a framework may bring another one."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf on this machine")
    listing = subprocess.run(
        ["readelf", "-d", _abi.resolve(name)], check=True, capture_output=True, text=True
    ).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", listing))
    assert needed and all(
        re.match(r"(libc|libm|libpthread|libdl|ld-linux.*)\.so", library) for library in needed
    ), needed


@pytest.mark.parametrize("name", ["cpu", "cpu-checked"])
def test_library_takes_little_of_the_static_thread_storage(name):
    """A process has under 2 KiB of it for all libraries that it loads late; frameworks want some too."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf on this machine")
    listing = subprocess.run(
        ["readelf", "-lW", _abi.resolve(name)], check=True, capture_output=True, text=True
    ).stdout
    sizes = [int(line.split()[5], 16) for line in listing.splitlines() if line.split()[:1] == ["TLS"]]
    assert sum(sizes) <= 256
