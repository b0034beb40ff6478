# SPDX-License-Identifier: Apache-2.0
"""The operator definitions against the real headers of CANN: they compile as every library that CANN makes of
them, and run on contexts of these headers with stand-ins for the libraries' functions (op_host_fake.cpp).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from avsg import layout
from op_host.operators import OPERATORS, ROOT, Sizes, call, defined

HERE = Path(__file__).parent
UB, CORES, SYSTEM_WORKSPACE, WORKSPACE = 192 * 1024, 40, 16 << 20, 512 * 64
TYPES = {"match": "AvsgMatch", "load": "AvsgLoad", "store": "AvsgStore", "fused": "Avsg"}


@pytest.fixture(scope="module")
def includes() -> list[str]:
    """Options that find the headers of the toolkit in CANN."""
    toolkit = Path(os.environ.get("CANN", "/nowhere"))
    found = sorted(toolkit.glob("*-linux/include/register/op_def_registry.h"))
    platform = sorted(toolkit.glob("*-linux/**/tiling/platform/platform_ascendc.h"))
    if not found or not platform:
        pytest.skip("needs CANN's headers: set CANN to a toolkit directory (8.1 or later)")
    folders = [found[0].parents[1], found[0].parents[1] / "external", platform[0].parents[2]]
    own = [ROOT / "op_kernel", ROOT / "op_host", ROOT / "tests" / "ut" / "op_host"]
    return [x for folder in folders for x in ("-isystem", str(folder))] + [f"-I{folder}" for folder in own]


def build(includes: list[str], sources: list[Path], *options: str) -> None:
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
    command = [
        "g++",
        "-D_GLIBCXX_USE_CXX11_ABI=0",
        "-fPIC",
        *warnings,
        *includes,
        *options,
        *map(str, sources),
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def program(includes: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("op_host") / "run"
    sources = [*(ROOT / "op_host").glob("*.cpp"), *HERE.glob("op_host_*.cpp")]
    build(includes, sources, "-std=c++17", "-o", str(path))
    return path


@pytest.mark.parametrize("library", ["", "-DOP_TILING_LIB", "-DOP_PROTO_LIB"])
@pytest.mark.parametrize("name", OPERATORS.values())
def test_definition_compiles_in_the_oldest_standard_as_every_library(includes, name, library):
    options = ["-std=c++11", "-fsyntax-only", *([library] if library else [])]
    build(includes, [ROOT / "op_host" / f"{name}_op.cpp"], *options)


def test_log_function_is_declared_as_the_toolkit_declares_it(includes, tmp_path):
    both = tmp_path / "both.cpp"
    both.write_text('#include "base/alog_pub.h"\n#include "op_adapter.h"\n')
    build(includes, [both], "-std=c++11", "-fsyntax-only")


def test_definitions_say_what_cann_needs(program):
    lines = subprocess.run(
        [program, "describe"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for operator, op_type in TYPES.items():
        own = [line.split(" ", 1)[1] for line in lines if line.startswith(f"{op_type} ")]
        count = 1 if operator == "match" else 12
        said = {
            kind: [x.split(" ", 2)[1:] for x in own if x.startswith(kind)] for kind in ("input", "output")
        }
        for kind, parameters in said.items():
            assert [name for name, _ in parameters] == defined(operator, kind.title())
            for name, text in parameters:
                listed = name in ("host_kv", "fresh", "device_kv", "new_rows")
                as_it_is = kind == "input" and (listed or name == "state")
                assert text == (
                    f"{'list' if listed else 'tensor'} {count} types {count if listed else 0} for binaries "
                    f"{count} formats {'as it is' if as_it_is else 'contiguous'}"
                )
        assert [x.split()[-1] for x in own if x.startswith("attr")] == defined(operator, "Attr")
        assert [x for x in own if x.startswith("chip")] == [
            f"chip {name} +DynamicCompileStaticFlag +DynamicFormatFlag +DynamicRankSupportFlag "
            "+DynamicShapeSupportFlag -NeedCheckSupportFlag -PrecisionReduceFlag"
            for name in ("ascend910b", "ascend910_93")
        ]


def run(program, operator, sizes, change=None, ub=UB, cores=CORES, **attrs) -> list[str]:
    tensors = {**sizes.tensors(), **(change or {})}
    words = [TYPES[operator], ub, cores, *call(operator, sizes, tensors, **attrs)]
    text = " ".join(map(str, words))
    return subprocess.run(
        [program], input=text, capture_output=True, text=True, check=True
    ).stdout.splitlines()


SIZES = {
    "two payloads": Sizes(),
    "bytes without fresh": Sizes(has_fresh=False, item_bytes=1, row_dims=[(656,)], queries=1),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_launch_takes_all_cores_at_once_with_the_pure_tiling(program, operator, sizes):
    launch, *_ = run(program, operator, sizes)
    workspace = SYSTEM_WORKSPACE + WORKSPACE
    assert launch == f"key 0 cores {CORES} mode 1 workspace {workspace} tiling pure"


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_outputs_have_the_shapes_and_dtypes_of_the_contract(program, operator, sizes):
    _, shapes, types = run(program, operator, sizes)
    plan = (sizes.entries, sizes.queries * sizes.top_k)
    written = {
        **sizes.tensors(),
        **{"slots": [(sizes.entries, sizes.queries, sizes.top_k)], "counters": [(sizes.entries, 8)]},
        **{"miss_tokens": [plan], "miss_slots": [plan], "load_counters": [(2,)], "store_counters": [(2,)]},
    }
    wanted = [(dims, name) for name in defined(operator, "Output") for dims in written[name]]
    text = " ".join("[" + ",".join(map(str, dims)) + "]" for dims, _ in wanted)
    assert shapes == f"shapes {text}"
    assert types == " ".join(["types", *(str(sizes.item_bytes_of(name)) for _, name in wanted)])


@pytest.mark.parametrize("operator", ["match", "fused"])
def test_a_graph_that_does_not_know_the_step_yet_gets_unknown_shapes(program, operator):
    sizes = Sizes()
    _, shapes, _ = run(program, operator, sizes, {"topk_tokens": [(-1, 2, 64)]})
    plan = "[-1,2,64] [-1,128] [-1,128] [-1] [-1,8] [-1] [-1]"
    assert plan in shapes
    _, shapes, _ = run(program, operator, sizes, {"topk_tokens": [(-2,)]})
    assert "[-2] [-1,-1] [-1,-1] [-1] [-1,8] [-1] [-1]" in shapes


def test_a_refusal_reaches_the_log_as_an_error_of_the_operator(program):
    answer, *_ = run(program, "match", Sizes(), {"state": [(3, 512)]})
    assert answer == (
        f"refused 63 3 AvsgMatch: state has shape [3, 512], [num_rows, {layout.state_stride_bytes(512)}] is "
        "needed for num_slots = 512: take the stride from avsg_sizes."
    )
    answer, *_ = run(program, "store", Sizes(), ub=1024)
    assert answer.startswith("refused 63 3 AvsgStore: the chip reports 1024 bytes of UB")
    answer, *_ = run(program, "load", Sizes(), cores=65)
    assert answer.startswith("refused 63 3 AvsgLoad: num_cores is 65")
