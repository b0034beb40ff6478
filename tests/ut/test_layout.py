# SPDX-License-Identifier: Apache-2.0
"""layout.py mirrors op_kernel/avsg_layout.h: names, values, field offsets and hash, compared both ways."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from avsg import layout

HEADER = Path(__file__).resolve().parents[2] / "op_kernel" / "avsg_layout.h"
SLOT_COUNTS = [64, 128, 192, 320, 512, 2048, 2560, 4096, 8192, 8256, 32768, 32832, layout.MAX_SLOTS]
LG_VALUES = [7, 10, 12, 14, 17]
EDGE_TOKENS = [
    0,
    1,
    2,
    3,
    127,
    128,
    1023,
    1024,
    65535,
    65536,
    65537,
    131071,
    131072,
    524287,
    1048574,
    1048575,
]
TOKENS = EDGE_TOKENS + np.random.default_rng(1).integers(0, layout.MAX_TOKENS, 24).tolist()

# (token, lg): (h, d, buckets r = 0..4), worked by hand from SPEC.md, "Hash".
PINNED = {
    (0, 7): (0, 1, [0, 1, 2, 3, 4]),
    (1, 7): (61, 1, [61, 62, 63, 64, 65]),
    (2, 12): (3194, 2427, [3194, 1525, 3952, 2283, 614]),
    (1023, 10): (451, 647, [451, 74, 721, 344, 991]),
    (1048575, 10): (22, 525, [22, 547, 48, 573, 74]),
    (1048575, 14): (6998, 2189, [6998, 9187, 11376, 13565, 15754]),
    (524288, 17): (9908, 12777, [9908, 22685, 35462, 48239, 61016]),
}


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def parse_structs(text: str) -> dict[str, list[tuple[str, str, int]]]:
    """Every struct of the header: its fields (type, name, array length) in order."""
    lengths = {"kMaxPayloads": layout.MAX_PAYLOADS}
    structs = {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, re.S):
        fields = re.findall(r"(\w+) (\w+)(?:\[(\w+)\])?;", body)
        structs[name] = [(ctype, field, lengths[n] if n else 1) for ctype, field, n in fields]
    return structs


def parse_constants(text: str) -> list[str]:
    enums = [
        re.findall(r"(k\w+) =", body) for body in re.findall(r"enum \w+ : int32_t \{(.*?)\}", text, re.S)
    ]
    return re.findall(r"constexpr int\d+_t (k\w+) =", text) + [name for names in enums for name in names]


def python_name(cpp_name: str) -> str:
    """kMaxTokens -> MAX_TOKENS, StateRowBytes -> STATE_ROW_BYTES."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cpp_name.removeprefix("k")).upper()


TEXT = without_comments(HEADER.read_text())
CONSTANTS = parse_constants(TEXT)
STRUCTS = parse_structs(TEXT)
FUNCTIONS = re.findall(r"inline int\d+_t (\w+)\((.*?)\)", TEXT)


def program() -> str:
    """A C++ program that prints every constant, size, offset and hash as `name value`."""
    lines = ["#include <cstddef>", "#include <cstdio>", f'#include "{HEADER.name}"']
    lines += ["using namespace sparse_gather;"]
    lines += ['#define P(name, value) std::printf("%s %lld\\n", name, static_cast<long long>(value))']
    lines += ["int main() {"]
    lines += [f'  P("{name}", {name});' for name in CONSTANTS]
    for name, args in FUNCTIONS:
        calls = [f"{name}({s})" for s in SLOT_COUNTS] if args else [f"{name}()"]
        lines += [f'  P("{call}", {call});' for call in calls]
    for name, fields in STRUCTS.items():
        lines += [f'  P("sizeof {name}", sizeof({name}));']
        lines += [f'  P("{name}.{f}", offsetof({name}, {f}));' for _, f, _ in fields]
    lines += [f"  const int32_t tokens[] = {{{', '.join(map(str, TOKENS))}}};"]
    lines += [f"  const int32_t lgs[] = {{{', '.join(map(str, LG_VALUES))}}};"]
    lines += [
        "  for (int32_t x : tokens) for (int32_t lg : lgs) {",
        "    const int32_t nb = 1 << lg, hi = x >> lg;",
        "    const int32_t h = (kHashA * x + kHashC * hi) & (nb - 1);",
        "    const int32_t d = 2 * ((kHashB * (x >> 1) + kHashA * hi) & (nb / 2 - 1)) + 1;",
        '    std::printf("hash,%d,%d %d\\nstride,%d,%d %d\\n", x, lg, h, x, lg, d);',
        "    for (int32_t r = 0; r <= kProbeRoundsSmall; ++r)",
        '      std::printf("bucket,%d,%d,%d %d\\n", x, lg, r, (h + r * d) & (nb - 1));',
        "  }",
    ]
    return "\n".join([*lines, "}", ""])


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the C++ compiler makes of the header: `name` -> value."""
    folder = tmp_path_factory.mktemp("layout")
    (folder / "dump.cpp").write_text(program())
    flags = ["-std=c++11", "-Wall", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    binary = folder / "dump"
    subprocess.run(["g++", *flags, f"-I{HEADER.parent}", folder / "dump.cpp", "-o", binary], check=True)
    output = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    pairs = [line.rpartition(" ") for line in output.splitlines()]
    return {name: int(value) for name, _, value in pairs}


def test_header_is_understood() -> None:
    """The parser sees every definition, so that nothing escapes the comparison."""
    defined = re.findall(r"\b(k[A-Z]\w*)\s*=", TEXT)
    assert sorted(defined) == sorted(CONSTANTS)
    assert len(re.findall(r"\bstruct\b", TEXT)) == len(STRUCTS) and all(STRUCTS.values())
    assert TEXT.count("inline") == len(FUNCTIONS)
    declared = sum(body.count(";") for body in re.findall(r"struct \w+ \{(.*?)\};", TEXT, re.S))
    assert declared == sum(map(len, STRUCTS.values()))


def test_constants_have_the_same_names() -> None:
    mirrored = {name for name, value in vars(layout).items() if name.isupper() and isinstance(value, int)}
    assert mirrored == {python_name(name) for name in CONSTANTS}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_has_the_same_value(cpp: dict[str, int], name: str) -> None:
    assert getattr(layout, python_name(name)) == cpp[name]


@pytest.mark.parametrize(("name", "args"), FUNCTIONS)
def test_size_is_the_same(cpp: dict[str, int], name: str, args: str) -> None:
    function = getattr(layout, python_name(name).lower())
    if not args:
        assert function() == cpp[f"{name}()"]
        return
    assert {s: function(s) for s in SLOT_COUNTS} == {s: cpp[f"{name}({s})"] for s in SLOT_COUNTS}


def test_sizes_of_the_published_row_are_pinned() -> None:
    """S = 8192: 512 + 2 * 4 * 8200 + 4 * 16384 bytes, a stride of 512 * 258 (SPEC.md, "State of one row")."""
    assert layout.num_buckets_log2(8192) == 14
    assert layout.state_row_bytes(8192) == 131648
    assert layout.state_stride_bytes(8192) == 132096


def test_state_views_cover_the_row_without_gaps() -> None:
    state = np.zeros(layout.state_stride_bytes(320), dtype=np.uint8)
    views = layout.state_views(320, state)
    assert [(v.dtype.str, v.size) for v in views] == [("<i4", 128), ("<i4", 328), ("<f4", 328), ("<u4", 1024)]
    ends = np.cumsum([v.nbytes for v in views])
    assert [v.__array_interface__["data"][0] - state.ctypes.data for v in views] == [0, *ends[:-1]]
    assert ends[-1] == layout.state_row_bytes(320)


def test_structs_have_the_same_names() -> None:
    mirrored = {name for name, value in vars(layout).items() if isinstance(value, type(ctypes.Structure))}
    assert mirrored == set(STRUCTS)


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_has_the_same_fields(cpp: dict[str, int], name: str) -> None:
    """Names, order, types, offsets and size."""
    mirror = getattr(layout, name)
    types = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64}

    def ctype(cpp_type: str, length: int) -> type:
        base = types.get(cpp_type) or getattr(layout, cpp_type)
        return base if length == 1 else base * length

    assert mirror._fields_ == [(field, ctype(t, length)) for t, field, length in STRUCTS[name]]
    offsets = {field: getattr(mirror, field).offset for field, _ in mirror._fields_}
    assert offsets == {field: cpp[f"{name}.{field}"] for field in offsets}
    assert ctypes.sizeof(mirror) == cpp[f"sizeof {name}"]


@pytest.mark.parametrize("lg", LG_VALUES)
def test_hash_is_the_same_in_cpp_and_numpy(cpp: dict[str, int], lg: int) -> None:
    tokens = np.array(TOKENS, dtype=np.int32)
    start, stride = layout.hash_start(tokens, lg), layout.hash_stride(tokens, lg)
    assert start.tolist() == [cpp[f"hash,{x},{lg}"] for x in TOKENS]
    assert stride.tolist() == [cpp[f"stride,{x},{lg}"] for x in TOKENS]
    assert (stride % 2 == 1).all()
    for r in range(layout.PROBE_ROUNDS_SMALL + 1):
        assert ((start + r * stride) & ((1 << lg) - 1)).tolist() == [
            cpp[f"bucket,{x},{lg},{r}"] for x in TOKENS
        ]


@pytest.mark.parametrize(("token", "lg"), PINNED)
def test_hash_is_pinned(token: int, lg: int) -> None:
    h, d, buckets = PINNED[token, lg]
    assert (layout.hash_start(token, lg), layout.hash_stride(token, lg)) == (h, d)
    assert [(h + r * d) % (1 << lg) for r in range(5)] == buckets


@pytest.mark.parametrize("lg", LG_VALUES)
def test_hash_never_overflows_int32(lg: int) -> None:
    """SPEC.md: every intermediate is below 2^31, so no rule relies on overflow."""
    tokens = np.arange(layout.MAX_TOKENS, dtype=np.int64)
    narrow = tokens.astype(np.int32)
    assert np.array_equal(layout.hash_start(tokens, lg), layout.hash_start(narrow, lg))
    assert layout.HASH_A * tokens[-1] + layout.HASH_C * (tokens[-1] >> lg) < 1 << 31
    assert layout.HASH_B * (tokens[-1] >> 1) + layout.HASH_A * (tokens[-1] >> lg) < 1 << 31
