# SPDX-License-Identifier: Apache-2.0
"""The decode layer: the three storage modes give the same logits, and the layer is the model it says it
is."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore_case import tensor

from avsg import _abi
from avsg.mindspore import DEEPSEEK_V3_2, GLM_5_2, TINY, DsaConfig, DsaModel, compiled
from avsg.mindspore.glm_dsa import Mla, Weights

ROOT = Path(__file__).resolve().parents[2]
SHAPE, VOCAB, REQUESTS, NUM_SLOTS = (40, 16), 97, 3, 192
# GLM-5.2's rows of 1,024 and 128 bytes and groups of one, four and two layers, on a hidden size for tests.
GLM_ROWS = replace(
    GLM_5_2,
    num_layers=7,
    full_layers=(0, 1, 5),
    hidden_size=64,
    num_heads=4,
    q_lora_rank=32,
    index_heads=2,
    top_k=32,
)


@pytest.fixture(autouse=True)
def _blocking_launch() -> None:
    """Asynchronous launch is slow on a CPU, also later in a process that used it (matmul 4 ms for 0.05)."""
    ms.runtime.launch_blocking()


def make_model(config: DsaConfig, mode: str, num_queries: int, library: object = None) -> DsaModel:
    return DsaModel(
        config,
        mode,
        vocab_size=VOCAB,
        shape=SHAPE,
        num_requests=REQUESTS,
        num_slots=NUM_SLOTS,
        num_queries=num_queries,
        library=library,
    )


def decode(
    model: DsaModel, graph: str, num_queries: int, num_steps: int, seed: int
) -> tuple[np.ndarray, int]:
    """Logits of every step and the rows copied; a random number of drafts is accepted each time.

    Context grows from one token past top_k; rejected drafts are overwritten by the next step. The middle
    request is inactive in every fifth step.
    """
    rng = np.random.default_rng(seed)
    step = compiled(model, jit_level=graph) if graph != "pynative" else model
    block_table = tensor(rng.permutation(SHAPE[0])[: REQUESTS * 12].reshape(REQUESTS, 12))
    verified_lens, listed, copied = np.ones(REQUESTS, np.int32), [], 0
    for t in range(num_steps):
        rows = np.array([2, 0, 1], np.int32)
        rows[1] = -1 if t % 5 == 4 else rows[1]
        token_ids = rng.integers(0, VOCAB, (REQUESTS, num_queries))
        accepted = rng.integers(1, num_queries + 1, REQUESTS) * (rows >= 0)
        outputs = step(tensor(token_ids), tensor(verified_lens), tensor([1, 2, 3]), tensor(rows), block_table)
        listed.append(outputs[0].asnumpy()[rows >= 0].copy())
        copied += int(outputs[1].asnumpy()[0])
        assert outputs[1].asnumpy()[1] == 0, "a bad block"
        verified_lens = verified_lens + accepted.astype(np.int32)
    assert (verified_lens > TINY.top_k).all()
    return np.concatenate([logits.reshape(-1, VOCAB) for logits in listed]), copied


# Every pair of (queries, layers of a group, dtype, graph) occurs.
CASES = [
    (1, 1, "bfloat16", "pynative"),
    (1, 4, "float16", "O0"),
    (4, 1, "float16", "O1"),
    (4, 4, "bfloat16", "O0"),
    (4, 4, "float16", "pynative"),
]


@pytest.mark.parametrize(("num_queries", "group", "kv_dtype", "graph"), CASES)
def test_storage_modes_give_the_same_logits(num_queries: int, group: int, kv_dtype: str, graph: str) -> None:
    num_layers = max(group, 2)
    full_layers = tuple(range(0, num_layers, group))
    config = replace(TINY, num_layers=num_layers, full_layers=full_layers, kv_dtype=kv_dtype)
    results = {
        mode: decode(make_model(config, mode, num_queries), graph, num_queries, 64, seed=1)
        for mode in ("resident", "offload", "avsg")
    }
    resident, copied = results["resident"]
    assert np.isfinite(resident).all() and resident.std() > 0.1 and copied == 0
    for mode in ("offload", "avsg"):
        assert np.array_equal(results[mode][0], resident), f"{mode} differs"
    assert 0 < results["avsg"][1] < results["offload"][1]


def test_rows_of_glm_5_2_and_groups_of_several_sizes() -> None:
    resident, _ = decode(make_model(GLM_ROWS, "resident", 2), "pynative", 2, 40, seed=2)
    pooled, _ = decode(make_model(GLM_ROWS, "avsg", 2), "pynative", 2, 40, seed=2)
    assert np.array_equal(pooled, resident)


@pytest.fixture(scope="module")
def no_close(tmp_path_factory) -> Path:
    """The glue over a library whose CLOSE is undone."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is needed to build the faulty library")
    library = tmp_path_factory.mktemp("no_close") / "libavsg_mindspore_no_close.so"
    glue = sorted((ROOT / "framework" / "mindspore").glob("cpu_*.cpp"))
    fault = Path(__file__).with_name("no_close_library.cpp")
    flags = [f"-I{ROOT / 'framework' / 'c_api'}", f"-I{ROOT / 'op_kernel'}", "-std=c++17", "-shared", "-fPIC"]
    flags.append(f'-DAVSG_REAL_LIBRARY="{_abi.resolve("cpu")}"')
    subprocess.run(["g++", *flags, "-o", library, fault, *glue, "-ldl"], check=True)
    return library


def test_without_close_a_rejected_draft_is_served(no_close: Path) -> None:
    """The comparison above can fail: SPEC.md's CLOSE is what keeps rejected drafts out of the next step."""
    _abi.load(_abi.resolve("cpu"))
    config = replace(TINY, num_layers=1)
    resident, _ = decode(make_model(config, "resident", 4), "pynative", 4, 24, seed=1)
    pooled, _ = decode(make_model(config, "avsg", 4, library=no_close), "pynative", 4, 24, seed=1)
    assert not np.array_equal(pooled, resident)
    one, _ = decode(make_model(config, "resident", 1), "pynative", 1, 48, seed=1)
    same, _ = decode(make_model(config, "avsg", 1, library=no_close), "pynative", 1, 48, seed=1)
    assert np.array_equal(one, same), "without drafts there is nothing to close"


def rotate(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    turned = pairs * np.exp(1j * angles)
    return np.stack((turned.real, turned.imag), -1).reshape(x.shape)


def test_absorbed_attention_equals_plain_multi_head_attention() -> None:
    """MLA computed per head from decompressed keys and values, in numpy and float64, gives the same
    result."""
    config, num_tokens, queries = TINY, 24, 2
    mla, rng = Mla(config, Weights(3)), np.random.default_rng(4)
    heads, nope, rope = config.num_heads, config.nope_head_dim, config.rope_head_dim
    latent = rng.standard_normal((num_tokens, config.kv_lora_rank)).astype(np.float32)
    key = rng.standard_normal((num_tokens, rope)).astype(np.float32)
    hidden = rng.standard_normal((1, queries, config.hidden_size)).astype(np.float32)
    angles = rng.standard_normal((1, queries, rope // 2)).astype(np.float32)
    is_token = np.arange(num_tokens) < np.array([[[20], [24]]])
    each = (
        np.broadcast_to(latent, (1, queries, *latent.shape)),
        np.broadcast_to(key, (1, queries, *key.shape)),
    )
    query_latent = mla.query_latent(ms.Tensor(hidden))
    got = mla(query_latent, ms.Tensor(angles), *(ms.Tensor(x.copy()) for x in each), ms.Tensor(is_token))

    w = {name: p.asnumpy().astype(np.float64) for name, p in mla.parameters_and_names()}
    keys = np.einsum("tl,hnl->htn", latent, w["w_key_up"])
    values = np.einsum("tl,hlv->htv", latent, w["w_value_up"])
    wanted = np.zeros((queries, config.hidden_size))
    for q in range(queries):
        query = (query_latent.asnumpy()[0, q] @ w["w_query_up"]).reshape(heads, nope + rope)
        turned = rotate(query[:, nope:], angles[0, q])
        scores = (np.einsum("hn,htn->ht", query[:, :nope], keys) + turned @ key.T) / np.sqrt(nope + rope)
        scores[:, ~is_token[0, q]] = -np.inf
        weight = np.exp(scores - scores.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        wanted[q] = np.einsum("ht,htv->hv", weight, values).reshape(-1) @ w["w_out"]
    np.testing.assert_allclose(got.asnumpy()[0], wanted, atol=2e-5)


def test_indexer_selects_the_best_tokens_in_ascending_order() -> None:
    """Scores computed from the stored keys in numpy; ties aside, the K best at or before the query's
    position."""
    config = replace(TINY, kv_dtype="float16", num_layers=1)
    model = make_model(config, "resident", 1)
    decode(model, "pynative", 1, 60, seed=5)
    indexer, rng = model.groups[0].indexer, np.random.default_rng(6)
    x = rng.standard_normal((1, 1, config.hidden_size)).astype(np.float32)
    latent = rng.standard_normal((1, 1, config.q_lora_rank)).astype(np.float32)
    table = np.arange(12, dtype=np.int32)[None]
    position, skip = 150, tensor([-1])
    angles = ms.Tensor(np.zeros((1, 1, config.rope_head_dim // 2), np.float32))
    step = (None, None, None, None, tensor(table), tensor([position]), skip)
    got = indexer(ms.Tensor(x), ms.Tensor(latent), angles, tensor([[position]]), step).asnumpy()[0, 0]

    keys = indexer.cache.caches[0].asnumpy()[:12].reshape(-1, config.index_head_dim).astype(np.float64)
    query = (latent[0, 0] @ indexer.w_query.asnumpy()).reshape(config.index_heads, -1)
    scores = (x[0, 0] @ indexer.w_head.asnumpy()) @ np.maximum(query @ keys.T, 0)
    assert (np.diff(got) > 0).all() and got[-1] <= position
    rest = np.setdiff1d(np.arange(position + 1), got)
    assert scores[got].min() >= scores[rest].max() - 1e-4


def test_configurations_have_the_sizes_of_their_models() -> None:
    for config in (GLM_5_2, DEEPSEEK_V3_2):
        assert [2 * items for items in config.row_items] == [1024, 128]
        assert config.pool(8, 8192, 4).top_k == 2048
    assert [len(group) for group in GLM_5_2.groups] == [1, 1] + [4] * 19
    assert len(DEEPSEEK_V3_2.groups) == 61
    for wrong in ((), (1, 2), (0, 2, 2), (0, 4)):
        with pytest.raises(ValueError, match="full_layers is .*, but rising layers from 0 to 3 is allowed"):
            replace(TINY, full_layers=wrong)
    with pytest.raises(ValueError, match="kv_dtype is 'int8', but bfloat16 or float16 is allowed"):
        replace(TINY, kv_dtype="int8")


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode is 'disk', but resident or offload or avsg is allowed"):
        make_model(TINY, "disk", 1)
