# SPDX-License-Identifier: Apache-2.0
"""GLM-5.2 in MindIE's real classes on a CPU: config, sizes, weight names, and the logits of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import glm_env
import pytest
from glm_env import build, build_draft, load
from test_glm_groups import GLM_5_2

pytestmark = pytest.mark.torch


@pytest.fixture
def torch(mindie, monkeypatch: pytest.MonkeyPatch):
    """torch, with MindIE importable and prepared for the tiny model."""
    glm_env.prepare(mindie, monkeypatch)
    return mindie


@pytest.fixture
def checkpoint(torch) -> Path:
    return glm_env.checkpoint()


def test_the_published_config_is_mindies_config(torch) -> None:
    from avsg.mindie.glm.config import GlmMoeDsaConfig

    config = GlmMoeDsaConfig.from_dict(dict(GLM_5_2))
    assert (config.index_n_heads, config.index_head_dim, config.index_topk) == (32, 128, 2048)
    assert (config.q_lora_rank, config.qk_nope_head_dim, config.v_head_dim) == (2048, 192, 256)
    assert config.torch_dtype == torch.bfloat16
    assert config.rope_scaling.rope_theta == 8_000_000
    assert config.rope_scaling.max_position_embeddings == config.max_position_embeddings == 1_048_576


def test_a_check_of_the_stock_config_still_refuses(torch) -> None:
    """first_k_dense_replace at most 61 is the stock class's rule, not one of the two that are lifted."""
    from avsg.mindie.glm.config import GlmMoeDsaConfig

    with pytest.raises(ValueError):
        GlmMoeDsaConfig.from_dict({**GLM_5_2, "first_k_dense_replace": 62})


def test_the_rotary_embedding_is_the_unscaled_one(torch) -> None:
    """YaRN with factor 1 mixes two equal frequencies: equal to the plain ones but for float32 rounding."""
    model = build()
    rope = model.model.layers[0].self_attn.rope_emb
    plain = 8_000_000.0 ** (-torch.arange(0, 16, 2) / 16)
    assert torch.allclose(rope.inv_freq, plain, rtol=1e-6, atol=0)
    assert model.model.layers[0].self_attn.softmax_scale == 40**-0.5


def test_o_proj_takes_the_heads_values(torch) -> None:
    """v_head_dim, not qk_nope_head_dim; and the attention uses that o_proj, not the stock one."""
    for layer in build().model.layers:
        attention = layer.self_attn
        assert attention.o_proj.weight.shape == (64, 4 * 40)
        assert attention.attn.impl.o_proj is attention.o_proj
        assert not attention.attn.impl.enable_mlapo and not layer.enable_mlapo


def test_only_full_layers_have_indexer_weights(torch) -> None:
    model = build()
    with_indexer = {name.split(".")[2] for name, _ in model.named_parameters() if ".indexer." in name}
    assert with_indexer == {"0", "1"}
    assert model.model.layers[0].self_attn.indexer.k_norm.variance_epsilon == 1e-6  # not rms_norm_eps 1e-5
    assert [layer.self_attn.attn.impl.indexer is None for layer in model.model.layers] == [
        False,
        False,
        True,
        True,
    ]


def test_building_leaves_mindies_names_as_they_were(torch) -> None:
    from mindie_llm.runtime.models.deepseek_v3 import deepseek_v3, deepseek_v3_mtp

    before = {**vars(deepseek_v3), **vars(deepseek_v3_mtp)}
    build()
    build_draft()
    assert {**vars(deepseek_v3), **vars(deepseek_v3_mtp)} == before


def test_a_moved_name_is_refused_before_anything_is_built(torch, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindie_llm.runtime.models.deepseek_v3 import deepseek_v3

    monkeypatch.setattr(deepseek_v3, "DeepseekV3Layer", type("Another", (), {}))
    with pytest.raises(
        RuntimeError, match=r"deepseek_v3\.DeepseekV3Layer is another object, but the class of"
    ):
        build()


def test_a_quantized_indexer_is_refused(torch) -> None:
    """MindIE builds the indexer without a quantization config: int8 weights would be read as numbers."""
    from avsg.mindie.glm.model import _refuse_quantized_indexer

    described = {"model.layers.2.self_attn.indexer.wq_b.weight": "W8A8_DYNAMIC"}
    with pytest.raises(ValueError) as refusal:
        _refuse_quantized_indexer(SimpleNamespace(quant_descs=described), "model.layers.2.self_attn")
    assert str(refusal.value) == (
        "quantization of model.layers.2.self_attn.indexer.wq_b is W8A8_DYNAMIC, but FLOAT (integers lack "
        "their scale) is allowed: quantize the model without its indexers."
    )
    _refuse_quantized_indexer(SimpleNamespace(quant_descs=described), "model.layers.6.self_attn")


def test_prefill_and_decode_give_the_logits_of_transformers(torch, checkpoint: Path) -> None:
    """The checkpoint as published through MindIE's loader, at contexts of up to 22 times top_k. Float32
    rounding is below 1e-4; a wrong rotation, order of rows or reused top-k moves logits by more than 0.1."""
    model, logits, expected = glm_env.decode_stock(torch, checkpoint)
    assert torch.allclose(logits, expected, rtol=0, atol=1e-3)
    for shared in (2, 3):
        assert not model.model.layers[shared].self_attn.attn.index_cache.any()


def test_the_draft_layer_has_the_checkpoints_index_and_borrows_what_it_lacks(
    torch, checkpoint: Path, tmp_path
) -> None:
    """GLM-5.x's float checkpoint has neither embed_tokens nor shared_head.head in its draft layer."""
    from safetensors.torch import load_file, save_file

    draft = build_draft()
    layer = draft.model.layers["4"]
    assert draft.model.layer_idx == layer.layer_idx == 4 and not layer.enable_mlapo
    assert layer.self_attn.indexer is not None and layer.self_attn.o_proj.weight.shape == (64, 160)
    main = {key: value for file in checkpoint.glob("*.safetensors") for key, value in load_file(file).items()}
    own = {
        name.replace("layers.0.", "layers.4."): value.clone()
        for name, value in main.items()
        if name.startswith("model.layers.0.")
    }
    for name in ("enorm", "hnorm", "shared_head.norm"):
        own[f"model.layers.4.{name}.weight"] = torch.rand(64)
    own["model.layers.4.eh_proj.weight"] = torch.rand(64, 128)
    save_file({**main, **own}, tmp_path / "model.safetensors")
    load(draft, tmp_path)
    assert torch.equal(layer.embed_tokens.weight.data, main["model.embed_tokens.weight"])
    assert torch.equal(layer.shared_head.head.weight.data, main["lm_head.weight"])
    assert torch.equal(layer.eh_proj.weight.data, own["model.layers.4.eh_proj.weight"])


def test_the_router_serves_glm_and_leaves_the_rest_to_stock(torch, tmp_path: Path) -> None:
    from mindie_llm.runtime.config.load_config import LoadConfig

    from avsg.mindie.glm.router import wrap_get_router_ins

    asked = []
    get_router_ins = wrap_get_router_ins(asked.append)
    for model_type, config in (("glm_moe_dsa", GLM_5_2), ("deepseek_v32", {})):
        folder = tmp_path / model_type
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
        load_config = LoadConfig(model_name_or_path=str(folder))
        router = get_router_ins(load_config)
        if model_type == "glm_moe_dsa":
            assert asked == []
            assert router.config.num_hidden_layers == 78 and router.config_dict["model_type"] == "glm_moe_dsa"
            assert [cls.__name__ for cls in (router.model_cls, router.draft_cls)] == [
                "GlmMoeDsaForCausalLM",
                "GlmMoeDsaMTP",
            ]
        else:
            assert router is None and asked == [load_config]
