# SPDX-License-Identifier: Apache-2.0
"""A tiny decoder: three storage modes give the same bits, drafts the same tokens, no row is ever stale."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor
from tiny_model import SHAPE, TinyRun, oracle

import avsg
from avsg.mindspore.smollm2.decode import NgramDrafter, decode
from avsg.mindspore.smollm2.model import Selector
from avsg.mindspore.smollm2.storage import Pooled, ascending

SEED = 3


class CheckedStorage(Pooled):
    """Compares every row that attention gets with the host's, byte for byte. verified_past plants a fault."""

    verified_past = 0

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.stale, self.read_rows = 0, 0
        for pool in self.pools:
            pool.construct = self._with_fault(pool.construct)

    def _with_fault(self, construct):
        def call(topk, verified_lens, seq_lens, *rest):
            late = np.minimum(verified_lens.asnumpy() + self.verified_past, seq_lens.asnumpy())
            return construct(topk, Tensor(late), seq_lens, *rest)

        return call

    def read(self, layer, position, keys, values, topk_tokens):
        selected = super().read(layer, position, keys, values, topk_tokens)
        for tokens, rows in zip(ascending(topk_tokens), selected):
            host = self.host.rows(layer, tokens[tokens >= 0])
            wrong = [(got.asnumpy() != want).any(axis=1) for got, want in zip(rows, host)]
            assert all(len(got.asnumpy()) == len(want) for got, want in zip(rows, host))
            self.stale += int((wrong[0] | wrong[1]).sum())
            self.read_rows += len(host[0])
        return selected


@pytest.fixture(scope="module")
def run() -> TinyRun:
    return TinyRun(SEED, prompt_len=150, num_tokens=96, top_k=16, num_slots=64)


@pytest.fixture(scope="module")
def plain(run):
    return run.decode(run.storage("resident"))


def checked(run: TinyRun, library: str = "cpu") -> CheckedStorage:
    return CheckedStorage(SHAPE, run.kv, run.max_tokens, run.config, library)


def test_prefill_and_decode_equal_an_independent_forward_pass(run):
    """top_k at or above the context reads every row, so sparse decoding is dense."""
    tokens = (run.prompt * 2)[: len(run.prompt) + 20]
    logits, keys, values = oracle(run.weights, tokens)
    np.testing.assert_allclose(run.kv[0], keys[:, : len(run.prompt) - 1], atol=2e-5)
    np.testing.assert_allclose(run.kv[1], values[:, : len(run.prompt) - 1], atol=2e-5)
    selector, storage = Selector(SHAPE, 256, run.max_tokens), run.storage("resident")
    for layer, prompt_keys in enumerate(run.kv[0]):
        selector.append(layer, 0, prompt_keys)
    for position in range(len(run.prompt) - 1, len(tokens)):
        got = run.model.step([tokens[position]], position, selector, storage)[0]
        np.testing.assert_allclose(got, logits[position], atol=1e-4, err_msg=f"position {position}")


@pytest.mark.parametrize("library", ["cpu", "cpu-checked"])
@pytest.mark.parametrize("prompt_len", [4, 150], ids=["context below top_k", "context above top_k"])
def test_three_modes_give_the_same_tokens_and_logits_to_the_bit(prompt_len, library):
    run = TinyRun(SEED, prompt_len, num_tokens=64, top_k=32, num_slots=64)
    first, *others = (run.decode(run.storage(mode, library)) for mode in ("resident", "offload", "avsg"))
    assert len(first.tokens) == 64 and len(set(first.tokens)) > 8, "the text must not stand still"
    for other in others:
        assert other.tokens == first.tokens, f"seed {SEED}"
        assert other.logits_crc32 == first.logits_crc32, f"seed {SEED}"


def test_pool_copies_its_misses_and_offload_every_row(run, plain):
    offload, pool = run.storage("offload"), run.storage("avsg")
    for storage in (offload, pool):
        assert run.decode(storage).tokens == plain.tokens
    selected = SHAPE.num_layers * run.num_tokens * run.top_k
    assert offload.traffic.rows_selected == offload.traffic.rows_copied == selected
    assert pool.traffic.rows_selected == selected and 0 < pool.traffic.rows_copied < selected // 2
    assert pool.traffic.rows_copied == selected - pool.traffic.hits
    assert pool.traffic.bytes_copied == pool.traffic.rows_copied * 2 * SHAPE.row_size * 4
    assert offload.device_bytes < pool.device_bytes < run.storage("resident").device_bytes


@pytest.mark.parametrize("mode", ["resident", "offload", "avsg"])
@pytest.mark.parametrize("drafts", [1, 3])
def test_drafts_change_no_token(run, plain, drafts, mode):
    drafted = run.decode(run.storage(mode), drafts)
    assert drafted.tokens == plain.tokens, f"seed {SEED}"
    assert 0 < drafted.accepted < drafted.drafted, "drafts must be accepted and rejected"
    assert drafted.steps == run.num_tokens - drafted.accepted


def test_no_row_is_stale_when_drafts_are_rejected(run, plain):
    storage = checked(run)
    drafted = run.decode(storage, drafts=3)
    assert storage.stale == 0, (
        f"seed {SEED}: {storage.stale} of {storage.read_rows} rows differ from the host"
    )
    assert storage.read_rows == storage.traffic.rows_selected and storage.traffic.hits > 0
    assert drafted.accepted < drafted.drafted and drafted.tokens == plain.tokens


def test_rows_are_stale_when_drafts_count_as_verified(run):
    """The check above can fail: with verified_len past the drafts, rejected rows are served from the pool."""
    storage = checked(run)
    storage.verified_past = 3
    run.decode(storage, drafts=3)
    assert storage.stale > 0


def test_more_drafts_than_a_step_holds_are_refused(run):
    selector = Selector(SHAPE, run.top_k, run.max_tokens)
    with pytest.raises(ValueError, match="drafts is 4, but 0 to 3 is allowed"):
        decode(run.model, selector, run.storage("resident"), run.prompt, 8, drafts=4)


def test_a_draft_continues_the_latest_earlier_place_of_the_longest_ngram():
    drafter = NgramDrafter([1, 2, 3, 4, 9, 2, 3, 5, 6, 1, 2, 3])
    assert drafter.draft(3) == [4, 9, 2], "1 2 3 stands once before, followed by 4 9 2"
    drafter.extend([7, 2, 3])
    assert drafter.draft(2) == [7, 2], "7 2 3 is new; 2 3 stood last before the 7"
    drafter.extend([8, 8])
    assert drafter.draft(3) == []


def test_selected_tokens_are_sorted_with_padding_last():
    topk = np.array([[5, -1, 0, 3], [-1, -1, -1, 2]], np.int32)
    np.testing.assert_array_equal(ascending(topk), [[0, 3, 5, -1], [2, -1, -1, -1]])
    assert ascending(topk).dtype == np.int32


def test_pool_config_must_hold_a_steps_queries(run):
    small = avsg.PoolConfig(1, 64, 16, num_queries=1)
    storage = Pooled(SHAPE, run.kv, run.max_tokens, small, "cpu")
    with pytest.raises(ValueError, match="Q from 1 to 1"):
        run.decode(storage, drafts=3)
