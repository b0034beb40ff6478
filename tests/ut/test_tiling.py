# SPDX-License-Identifier: Apache-2.0
"""Tiling of the chips: what fits 184 KiB of UB, and what the refusal of a larger pool names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ("ascend910b", "ascend910_93")
UB_BYTES = 184 * 1024


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("tiling") / "tiling_sizes"
    sources = [ROOT / "tests" / "ut" / "tiling_sizes.cpp", ROOT / "op_host" / "tiling.cpp"]
    includes = [f"-I{ROOT / folder}" for folder in ("op_host", "op_kernel")]
    subprocess.run(["g++", "-std=c++17", *includes, *map(str, sources), "-o", str(program)], check=True)
    return program


def tiling(driver: Path, chip: str, *shape: int) -> str:
    return subprocess.run(
        [driver, chip, *map(str, shape)], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("row_bytes", [16, 656, 1152, 65536])
@pytest.mark.parametrize(
    ("num_slots", "top_k", "num_queries"), [(8192, 2048, 4), (8192, 2048, 1), (2048, 2048, 1), (64, 8, 8)]
)
@pytest.mark.parametrize("chip", CHIPS)
def test_all_launches_fit_the_on_chip_buffer(driver, chip, num_slots, top_k, num_queries, row_bytes):
    ok, num_cores, _, match, fused, num_buffers, load, store = map(
        int, tiling(driver, chip, num_slots, top_k, num_queries, row_bytes).split()
    )
    assert ok and num_cores == 48
    assert 0 < match < fused <= UB_BYTES and max(load, store) <= UB_BYTES
    assert num_buffers >= 2, "two rows are in flight at least"


@pytest.mark.parametrize("chip", CHIPS)
def test_what_does_not_fit_is_refused_with_the_largest_that_does(driver, chip):
    largest = int(tiling(driver, chip, 2048, 2048, 1, 1152).split()[2])
    assert largest >= 8192
    assert not tiling(driver, chip, largest, 2048, 1, 1152).startswith("error")
    refusal = tiling(driver, chip, largest + 64, 2048, 1, 1152)
    assert refusal.startswith(f"error num_slots = {largest + 64} with top_k = 2048 does not fit")
    assert refusal.endswith(f"the largest num_slots that fits this top_k is {largest}.")


def test_another_chip_is_unknown(driver):
    assert tiling(driver, "ascend310p", 2048, 2048, 1, 1152) == "unknown"
