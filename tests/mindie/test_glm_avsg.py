# SPDX-License-Identifier: Apache-2.0
"""GLM-5.2 decoding through the pool: one match a group, and the logits of the model with all KV in HBM."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import glm_env
import numpy as np
import pytest

pytestmark = pytest.mark.torch

GROUPS = [[0], [1, 2, 3]]
DIMS = (32, 16)  # items of a token's nope and rope
SLOTS = 128  # below the context: rows are evicted and copied again


@pytest.fixture
def torch(mindie, monkeypatch: pytest.MonkeyPatch):
    """torch, with MindIE importable and prepared for the tiny model."""
    glm_env.prepare(mindie, monkeypatch)
    return mindie


@pytest.fixture
def checkpoint(torch) -> Path:
    return glm_env.checkpoint()


@pytest.fixture
def stock_logits(torch, checkpoint: Path):
    """Of the tiny model without AVSG; named before `runtime`, which would make its layers AVSG's."""
    return glm_env.decode_stock(torch, checkpoint)[1]


@pytest.fixture
def runtime(torch):
    """AVSG for one request of the tiny model, made from its configuration as in a worker, active."""
    from avsg.mindie.active import activate, active_runtime
    from avsg.mindie.engine_setup import configure

    runner = SimpleNamespace(
        config=glm_env.mindie_config(glm_env.TINY).hf_config,
        llm_config=SimpleNamespace(avsg={"enable": True, "slots": SLOTS, "huge_pages": False}),
        kv_cache_dtype=torch.float32,
        device=torch.device("cpu"),
        role="standard",
        enable_nz=False,
        kvcache_quant_layers=[],
        num_speculative_tokens=0,
        _max_batch_size=1,
        _max_seq_len=256,
        _block_size=glm_env.BLOCK_SIZE,
    )
    configure(runner, {"backend_type": "torch", "max_prefill_tokens": 256, "max_prefill_batch_size": 1})
    assert [group.layers for group in active_runtime().groups] == GROUPS
    yield active_runtime()
    activate(None)


@pytest.fixture
def model(torch, runtime, checkpoint: Path, monkeypatch: pytest.MonkeyPatch):
    """The tiny model over AvsgSfaImpl, loaded, with the replaced allocator's caches."""
    from mindie_llm.runtime.layers import attention
    from mindie_llm.runtime.layers.attention import sparse_attention_layer

    from avsg.mindie.engine_memory import wrap_allocate
    from avsg.mindie.engine_setup import wrap_get_attn_backend

    wrapped = wrap_get_attn_backend(sparse_attention_layer.get_attn_backend)
    monkeypatch.setattr(sparse_attention_layer, "get_attn_backend", wrapped)
    attention.update_global_attn_dict("cleared", None)
    attention.clear_global_attn_dict()
    model = glm_env.build()
    glm_env.load(model, checkpoint)
    block = glm_env.BLOCK_SIZE
    settings = SimpleNamespace(
        num_npu_blocks=glm_env.NUM_BLOCKS,
        num_layers=4,
        dtype=torch.float32,
        k_block_shape=(block, 1, DIMS[0]),
        v_block_shape=(block, 1, DIMS[1]),
        index_block_shape=(block, 1, 32),
        is_separated_pd=False,
    )
    pool = SimpleNamespace(kvcache_settings=settings, npu_cache=[], device=torch.device("cpu"))
    wrap_allocate(None)(pool)
    for layer, caches in zip(model.model.layers, pool.npu_cache):
        sfa = layer.self_attn.attn
        sfa.key_cache, sfa.value_cache, sfa.index_cache = caches
    return model


def set_context(torch, positions: range, *, is_prefill: bool) -> None:
    """MindIE's forward context of one step of sequence 1, made by MindIE's own code."""
    from mindie_llm.runtime.model_runner import forward_context_exp as contexts
    from mindie_llm.text_generator.utils.model_input import ModelInput

    from avsg.mindie.metadata import SEQUENCES

    places = np.arange(positions.start, positions.stop, dtype=np.int32)
    inputs = ModelInput(
        input_ids=torch.zeros(len(places), dtype=torch.int64),
        position_ids=places,
        block_tables=np.arange(glm_env.NUM_BLOCKS, dtype=np.int32)[None],
        slots=places,
        context_length=np.array([positions.stop], np.int32),
        max_seq_len=positions.stop,
        prefill_head_indices=None,
        is_prefill=is_prefill,
    )
    setattr(inputs, SEQUENCES, [1])
    context = contexts.create_forward_context(inputs, None)
    context.attn_metadata.num_tokens = len(places)
    context.to_device(torch.device("cpu"))
    context.attn_metadata_dict = context.attn_metadata
    contexts.set_forward_context(context)


def test_glm_through_the_pool_gives_the_logits_of_stock(
    torch, stock_logits, runtime, model, checkpoint
) -> None:
    """To the bit; and those of transformers to float32 rounding."""
    expected = torch.load(checkpoint / "expected.pt")
    tokens = expected["tokens"]
    runtime.prefilled([1])
    run = partial(glm_env.run, torch, model, tokens, set_context=set_context)
    logits = [run(range(glm_env.PROMPT), is_prefill=True)]
    runtime.start_serving()
    for position in range(glm_env.PROMPT, len(tokens)):
        logits.append(run(range(position, position + 1), is_prefill=False))
    assert torch.equal(torch.cat(logits), stock_logits)
    assert torch.allclose(stock_logits, expected["logits"], rtol=0, atol=1e-3)
    steps = len(tokens) - glm_env.PROMPT
    snapshot = runtime.metrics.snapshot()
    assert snapshot["steps"] == steps
    for group in snapshot["groups"]:
        assert group["valid_tokens"] == steps * glm_env.TOP_K, "one match a step and group"
        assert 0 < group["misses"] < group["valid_tokens"]
        layers = len(group["layers"])
        assert group["rows_copied"] == layers * group["misses"], "every layer of a group copies its plan"
        assert group["rows_stored"] == layers * steps


def test_shared_layers_have_no_indexer_cache(torch, model) -> None:
    sizes = [layer.self_attn.attn.index_cache.numel() for layer in model.model.layers]
    paged = glm_env.NUM_BLOCKS * glm_env.BLOCK_SIZE * 32
    assert sizes == [paged, paged, 1, 1]
