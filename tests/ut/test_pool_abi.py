# SPDX-License-Identifier: Apache-2.0
"""The ctypes binding equals framework/c_api/avsg.h; a missing or foreign library is named in a sentence."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import avsg
from avsg import _abi
from pool_case import config

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "framework" / "c_api" / "avsg.h"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")


def struct_fields(name):
    """Field names of a struct as the header declares them."""
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", HEADER.read_text(), re.S).group(1)
    return re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S))


def test_every_struct_of_the_header_is_bound():
    assert set(re.findall(r"typedef struct (\w+)", HEADER.read_text())) == set(_abi.C_STRUCTS)


@pytest.mark.parametrize("name", _abi.C_STRUCTS)
def test_struct_has_the_headers_fields_in_order(name):
    assert [field[0] for field in _abi.C_STRUCTS[name]._fields_] == struct_fields(name)
    assert _abi.C_STRUCTS[name]().struct_bytes == ctypes.sizeof(_abi.C_STRUCTS[name])


def test_compiler_and_ctypes_agree_on_sizes_and_offsets(tmp_path):
    lines, expected = [], []
    for name, struct in _abi.C_STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(struct))
        for field, _ in struct._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            expected.append(getattr(struct, field).offset)
    source = tmp_path / "offsets.c"
    source.write_text(
        f'#include "{HEADER}"\n#include <stdio.h>\nint main(void) {{ {" ".join(lines)} return 0; }}\n'
    )
    subprocess.run([COMPILER, "-x", "c", source, "-o", tmp_path / "offsets"], check=True)
    printed = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected


def test_every_function_of_the_header_is_bound_with_its_arguments():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    declared = {m[1]: m[2] for m in re.finditer(r"^int (avsg_\w+)\((.*?)\);", text, re.S | re.M)}
    assert set(declared) == set(_abi._PROTOTYPES)
    for name, arguments in declared.items():
        assert arguments.count(",") + 1 == len(_abi._PROTOTYPES[name]), name
        for argument, bound in zip(arguments.split(","), _abi._PROTOTYPES[name]):
            struct = re.search(r"(avsg_\w+)\s*\*", argument)
            if struct:
                assert bound == ctypes.POINTER(_abi.C_STRUCTS[struct[1]]), f"{name}: {argument}"
            else:
                kind = bound in (ctypes.c_int32, ctypes.c_int64)
                assert kind == ("*" not in argument), f"{name}: {argument}"


def test_versions_and_errors_are_the_headers():
    text = HEADER.read_text()
    assert int(re.search(r"AVSG_ABI_VERSION (\d+)", text).group(1)) == _abi.ABI_VERSION
    codes = dict(re.findall(r"AVSG_(\w+) = (\d+)", text))
    assert {
        int(codes["INVALID_ARGUMENT"]): ValueError,
        int(codes["UNSUPPORTED"]): ValueError,
        int(codes["OUT_OF_MEMORY"]): MemoryError,
        int(codes["RULE_VIOLATED"]): avsg.RuleViolationError,
    } == _abi._EXCEPTIONS


@pytest.mark.parametrize("name", ["cpu", "cpu-checked"])
def test_native_library_calls_itself_what_it_was_asked_for(name):
    pool = avsg.Pool(config(), library=name)
    assert pool.library == name and name in repr(pool)
    assert avsg.Pool(config(), library=_abi.find_library(name)).library == name
    native = _abi.load(_abi.resolve(name))
    with pytest.raises(ValueError, match="num_slots"):
        native.sizes(_abi.Config(num_rows=1, num_slots=63, top_k=8, num_queries=1, max_life=1))


def test_missing_library_says_where_it_looked_and_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setattr(_abi, "_PACKAGE_DIR", tmp_path / "tree" / "python" / "avsg")
    with pytest.raises(avsg.LibraryNotFoundError) as caught:
        avsg.Pool(config(), library="cpu-checked")
    text = str(caught.value)
    assert f"{tmp_path}/tree/python/avsg/lib/libavsg_cpu_checked.so" in text
    assert "pip install ." in text and 'library="reference"' in text and "/build/" not in text
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "CMakeLists.txt").touch()
    with pytest.raises(avsg.LibraryNotFoundError, match=f"{tmp_path}/tree/build/libavsg_cpu.so"):
        avsg.Pool(config(), library="cpu")


def test_default_is_the_environment_then_npu_then_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(_abi, "_PACKAGE_DIR", tmp_path)
    monkeypatch.setenv("AVSG_LIBRARY", "reference")
    assert avsg.Pool(config()).library == "reference"
    monkeypatch.delenv("AVSG_LIBRARY")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libavsg_cpu.so").touch()
    assert _abi.resolve(None) == tmp_path / "lib" / "libavsg_cpu.so"
    (tmp_path / "lib" / "libavsg_npu.so").touch()
    assert _abi.resolve(None) == tmp_path / "lib" / "libavsg_npu.so"


def test_missing_npu_library_is_not_promised_by_pip_install(monkeypatch, tmp_path):
    monkeypatch.setattr(_abi, "_PACKAGE_DIR", tmp_path)
    with pytest.raises(
        avsg.LibraryNotFoundError, match="'npu' is not built.*on a machine with CANN"
    ) as caught:
        _abi.resolve("npu")
    assert "pip install" not in str(caught.value)


@pytest.mark.parametrize("library", [3, b"cpu", ["cpu"]])
def test_library_of_another_type_is_refused(library):
    with pytest.raises(TypeError, match="^library is .* is allowed: pass a str"):
        _abi.resolve(library)


def test_unknown_name_is_refused_with_the_names_that_exist():
    with pytest.raises(
        avsg.LibraryNotFoundError, match="'gpu' is neither a file nor.*reference, cpu, cpu-checked, npu"
    ):
        avsg.Pool(config(), library="gpu")


@pytest.mark.parametrize("source, words", [
    ("unsigned avsg_abi_version(void) { return 99; }", "version 99 .* speaks 1: rebuild"),
    ("int something_else(void) { return 0; }", "not a usable AVSG library"),
    (None, "not a usable AVSG library"),
])  # fmt: skip
def test_foreign_library_is_refused(tmp_path, source, words):
    library = tmp_path / "libother.so"
    if source is None:
        library.write_text("no library at all")
    else:
        (tmp_path / "other.c").write_text(source)
        subprocess.run(
            [COMPILER, "-x", "c", "-shared", "-fPIC", tmp_path / "other.c", "-o", library], check=True
        )
    with pytest.raises(avsg.LibraryError, match=words):
        avsg.Pool(config(), library=library)
