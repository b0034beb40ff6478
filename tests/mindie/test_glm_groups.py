# SPDX-License-Identifier: Apache-2.0
"""Laws of the layers that share an indexer, and of the configs that avsg.mindie.glm takes."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from avsg.mindie.glm import indexer_types, layer_groups
from avsg.mindie.glm.checks import check_config
from avsg.mindie.glm.share import share_topk

# The published config.json of GLM-5.2, as far as these classes read it.
GLM_5_2 = {
    "model_type": "glm_moe_dsa",
    "architectures": ["GlmMoeDsaForCausalLM"],
    "attention_bias": False,
    "dtype": "bfloat16",
    "eos_token_id": [154820, 154827, 154829],
    "first_k_dense_replace": 3,
    "head_dim": 192,
    "hidden_act": "silu",
    "hidden_size": 6144,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "index_share_for_mtp_iteration": True,
    "index_skip_topk_offset": 3,
    "index_topk": 2048,
    "index_topk_freq": 4,
    "index_topk_pattern": None,
    "indexer_rope_interleave": True,
    "indexer_types": ["full" if i < 3 or i % 4 == 2 else "shared" for i in range(78)],
    "intermediate_size": 12288,
    "kv_lora_rank": 512,
    "max_position_embeddings": 1048576,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 78,
    "num_key_value_heads": 64,
    "num_nextn_predict_layers": 1,
    "pad_token_id": 154820,
    "q_lora_rank": 2048,
    "qk_head_dim": 256,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-05,
    "rope_interleave": True,
    "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"},
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "tie_word_embeddings": False,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "v_head_dim": 256,
    "vocab_size": 154880,
}


def test_glm_5_2_has_a_group_for_each_of_its_21_indexers() -> None:
    groups = layer_groups(GLM_5_2)
    assert groups == [[0], [1], *([i, i + 1, i + 2, i + 3] for i in range(2, 78, 4))]
    assert len(groups) == 21 and sum(groups, []) == list(range(78))


def test_the_draft_layer_is_in_no_group() -> None:
    assert GLM_5_2["num_hidden_layers"] not in sum(layer_groups(GLM_5_2), [])


@pytest.mark.parametrize("absent", [("indexer_types",), ("indexer_types", "index_topk_pattern")])
def test_the_published_schedule_gives_the_published_types(absent: tuple[str, ...]) -> None:
    """index_topk_freq and index_skip_topk_offset alone say the same as the list."""
    config = {key: value for key, value in GLM_5_2.items() if key not in absent}
    assert indexer_types(config) == GLM_5_2["indexer_types"]


def test_a_pattern_of_letters_is_a_list_of_types() -> None:
    assert layer_groups({"num_hidden_layers": 6, "index_topk_pattern": "FFSSFS"}) == [[0], [1, 2, 3], [4, 5]]


def test_a_config_without_shared_indexers_has_a_group_a_layer() -> None:
    """DeepSeek-V3.2 and GLM-5 have none of the keys, or index_topk_freq 1."""
    assert layer_groups(SimpleNamespace(num_hidden_layers=3)) == [[0], [1], [2]]
    assert layer_groups({"num_hidden_layers": 3, "index_topk_freq": 1}) == [[0], [1], [2]]


def test_mapping_and_object_give_the_same_groups() -> None:
    assert layer_groups(SimpleNamespace(**GLM_5_2)) == layer_groups(GLM_5_2)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"indexer_types": ["full"] * 77},
            "the length of indexer_types is 77, but num_hidden_layers = 78 is allowed: "
            "give one type a layer, without the draft layer.",
        ),
        (
            {"indexer_types": ["full", "half", *["full"] * 76]},
            "indexer_types[1] is 'half', but full or shared is allowed: correct config.json.",
        ),
        (
            {"indexer_types": ["shared", *["full"] * 77]},
            "indexer_types[0] is 'shared', but full is allowed: give the first layer an indexer: "
            "no layer before it has a top-k to share.",
        ),
        (
            {"indexer_types": 4},
            "indexer_types is 4, but a list with a type a layer is allowed: pass the published list.",
        ),
        (
            {"indexer_types": None, "index_topk_freq": 0},
            "index_topk_freq is 0, but a whole number from 1 is allowed: correct config.json.",
        ),
        (
            {"num_hidden_layers": None},
            "num_hidden_layers is None, but 1 or more is allowed: pass the model's config.json.",
        ),
    ],
)
def test_types_that_do_not_fit_the_layers_are_refused(changed: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        layer_groups({**GLM_5_2, **changed})
    assert str(refusal.value) == sentence


def test_the_published_config_is_taken() -> None:
    check_config(GLM_5_2)
    check_config(SimpleNamespace(**GLM_5_2))


_PUBLISHED = "use the published config.json of GLM-5.2, or another engine for this model."


@pytest.mark.parametrize(
    ("changed", "start"),
    [
        ({"q_lora_rank": None}, "q_lora_rank is None, but 1 to 65536 is allowed: "),
        ({"v_head_dim": True}, "v_head_dim is True, but 1 to 1024 is allowed: "),
        ({"index_n_heads": 65}, "index_n_heads is 65, but 1 to 64 is allowed: "),
        (
            {"index_topk": 1024},
            "index_topk is 1024, but 2048 (MindIE's indexer asks for 2,048 tokens",
        ),
        (
            {"kv_lora_rank": 256},
            "kv_lora_rank is 256, but 512 (npu_sparse_flash_attention takes 512 ",
        ),
        (
            {"topk_method": None},
            "topk_method is None, but 'noaux_tc' (MindIE's gate has no other)",
        ),
        (
            {"n_shared_experts": 2},
            "n_shared_experts is 2, but 1 (MindIE's shared expert has the ",
        ),
        (
            {"norm_topk_prob": False},
            "norm_topk_prob is False, but True (MindIE always normalises",
        ),
        (
            {"quantization_config": {"quant_method": "fp8"}},
            "quantization_config is {'quant_method': 'fp8'}, but None (MindIE loads float weights",
        ),
        (
            {"rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn"}},
            "rope_type is 'yarn', but 'default' (no scaling) is allowed: ",
        ),
        ({"rope_parameters": {}}, "rope_theta is None, but a positive number is allowed: "),
    ],
)
def test_a_config_that_would_be_served_wrongly_is_refused(changed: dict, start: str) -> None:
    with pytest.raises(ValueError) as refusal:
        check_config({**GLM_5_2, **changed})
    assert str(refusal.value).startswith(start)
    assert str(refusal.value).endswith(_PUBLISHED)


def test_layer_groups_need_neither_torch_nor_mindie() -> None:
    code = "import sys, avsg.mindie.glm; print(sorted({'torch', 'mindie_llm'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def _impls(count: int) -> list[SimpleNamespace]:
    """Attention implementations whose indexer_select returns (layer, its arguments)."""
    return [SimpleNamespace(indexer_select=lambda *args, i=i: (i, args)) for i in range(count)]


def test_a_group_uses_the_top_k_of_its_first_layer_in_this_step() -> None:
    impls = _impls(3)
    share_topk(impls)
    for step in range(2):
        topk = impls[0].indexer_select(step)
        assert topk == (0, (step,))
        assert all(impl.indexer_select("not looked at") is topk for impl in impls[1:])


def test_the_last_layer_of_a_group_lets_go_of_the_top_k() -> None:
    """And a shared layer that runs before its first layer is told so, instead of getting an old top-k."""
    impls = _impls(3)
    share_topk(impls)
    for impl in impls:
        impl.indexer_select()
    with pytest.raises(RuntimeError, match="ran before the one that has it: keep the order of layers"):
        impls[1].indexer_select()


def test_a_layer_alone_keeps_its_indexer() -> None:
    (impl,) = _impls(1)
    before = impl.indexer_select
    share_topk([impl])
    assert impl.indexer_select is before
