# SPDX-License-Identifier: Apache-2.0
"""The house rules of DESIGN.md: includes, sizes of files and functions, first lines, no machine paths."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("op_kernel", "op_host", "framework", "python", "tests", "scripts", ".ci")
CPP, PYTHON, SHELL = (".h", ".hpp", ".cpp", ".c", ".cc", ".inc"), (".py",), (".sh",)
MAX_FILE_LINES, MAX_TWIN_LINES, MAX_FUNCTION_LINES = 300, 600, 60


def sources(*suffixes: str, rooms: tuple[str, ...] = ROOMS) -> list[Path]:
    """Source files of the rooms and of the root, without what a build makes."""
    candidates = [path for room in rooms for path in (ROOT / room).rglob("*")]
    candidates += ROOT.glob("*") if rooms == ROOMS else []
    made = {"build", "__pycache__", ".pytest_cache"}
    return sorted(
        path
        for path in candidates
        if path.suffix in suffixes
        and path.is_file()
        and not made & set(path.relative_to(ROOT).parts[:-1])
        and not any(part.endswith(".egg-info") for part in path.parts)
    )


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def includes(path: Path) -> list[str]:
    """Included names, "quoted" or <angled> with their brackets."""
    return re.findall(r'^\s*#\s*include\s*(["<][^">]+[">])', path.read_text(), re.M)


def strip_cpp(text: str) -> str:
    """C++ without comments, strings and preprocessor lines; line numbers stay."""

    def blank(match: re.Match) -> str:
        kept = "\n" * match[0].count("\n")
        return f'""{kept}' if match[0][0] in "\"'" else kept or " "

    token = r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    text = re.sub(token, blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def cpp_functions(text: str) -> list[tuple[int, int]]:
    """(first line, number of lines) of every function body at namespace or class scope."""
    text = strip_cpp(text)
    functions, scopes, head_start = [], [], 0  # scopes: start line of a function, None for any other brace
    for match in re.finditer(r"[{};]", text):
        sign, end = match[0], match.end()
        inside = any(scope is not None for scope in scopes)
        if sign == "{":
            head = text[head_start : match.start()].strip()
            scope = re.match(r"(template\s*<[^{}]*>\s*)?(namespace|class|struct|enum|union|extern)\b", head)
            is_function = (
                not inside
                and "(" in head
                and not head.endswith(("=", ",", "("))
                and not (scope and not head.endswith(")") and ")" not in head)
            )
            first = (
                text.count("\n", 0, head_start) + 1 + text[head_start:].split(head, 1)[0].count("\n")
                if head
                else 0
            )
            scopes.append(first if is_function else None)
        elif sign == "}" and scopes:
            first = scopes.pop()
            if first is not None:
                functions.append((first, text.count("\n", 0, end) + 1 - first + 1))
        head_start = end
    return functions


def python_functions(text: str) -> list[tuple[int, int]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.lineno, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]


@pytest.mark.parametrize("path", sources(*CPP, *PYTHON, *SHELL), ids=name)
def test_files_are_short(path: Path) -> None:
    limit = MAX_TWIN_LINES if path.name == "kernel_operator.h" else MAX_FILE_LINES
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize("path", sources(*CPP, *PYTHON), ids=name)
def test_functions_are_short(path: Path) -> None:
    functions = (
        python_functions(path.read_text()) if path.suffix == ".py" else cpp_functions(path.read_text())
    )
    assert not [f"line {first}: {lines} lines" for first, lines in functions if lines > MAX_FUNCTION_LINES]


def test_the_function_parser_finds_what_it_should() -> None:
    body = "\n".join(["  if (x) { y(); }  // }"] * 70)
    long_method = (
        f"namespace n {{\nclass A {{\n  int F(int a = 1) const {{\n{body}\n  }}\n  int x = 0;\n}};\n}}\n"
    )
    assert cpp_functions(long_method) == [(3, 72)]
    assert cpp_functions('extern "C" {\nvoid f(void) {\n}\n}\nint table[] = {\n1,\n2};\n') == [(2, 2)]
    assert cpp_functions('A::A(int x)\n    : x_(x), s_("{") {\n  y();\n}\n') == [(1, 4)]
    assert cpp_functions("struct B { int x; };\ntemplate <class T>\nT G(T t) {\n  return t;\n}\n") == [(2, 4)]
    assert python_functions("def f():\n" + "    x = 1\n" * 70) == [(1, 71)]


@pytest.mark.parametrize("path", [*sources(*CPP, *PYTHON, *SHELL), ROOT / ".ci" / "run"], ids=name)
def test_files_start_with_licence_and_purpose(path: Path) -> None:
    lines = path.read_text().splitlines()
    lines = lines[1:] if lines and lines[0].startswith("#!") else lines
    assert "SPDX-License-Identifier: Apache-2.0" in lines[0]
    assert re.match(r'(//|#|/?\s?\*|""")\s*\S', lines[1]), (
        f"line 2 says what the file is for; it is {lines[1]!r}"
    )


@pytest.mark.parametrize("path", sources(*CPP, rooms=("op_kernel",)), ids=name)
def test_kernels_include_their_own_headers_and_kernel_operator_only(path: Path) -> None:
    own = {f'"{header.name}"' for header in (ROOT / "op_kernel").glob("*.h")}
    allowed = {"<cstdint>"} if path.name == "avsg_layout.h" else own
    used = {text for text in includes(path) if not re.match(r'"kernel_operator\w*\.h"', text)}
    assert used <= allowed


@pytest.mark.parametrize("path", sources(*CPP, rooms=("op_kernel",)), ids=name)
def test_kernels_have_no_fork_outside_vector_util(path: Path) -> None:
    conditions = re.findall(r"^\s*#\s*((?:el)?if\w*[^\n]*)", path.read_text(), re.M)
    guard = re.compile(r"ifndef AVSG_\w*_H_?$")
    assert path.name == "vector_util.h" or not [text for text in conditions if not guard.match(text)]


@pytest.mark.parametrize("path", sources(".h", ".cpp", rooms=("op_host",)), ids=name)
def test_tiling_needs_no_cann(path: Path) -> None:
    if not path.stem.startswith("tiling"):
        pytest.skip("only tiling is pure; operator definitions need CANN")
    quoted = {text.strip('"').rsplit("/", 1)[-1] for text in includes(path) if text.startswith('"')}
    own = {header.name for header in (ROOT / "op_host").glob("tiling*.h")}
    assert quoted <= own | {"avsg_layout.h"}
    assert not [
        text for text in includes(path) if text.startswith("<") and ("/" in text or text.endswith(".h>"))
    ]


@pytest.mark.parametrize("path", sources(*CPP, rooms=("framework",)), ids=name)
def test_adapters_use_the_c_abi_and_never_a_kernel(path: Path) -> None:
    kernels = {header.name for header in (ROOT / "op_kernel").iterdir()} - {"avsg_layout.h"}
    used = {text[1:-1].rsplit("/", 1)[-1] for text in includes(path)} & kernels
    assert not used or (ROOT / "framework" / "cpu") in path.parents


def imported(path: Path) -> set[str]:
    """Modules that a Python file imports; relative ones start with a dot."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            modules |= {prefix + alias.name for alias in node.names} if prefix.endswith(".") else {prefix}
    return modules


@pytest.mark.parametrize("file", ["reference.py", "reference_copy.py"])
def test_reference_imports_numpy_and_layout_only(file: str) -> None:
    allowed = {"__future__", "collections.abc", "typing", "numpy", ".layout", ".reference_copy"}
    assert imported(ROOT / "python" / "avsg" / file) <= allowed


def test_nothing_outside_tests_uses_tests() -> None:
    rooms = tuple(room for room in ROOMS if room != "tests")
    helpers = {path.stem for path in sources(".py", rooms=("tests",))} | {"tests", "pytest", "conftest"}
    helpers -= {path.stem for path in sources(".py", rooms=rooms)}
    users = [
        name(path)
        for path in sources(".py", rooms=rooms)
        if {module.split(".")[0] for module in imported(path)} & helpers
    ]
    users += [
        name(path) for path in sources(*CPP, rooms=rooms) if any("tests/" in text for text in includes(path))
    ]
    assert not users


def test_no_file_names_a_machine() -> None:
    pattern = re.compile(
        "|".join(f"(?<![\\w.])/{folder}/" for folder in ("root", "work", "home", "mnt", "Users"))
    )
    texts = sources(*CPP, *PYTHON, *SHELL, ".md", ".toml", ".txt", ".cmake", ".yaml", ".in")
    assert not [f"{name(path)}: {match[0]}" for path in texts for match in pattern.finditer(path.read_text())]
