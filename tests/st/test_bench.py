# SPDX-License-Identifier: Apache-2.0
"""scripts/bench.py: wrong input is one sentence, and a small run gives every figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench.py"


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BENCH), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["match", "--library", "gpu"], "'gpu' is neither a file nor one of"),
        (["match", "--library", "reference"], "pass cpu or a path"),
        (["match", "--misses", "200"], "each 0 to 100"),
        (["match", "--steps", "0"], "x>=1"),
        (["match", "--top-k", "8.5"], "whole numbers"),
        (["load", "--slots", "1024"], "--top-k 2048 needs as many --slots or more, not 1024"),
        (["load", "--row-bytes", "100"], "multiples of 16"),
        (["load", "--slots", "16384"], "the largest num_slots that fits this top_k is 8192"),
    ],
    ids=str,
)
def test_wrong_input_is_refused_in_a_sentence(arguments: list[str], sentence: str) -> None:
    done = bench(*arguments)
    assert done.returncode != 0
    assert sentence in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_missing_compiler_is_named() -> None:
    done = bench("load", PATH="/nonexistent")
    assert done.returncode == 2 and "g++ is missing" in done.stderr, done.stderr


def test_small_run_measures_every_method() -> None:
    done = bench(
        "match", "--top-k", "256", "--slots", "512", "--misses", "5", "--rows", "2", "--steps", "2", "--json"
    )
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)["records"]
    assert len(records) == 5 and records[0]["method"] == "avsg"
    assert all(record["p50_us"] > 0 and 0.94 < record["hit_rate"] < 0.96 for record in records), records


def test_load_is_compared_with_copying_all_rows() -> None:
    done = bench("load", "--requests", "2", "--misses", "5", "--steps", "2", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    assert record["avsg_p50_us"] > 0 and record["speedup"] > 0
