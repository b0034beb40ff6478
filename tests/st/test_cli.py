# SPDX-License-Identifier: Apache-2.0
"""avsg replay and avsg demo: figures, refusals and a planted fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from avsg import _abi, layout
from avsg.cli import main
from avsg.commands import common
from avsg.commands.replay import POLICIES
from avsg.replay import Memory
from avsg.traces import DATA_DIR, shipped_traces

ROOT = Path(__file__).resolve().parents[2]
TOP_K = 64


def avsg(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def write_trace(path: Path, topk: np.ndarray, meta: object = None, **arrays: object) -> Path:
    start = {"context_start": 400} if meta is None else meta
    np.savez(path, topk=topk, meta=start if isinstance(start, str) else json.dumps(start), **arrays)
    return path


def random_topk(seed: int = 3, positions: int = 96) -> np.ndarray:
    """A trace that keeps most tokens from one position to the next, with padding in some rows."""
    rng = np.random.default_rng(seed)
    rows, current = [], rng.permutation(400)[:TOP_K]
    for _ in range(positions):
        fresh = rng.permutation(np.setdiff1d(np.arange(400), current))[: TOP_K // 8]
        current = rng.permutation(np.concatenate([rng.permutation(current)[fresh.size :], fresh]))
        rows.append(current)
    topk = np.array(rows, np.int64)
    topk[::7, -5:] = -1
    return topk


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("trace") / "small trace.npz", random_topk())


def replay_json(*arguments: object) -> dict:
    result = avsg("replay", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("queries", [1, 2])
def test_every_policy_replays_and_belady_is_best(trace: Path, queries: int) -> None:
    document = replay_json(trace, "--slots", "128,4x", "--queries", queries, "--warm-up", 8)
    results = {(r["policy"], r["num_slots"]): r for r in document["results"]}
    assert list(results) == [(policy, size) for size in (128, 256) for policy in POLICIES]
    for (policy, size), r in results.items():
        assert 0 < r["hit_rate"] <= results["belady", size]["hit_rate"], policy
        assert r["bytes_copied"] == r["rows_copied"] * 1152
        assert r["valid_tokens"] == results["avsg", size]["valid_tokens"]


def test_json_has_these_fields(trace: Path) -> None:
    document = replay_json(trace, "--policy", "avsg,lru", "--slots", "2x", "--warm-up", 8, "--cores", 3)
    results = document.pop("results")
    assert document == {
        "format": 1, "trace": "small trace", "top_k": TOP_K, "context_start": 400, "positions": 96,
        "warm_up_positions": 8, "queries": 1, "library": "cpu", "row_bytes": 1152,
    }  # fmt: skip
    pool, lru = results
    assert list(pool) == list(lru) == [
        "policy", "num_slots", "slots_per_top_k", "steps", "valid_tokens", "hits", "hit_rate", "rows_copied",
        "rows_copied_per_step", "bytes_copied", "num_cores", "core_share_max_over_mean", "unlinked",
        "checked_rows", "wrong_rows",
    ]  # fmt: skip
    assert pool["valid_tokens"] == pool["hits"] + pool["rows_copied"]
    assert (pool["steps"], pool["num_cores"], pool["wrong_rows"]) == (88, 3, 0)
    assert pool["checked_rows"] == int((random_topk() >= 0).sum())
    assert 1 <= pool["core_share_max_over_mean"] <= 3
    assert lru["wrong_rows"] is lru["checked_rows"] is lru["num_cores"] is lru["unlinked"] is None


def test_hit_rates_of_a_shipped_trace_are_the_known_ones() -> None:
    document = replay_json("agent_L09_K256", "--slots", "2x")
    rates = {r["policy"]: round(100 * r["hit_rate"], 2) for r in document["results"]}
    known = {"avsg": 94.53, "paper": 89.72, "previous": 77.13, "belady": 96.98}
    assert {policy: rates[policy] for policy in known} == known


def test_table_shows_every_column(trace: Path) -> None:
    output = avsg("replay", trace, "--slots", "2x", "--policy", "avsg").output
    for word in (
        "slots S",
        "hit rate",
        "per step",
        "core share",
        "unlinked",
        "0 of 6,",
        "128 (2x)",
        "library cpu",
    ):
        assert word in output


def test_default_sizes_hold_a_step_and_fit_the_library() -> None:
    document = replay_json("agent48k_L15_K2048", "--policy", "avsg", "--queries", "4")
    assert [r["num_slots"] for r in document["results"]] == [8192]
    assert not any(r["wrong_rows"] for r in document["results"])


def test_default_size_suits_every_policy(trace: Path) -> None:
    document = replay_json(trace, "--queries", 9, "--warm-up", 9)  # 9 times top_k is no power of two
    assert [r["num_slots"] for r in document["results"]] == [1024] * len(POLICIES)


@pytest.mark.parametrize(
    ("text", "slots"),
    [("8192", [8192]), ("8K,2k", [8192, 2048]), ("1x, 4x", [256, 1024]), ("4x,1024,1K", [1024])],
)
def test_sizes_are_slots_thousands_or_multiples(text: str, slots: list[int]) -> None:
    assert common.parse_slots(text, top_k=256) == slots


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no_such_trace"], "agent_L09_K256"),
        (["TRACE", "--slots", "2y"], "8K (1K = 1024) or 4x"),
        (["TRACE", "--slots", ""], "a number of slots"),
        (["TRACE", "--slots", "100"], "multiple of 64"),
        (["TRACE", "--slots", "64", "--queries", "2"], "num_queries * top_k is 2 * 64"),
        (["TRACE", "--slots", "1000000"], "num_slots is 1000000"),
        (["TRACE", "--slots", "192", "--policy", "paper"], "power of two"),
        (["TRACE", "--policy", "avsg,lfu"], "'lfu'"),
        (["TRACE", "--queries", "0"], "--queries is 0"),
        (["TRACE", "--queries", "two"], "'two' is not a valid integer"),
        (["TRACE", "--warm-up", "96"], "nothing would be counted"),
        (["TRACE", "--warm-up", "-1"], "nothing would be counted"),
        (["TRACE", "--library", "gpu"], "'gpu' is neither a file nor one of"),
        (["TRACE", "--cores", "1000"], "num_cores"),
        (["agent_L09_K256", "--queries", "100"], "--queries 100 needs 32768 slots or more"),
        (["TRACE", "--policy", "belady", "--slots", "100"], "multiple of 64"),
        (["TRACE", "--plot", "figure.txt"], ".png, .svg, .pdf"),
        (["TRACE", "--plot", "no/such/folder/figure.png"], "does not exist"),
        ([], "Missing argument 'TRACE'"),
    ],
    ids=str,
)
def test_wrong_input_is_refused_in_a_sentence(arguments: list[str], sentence: str, trace: Path) -> None:
    result = avsg("replay", *(trace if argument == "TRACE" else argument for argument in arguments))
    assert result.exit_code == 2, result.output
    assert sentence in " ".join(result.output.split())
    assert "Traceback" not in result.output and result.output.count("Error: ") == 1


GOOD_TOPK = np.arange(64, dtype=np.uint16).reshape(4, 16)


@pytest.mark.parametrize(
    ("topk", "meta", "sentence"),
    [
        (GOOD_TOPK[0], None, "topk of"),
        (GOOD_TOPK.astype(np.float32), None, "float32 [4, 16]"),
        (GOOD_TOPK[:, :12], None, "a multiple of 8"),
        (GOOD_TOPK[:0], None, "topk of"),
        (GOOD_TOPK + 390, None, "its query stands at position 400"),
        (GOOD_TOPK, {"context_start": -1}, "context_start"),
        (GOOD_TOPK, {"context_start": True}, "context_start"),
        (GOOD_TOPK, ["no", "object"], "context_start"),
        (GOOD_TOPK, "{not json", "not JSON"),
        (GOOD_TOPK, {"context_start": layout.MAX_TOKENS}, "at most 1048576"),
    ],
    ids=range(10),
)
def test_wrong_trace_is_refused_in_a_sentence(
    topk: np.ndarray, meta: object, sentence: str, tmp_path: Path
) -> None:
    result = avsg("replay", write_trace(tmp_path / "trace.npz", topk, meta))
    assert result.exit_code == 2, result.output
    assert sentence in " ".join(result.output.split()) and "Traceback" not in result.output


@pytest.mark.parametrize("kind", ["text", "array", "other arrays", "pickle", "truncated", "damaged"])
def test_file_of_another_kind_is_refused(kind: str, trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    if kind == "text":
        path.write_text("not a zip file")
    elif kind == "array":
        with path.open("wb") as file:
            np.save(file, GOOD_TOPK)
    elif kind == "other arrays":
        np.savez(path, tokens=GOOD_TOPK)
    elif kind == "pickle":
        np.savez(path, topk=np.array([{}], dtype=object), meta="{}")
    elif kind == "damaged":  # the compressed bytes themselves, so that zlib and not zipfile complains
        data = bytearray((DATA_DIR / "agent_L09_K256.npz").read_bytes())
        data[len(data) // 3 : len(data) // 3 + 2000] = bytes(2000)
        path.write_bytes(data)
    else:
        path.write_bytes(trace.read_bytes()[:-400])
    result = avsg("replay", path)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output and result.output.startswith("Error: ")


def test_library_that_returns_a_wrong_slot_is_caught(trace: Path, tmp_path: Path) -> None:
    mutant = tmp_path / "libavsg_mutant.so"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f'-DAVSG_REAL_LIBRARY="{_abi.resolve("cpu")}"']
    command += [f"-I{ROOT / 'framework' / 'c_api'}", str(ROOT / "tests" / "st" / "mutant_library.cpp")]
    subprocess.run([*command, "-o", str(mutant), "-ldl"], check=True)
    result = avsg("replay", trace, "--slots", "2x", "--policy", "avsg", "--library", mutant, "--json")
    assert result.exit_code == 1, result.output
    assert json.loads(result.stdout)["results"][0]["wrong_rows"] == 2 * 96


def test_one_wrong_byte_of_one_payload_is_seen() -> None:
    memory = Memory(1000)
    tokens, slots = np.array([7, 999, 0]), np.array([1, 0, 63])
    device_kv = memory.device_kv(64)
    for host, device in zip(memory.host_kv, device_kv):
        rows = memory.block_table[0, tokens // 128] * 128 + tokens % 128
        device[slots] = host.reshape(-1, host.shape[2])[rows]
    assert memory.wrong_rows(tokens, slots, device_kv) == 0
    device_kv[1][0, 127] ^= 1
    assert memory.wrong_rows(tokens, slots, device_kv) == 1
    assert memory.wrong_rows(tokens, np.array([1, -1, 64]), device_kv) == 2


def test_plot_is_written(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    result = avsg("replay", trace, "--slots", "2x,4x", "--policy", "avsg,lru", "--plot", path)
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")


def test_plot_over_a_folder_is_refused_before_the_run(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    result = avsg("replay", trace, "--plot", tmp_path / "folder.png")
    assert result.exit_code == 2 and "cannot be written" in result.output and "hit rate" not in result.output


def test_baselines_may_have_more_slots_than_the_chip_holds(trace: Path) -> None:
    document = replay_json(trace, "--policy", "lru", "--slots", "32K", "--warm-up", 8)
    assert [r["num_slots"] for r in document["results"]] == [32768]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=str)
def test_output_that_cannot_be_written_is_a_sentence(form: list[str], trace: Path) -> None:
    command = [Path(sys.executable).with_name("avsg"), "replay", trace, "--policy", "lru", *form]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: The output cannot be written"), done.stderr


def test_plot_without_matplotlib_says_what_to_install(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = avsg("replay", trace, "--plot", "figure.png")
    assert result.exit_code == 2
    assert "pip install matplotlib" in result.output


def test_demo_runs_as_a_program_in_less_than_a_minute() -> None:
    command = [Path(sys.executable).with_name("avsg"), "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "97.58%" in done.stdout and " 0 of 768,000" in done.stdout


def test_shipped_traces_are_named_in_help_and_described() -> None:
    described = (ROOT / "python" / "avsg" / "data" / "README.md").read_text()
    for name in shipped_traces():
        assert name in avsg("replay", "--help").output.replace("\n", " ")
        assert f"{name}.npz" in described
