# SPDX-License-Identifier: Apache-2.0
"""A tiny GLM-5.2 in MindIE's real classes: its config, checkpoint, forward contexts and stock decoding."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_glm_groups import GLM_5_2

TOP_K, BLOCK_SIZE, NUM_BLOCKS, PROMPT = 8, 16, 13, 150
# 16 index heads: with fewer, ReLU leaves tokens with equal scores, and ties may be broken differently.
TINY = {
    **GLM_5_2,
    "num_hidden_layers": 4,
    "indexer_types": ["full", "full", "shared", "shared"],
    "first_k_dense_replace": 5,  # the draft layer is dense too: no experts on a CPU
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 16,
    "qk_head_dim": 40,
    "v_head_dim": 40,
    "kv_lora_rank": 32,
    "index_n_heads": 16,
    "index_head_dim": 32,
    "index_topk": TOP_K,
    "intermediate_size": 32,
    "vocab_size": 128,
    "max_position_embeddings": 1024,
    "dtype": "float32",
    "eos_token_id": None,
    "pad_token_id": None,
}


def prepare(torch, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindIE's collectives for one rank, and this model's top_k."""
    import ops_cpu

    monkeypatch.setattr(ops_cpu, "TOP_K", TOP_K)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *args, **kwargs: None)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="avsg-glm-")
    (Path(folder.name) / "config.json").write_text(json.dumps(TINY))
    script = Path(__file__).with_name("glm_reference.py")
    subprocess.run([sys.executable, str(script), folder.name], check=True, capture_output=True)
    return folder


def checkpoint() -> Path:
    """A folder with config.json, weights and expected.pt of transformers' GlmMoeDsaForCausalLM; made once."""
    pytest.importorskip("transformers", minversion="5.24", reason="needs pip install 'transformers>=5.24'")
    return Path(_folder().name)


def mindie_config(config: dict, quant_config: object = None) -> SimpleNamespace:
    """What MindIE's model classes read of MindIELLMConfig."""
    from avsg.mindie.glm.config import GlmMoeDsaConfig

    return SimpleNamespace(
        hf_config=GlmMoeDsaConfig(**config), quant_config=quant_config, llm_config=SimpleNamespace()
    )


def build(config: dict = TINY, quant_config: object = None):
    from avsg.mindie.glm.model import GlmMoeDsaForCausalLM

    return GlmMoeDsaForCausalLM(mindie_config(config, quant_config))


def build_draft(config: dict = TINY):
    from avsg.mindie.glm.draft import GlmMoeDsaMTP

    return GlmMoeDsaMTP(mindie_config(config))


def set_context(torch, positions: range, *, is_prefill: bool) -> None:
    """MindIE's forward context for one sequence in blocks 0, 1, 2, ... at these positions."""
    from mindie_llm.runtime.layers.attention.backend.sparse_attention import SfaMetadata
    from mindie_llm.runtime.model_runner.forward_context_exp import (
        BatchDescriptor,
        ForwardContext,
        set_forward_context,
    )

    length = torch.tensor([positions[-1] + 1], dtype=torch.int32)
    metadata = SfaMetadata(
        seq_lens=length,
        slot_mapping=torch.tensor(list(positions), dtype=torch.int32),
        block_tables=torch.arange(NUM_BLOCKS, dtype=torch.int32)[None],
        attn_mask=None,
        actual_seq_lengths_kv=length,
        actual_seq_lengths_query=torch.tensor([len(positions)], dtype=torch.int32),
    )
    set_forward_context(
        ForwardContext(
            is_prefill=is_prefill,
            lm_head_indices=torch.arange(len(positions)),
            attn_metadata_dict=metadata,
            batch_descriptor=BatchDescriptor(len(positions)),
        )
    )


def load(model, folder: Path) -> None:
    from mindie_llm.runtime.utils.loader import default_model_loader

    default_model_loader._global_param_dict = None  # of another model in this process
    default_model_loader.DefaultModelLoader().load_weights(model, str(folder))


def run(torch, model, tokens, positions: range, *, is_prefill: bool, set_context=set_context):
    set_context(torch, positions, is_prefill=is_prefill)
    with torch.no_grad():
        hidden = model(
            tokens[positions.start : positions.stop], torch.arange(positions.start, positions.stop)
        )
        return model.compute_logits(hidden)


def decode_stock(torch, folder: Path) -> tuple:
    """The tiny model over MindIE's stock backend: (model, its logits [T, vocab], those of transformers)."""
    expected = torch.load(folder / "expected.pt")
    tokens = expected["tokens"]
    model = build()
    load(model, folder)
    for layer in model.model.layers:
        sfa = layer.self_attn.attn
        sfa.key_cache, sfa.value_cache, sfa.index_cache = (
            torch.zeros(NUM_BLOCKS, BLOCK_SIZE, 1, size) for size in (32, 16, 32)
        )
    logits = [run(torch, model, tokens, range(PROMPT), is_prefill=True)]
    for position in range(PROMPT, len(tokens)):
        logits.append(run(torch, model, tokens, range(position, position + 1), is_prefill=False))
    return model, torch.cat(logits), expected["logits"]
