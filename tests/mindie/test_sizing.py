# SPDX-License-Identifier: Apache-2.0
"""Sizing of a served model: the formula against measured block sizes, what fits, and `avsg size --model`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import avsg
from avsg import layout
from avsg.cli import main
from avsg.mindie.glm import layer_groups
from avsg.mindie.sizing import CANN_WORKSPACE_BYTES, GIB, MODELS, ModelShape, size_kv
from avsg.plan import PLAN_FIELDS, Plan

GLM, DEEPSEEK = MODELS["glm-5.2"], MODELS["deepseek-v3.2"]
DEEPSEEK_CONFIG = {
    "model_type": "deepseek_v32",
    "num_hidden_layers": 61,
    "index_topk": 2048,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
}


def avsg_size(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["size", *map(str, arguments)])


def test_stock_block_is_what_mindie_computes_for_78_layers_and_a_draft_layer() -> None:
    assert size_kv(GLM, requests=1, context=1, num_queries=2).stock_block_bytes == 14_237_696


def test_hbm_block_of_79_layers_with_indexers_is_what_mindie_computes_without_heads() -> None:
    shape = replace(GLM, num_layers=79, num_groups=79)
    assert size_kv(shape, requests=1, context=1).hbm_block_bytes == 2_588_672


def test_only_layers_with_an_indexer_and_the_draft_layer_take_hbm_per_block() -> None:
    assert size_kv(GLM, requests=1, context=1).hbm_block_bytes == 21 * 128 * 256
    drafts = size_kv(GLM, requests=1, context=1, num_queries=4)
    assert drafts.hbm_block_bytes == (21 + 1) * 128 * 256 + 128 * 1152


def test_host_and_hbm_together_hold_what_stock_holds_where_every_layer_has_an_indexer() -> None:
    sizing = size_kv(DEEPSEEK, requests=1, context=1, num_queries=3)
    assert sizing.host_block_bytes + sizing.hbm_block_bytes == sizing.stock_block_bytes


def test_device_buffers_take_9_4_mb_a_layer_and_request() -> None:
    shape = replace(GLM, num_layers=79)
    assert size_kv(replace(GLM, num_layers=1), requests=1, context=1).device_kv_bytes == 9_437_184
    assert size_kv(shape, requests=1, context=1).device_kv_bytes == 745_537_536
    assert (
        size_kv(shape, requests=1, context=1, rows=3, num_slots=4096).device_kv_bytes == 745_537_536 * 3 // 2
    )


def test_state_and_plans_are_those_of_the_pools() -> None:
    pool = avsg.Pool(avsg.PoolConfig(4, 8192, 2048, 3), "reference")
    plan = Plan.empty(4, 3, 2048)
    sizing = size_kv(GLM, requests=4, context=1000, num_queries=3)
    assert sizing.state_bytes == 21 * pool.state.nbytes
    assert sizing.plan_bytes == 21 * sum(getattr(plan, name).nbytes for name in PLAN_FIELDS)
    assert sizing.workspace_bytes == CANN_WORKSPACE_BYTES + layout.WORKSPACE_BYTES


def test_staging_holds_a_step_or_prompts_in_whole_blocks() -> None:
    def tokens(prefill_tokens: int, prefill_requests: int, **sizes: int) -> int:
        prefill = {"max_prefill_tokens": prefill_tokens, "max_prefill_requests": prefill_requests}
        return size_kv(GLM, context=1, **prefill, **{"requests": 1, **sizes}).staging_tokens

    assert tokens(8192, 1) == 8192 + 128
    assert tokens(256, 256) == 256 * 128, "each of 256 one-token prompts takes a block"
    assert tokens(3, 50) == 3 * 128, "no more prompts than tokens"
    assert tokens(0, 50, requests=100, num_queries=4) == 512
    sizing = size_kv(GLM, context=1, requests=1, max_prefill_tokens=0, num_slots=2048)
    assert sizing.staging_bytes == 128 * 1152


def test_blocks_are_whole_per_request_and_totals_follow() -> None:
    sizing = size_kv(GLM, requests=3, context=129)
    assert (sizing.blocks_per_request, sizing.blocks_needed) == (2, 6)
    assert sizing.host_bytes == 6 * sizing.host_block_bytes
    assert sizing.hbm_bytes == sizing.fixed_bytes + 6 * sizing.hbm_block_bytes
    assert sizing.stock_hbm_bytes == 6 * sizing.stock_block_bytes


@pytest.mark.parametrize(("hbm_blocks", "host_blocks", "expected"), [(9, 5, 5), (5, 9, 5), (9, None, 8)])
def test_num_blocks_is_what_both_memories_hold(
    hbm_blocks: int, host_blocks: int | None, expected: int
) -> None:
    sizing = size_kv(GLM, requests=2, context=512)
    host = None if host_blocks is None else host_blocks * sizing.host_block_bytes + 1
    for_blocks = hbm_blocks * sizing.hbm_block_bytes + 1
    assert sizing.num_blocks(hbm_bytes=for_blocks, host_bytes=host, fixed_allocated=True) == expected
    assert sizing.num_blocks(hbm_bytes=sizing.fixed_bytes + for_blocks, host_bytes=host) == expected
    assert sizing.num_blocks(hbm_bytes=sizing.hbm_bytes) == sizing.blocks_needed


def test_memory_that_holds_no_request_is_refused_with_what_one_takes() -> None:
    sizing = size_kv(GLM, requests=2, context=131072)
    with pytest.raises(ValueError, match=r"takes 1024: give 2\.07 GiB of HBM and 10\.97 GiB of host memory"):
        sizing.num_blocks(hbm_bytes=GIB, host_bytes=GIB)
    need = sizing.fixed_bytes + sizing.blocks_per_request * sizing.hbm_block_bytes
    host = sizing.blocks_per_request * sizing.host_block_bytes
    assert sizing.num_blocks(hbm_bytes=need, host_bytes=host) == 1024
    for hbm_bytes, host_bytes in ((need - 1, host), (need, host - 1)):
        with pytest.raises(ValueError):
            sizing.num_blocks(hbm_bytes=hbm_bytes, host_bytes=host_bytes)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"requests": 0}, "requests is 0"),
        ({"context": 0}, "context is 0"),
        ({"context": 1 << 21}, "1048576 or less"),
        ({"num_queries": 5}, "num_queries * top_k"),
        ({"num_slots": 100}, "multiple of 64"),
        ({"block_size": 0}, "block_size is 0"),
    ],
)
def test_wrong_sizes_are_refused(sizes: dict, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        size_kv(GLM, **{"requests": 1, "context": 1, **sizes})
    assert words in str(caught.value)


def test_shape_of_a_config_is_the_known_models() -> None:
    types = ["full" if i < 3 or i % 4 == 2 else "shared" for i in range(78)]
    glm = {**DEEPSEEK_CONFIG, "num_hidden_layers": 78, "indexer_types": types}
    assert replace(ModelShape.of(glm), name="glm-5.2") == GLM
    assert len(layer_groups(glm)) == 21
    assert replace(ModelShape.of(DEEPSEEK_CONFIG), name="deepseek-v3.2") == DEEPSEEK


def test_size_command_prints_what_the_formula_gives(tmp_path: Path) -> None:
    options = ("--context", "64K", "--requests", 16, "--queries", 3, "--slots", "3x", "--json")
    values = json.loads(avsg_size("--model", "deepseek-v3.2", *options).stdout)
    sizing = size_kv(DEEPSEEK, requests=16, context=65536, num_queries=3, num_slots=6144)
    assert values["hbm_bytes"] == sizing.hbm_bytes and values["host_bytes"] == sizing.host_bytes
    assert values["device_kv_bytes"] == sizing.device_kv_bytes and values["num_blocks"] is None
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DEEPSEEK_CONFIG))
    assert json.loads(avsg_size("--model", path, *options).stdout)["hbm_bytes"] == sizing.hbm_bytes
    output = avsg_size("--model", "deepseek-v3.2", *options[:-1]).output
    assert f"{sizing.hbm_bytes:,}" in output and f"{sizing.host_block_bytes:,}" in output


def test_size_command_says_how_many_requests_fit() -> None:
    arguments = ("--model", "glm-5.2", "--requests", 32, "--hbm", 40, "--host", 200)
    values = json.loads(avsg_size(*arguments, "--json").stdout)
    sizing = size_kv(GLM, requests=32, context=131072)
    assert values["num_blocks"] == sizing.num_blocks(hbm_bytes=40 * GIB, host_bytes=200 * GIB)
    assert f"{values['num_blocks'] // 1024} such requests" in avsg_size(*arguments).output
    more_rows = json.loads(avsg_size(*arguments, "--rows", 33, "--json").stdout)
    assert more_rows["device_kv_bytes"] * 32 == values["device_kv_bytes"] * 33


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "gpt"], "glm-5.2, deepseek-v3.2 or the path"),
        (["--model", "glm-5.2", "--top-k", 64], "--top-k and --model do not go together"),
        (["--model", "glm-5.2", "--context", "1G"], "--context is '1G'"),
        (["--model", "glm-5.2", "--host", 1], "--host needs --hbm"),
        (["--model", "glm-5.2", "--slots", "16K"], "the largest num_slots that fits this top_k is 8192"),
        (["--model", "glm-5.2", "--hbm", 1], "a request at its full length takes"),
        (["--model", __file__], "describes no model"),
        (["--context", "4K"], "--context needs --model"),
    ],
    ids=str,
)
def test_size_command_refuses_in_a_sentence(arguments: list, words: str) -> None:
    result = avsg_size(*arguments)
    assert result.exit_code == 2 and words in " ".join(result.output.split()), result.output
