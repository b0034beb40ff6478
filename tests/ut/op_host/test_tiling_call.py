# SPDX-License-Identifier: Apache-2.0
"""From a call's shapes and attributes to a tiling struct: the bytes of the pure tiling, or a sentence."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .operators import OPERATORS, ROOT, Sizes, call

UB = 192 * 1024  # what the chips report


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("call") / "call_driver"
    sources = [Path(__file__).parent / "call_driver.cpp", *(ROOT / "op_host").glob("tiling*.cpp")]
    includes = [f"-I{ROOT / folder}" for folder in ("op_host", "op_kernel")]
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", *includes, *map(str, sources)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def run(driver, operator, sizes=None, change=None, ub=UB, cores=40, **attrs) -> str:
    """The driver's answer; change: tensors by name that replace those of sizes."""
    sizes = sizes or Sizes()
    tensors = {**sizes.tensors(), **(change or {})}
    words = [operator, ub, cores, *call(operator, sizes, tensors, **attrs), *sizes.numbers()]
    text = " ".join(map(str, words))
    return subprocess.run([driver], input=text, capture_output=True, text=True, check=True).stdout.strip()


CASES = {
    "nope and rope": Sizes(),
    "one payload of bytes, one query": Sizes(queries=1, num_queries=1, item_bytes=1, row_dims=[(656,)]),
    "four payloads": Sizes(row_dims=[(8,), (16,), (1, 2, 8), (64,)]),
    "no fresh": Sizes(has_fresh=False),
    "the largest state": Sizes(num_slots=8192, top_k=2048, queries=4),
    "more entries than rows": Sizes(entries=9, num_rows=2),
}


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_call_is_tiled_like_the_sizes_it_stands_for(driver, operator, sizes):
    assert run(driver, operator, sizes) == "same"


@pytest.mark.parametrize("operator", ["load", "fused"])
def test_without_fresh_its_list_is_not_looked_at(driver, operator):
    sizes = Sizes(has_fresh=False)
    assert run(driver, operator, sizes, {"fresh": []}) == "same"
    assert run(driver, operator, Sizes(), {"fresh": []}) == (
        "error fresh has 0 tensors and host_kv has 2: give every list one tensor a payload."
    )


@pytest.mark.parametrize("operator", ["load", "fused"])
def test_device_rows_may_have_any_shape_of_the_same_bytes(driver, operator):
    rows = [(96, 16, 1, 512), (96, 16, 64)]
    assert run(driver, operator, change={"device_kv": rows}) == "same"


def test_less_ub_than_the_family_has_is_used_up_to_select(driver):
    assert run(driver, "match", ub=1 << 30) == "same"
    small = run(driver, "match", Sizes(num_slots=8192, top_k=2048), ub=128 * 1024)
    assert "does not fit the on-chip buffer (122880 usable bytes of UB)" in small
    assert run(driver, "store", ub=1024) == (
        "error the chip reports 1024 bytes of UB, at least 65536 are needed: take an Atlas A2 or A3."
    )


def test_both_chip_families_have_the_numbers_that_the_adapter_takes():
    table = re.findall(r'{"ascend(910\w+)", (.*?)}', (ROOT / "op_host" / "tiling.cpp").read_text())
    assert [name for name, _ in table] == ["910b", "910_93"] and len({numbers for _, numbers in table}) == 1


REFUSED = [
    (
        "match",
        {"topk_tokens": [(2, 128)]},
        "topk_tokens has shape [2, 128], [entries, queries, top_k] is needed.",
    ),
    ("match", {"seq_lens": [(3,)]}, "seq_lens has shape [3], [2] is needed: one value a batch entry."),
    ("match", {"rows": [(2, 1)]}, "rows has shape [2, 1], [2] is needed: one value a batch entry."),
    ("match", {"leases": []}, "leases has shape [], [2] is needed: one value a batch entry."),
    ("match", {"state": [(3,)]}, "state has shape [3], [num_rows, stride] is needed."),
    (
        "fused",
        {"state": [(3, 512)]},
        "state has shape [3, 512], [num_rows, 9216] is needed for num_slots = 512",
    ),
    (
        "load",
        {"state": [(3, 512)]},
        "state has shape [3, 512], [num_rows, 9216] is needed for num_slots = 512",
    ),
    (
        "load",
        {"miss_slots": [(2, 64)]},
        "miss_slots has shape [2, 64], the shape [2, 128] of miss_tokens is needed.",
    ),
    ("load", {"plan_rows": [(1,)]}, "plan_rows has shape [1], [2] is needed: one value a batch entry."),
    ("load", {"block_table": [(3, 7)]}, "block_table has 3 lines, 2 are needed: one a batch entry."),
    (
        "fused",
        {"block_table": [(2, 7, 1)]},
        "block_table has shape [2, 7, 1], [entries, max_blocks] is needed.",
    ),
    ("store", {"entries": [(4,)]}, "entries has shape [4], [5] is needed: one value a new row."),
    (
        "store",
        {"new_rows": [(5, 512)]},
        "new_rows has 1 tensors and host_kv has 2: give every list one tensor",
    ),
    (
        "store",
        {"new_rows": [(4, 512), (5, 64)]},
        "new_rows[0] holds 4096 bytes in shape [4, 512], 5120 are needed",
    ),
    (
        "fused",
        {"device_kv": [(1536, 512), (1535, 64)]},
        "device_kv[1] holds 196480 bytes in shape [1535, 64]",
    ),
    (
        "load",
        {"fresh": [(2, 1, 512), (2, 2, 64)]},
        "fresh[0] holds 2048 bytes in shape [2, 1, 512], 4096 are needed",
    ),
    (
        "store",
        {"host_kv": [(40, 16, 512), (40, 8, 64)]},
        "host_kv[1] has shape [40, 8, 64], [num_blocks, block_size",
    ),
    (
        "store",
        {"host_kv": [(40,), (40,)]},
        "host_kv[0] has shape [40], [num_blocks, block_size, ...] is needed",
    ),
    ("store", {"host_kv": [], "new_rows": []}, "host_kv is an empty list, 1 to 4 payloads are needed."),
    ("load", {"block_table": [(2, 1 << 31)]}, "max_blocks is 2147483648, at most 2147483647 is allowed."),
]


@pytest.mark.parametrize(("operator", "change", "sentence"), REFUSED)
def test_wrong_shapes_are_refused_by_name(driver, operator, change, sentence):
    answer = run(driver, operator, change=change)
    assert answer.startswith(f"error {sentence}") and answer.endswith(".")


@pytest.mark.parametrize("operator", ["match", "load", "fused"])
def test_wrong_attributes_are_refused_by_name(driver, operator):
    assert run(driver, operator, num_slots=500).startswith("error num_slots is 500")
    assert run(driver, operator, max_life=2001).startswith("error max_life is 2001")
    assert run(driver, operator, num_queries=1 << 40).startswith(
        "error num_queries is 1099511627776, at most"
    )
    assert "num_queries = 1" in run(driver, operator, num_queries=1)
    assert run(driver, operator, cores=65).startswith("error num_cores is 65")


def test_a_plan_of_another_top_k_is_refused(driver):
    assert run(driver, "load", change={"miss_tokens": [(2, 100)], "miss_slots": [(2, 100)]}) == (
        "error miss_tokens has lines of 100, a multiple of top_k = 64 up to num_queries = 4 times is needed."
    )
