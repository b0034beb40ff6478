# SPDX-License-Identifier: Apache-2.0
"""Rows through MindIE's real TGInferContextStore: who gives a row up, and when."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.torch


class Rank:
    """A context store with its hooks, and the rows of a Runtime that has no buffers."""

    def __init__(self, async_infer: bool) -> None:
        from mindie_llm.text_generator.utils.config import CacheConfig, ContextParams
        from mindie_llm.text_generator.utils.tg_infer_context_store import TGInferContextStore

        from avsg.mindie.request_rows import RequestRows

        settings = SimpleNamespace(num_npu_blocks=8, block_size=128)
        params = ContextParams(async_infer=async_infer)
        self.store = TGInferContextStore(settings, CacheConfig(cache_size=8), None, "cpu", params, None, 3)
        self.rows = RequestRows(2)
        self.runtime = SimpleNamespace(rows=self.rows, prefilled=self.rows.preempt)

    def prefill(self, *sequences: int) -> np.ndarray:
        """MindIE's handles of a prefill step."""
        return self.store.get_batch_context_handles(
            SimpleNamespace(all_sequence_ids=np.array(sequences), is_prefill=True, is_dummy_batch=False)
        )

    def prepare(self, *sequences: int) -> dict[int, tuple[int, int]]:
        """(row, lease) of each sequence of a decode step, as Runtime.lookup gives them."""
        self.store.get_batch_context_handles(
            SimpleNamespace(all_sequence_ids=np.array(sequences), is_prefill=False, is_dummy_batch=False)
        )
        self.rows.admit_step(sequences)
        rows, leases = self.rows.lookup(sequences)
        return dict(zip(sequences, zip(rows.tolist(), leases.tolist())))

    def finished(self, sequence: int, handle: int) -> None:
        """What PluginManager.postprocess does for a sequence that ends in the step."""
        self.store.clear_finished_context(np.array([sequence]), np.array([handle]))
        self.store.clear_aborted_context()

    def nothing_finished(self) -> None:
        self.store.clear_finished_context(np.array([], np.int64), np.array([], np.int32))
        self.store.clear_aborted_context()


@pytest.fixture
def rank(mindie, request: pytest.FixtureRequest):
    """The store's class with AVSG's replacements, a Runtime's rows behind them."""
    from avsg.mindie.active import activate
    from avsg.mindie.register import register, unregister

    register()
    rank = Rank(async_infer=request.param)
    activate(rank.runtime)
    yield rank
    activate(None)
    unregister()


@pytest.mark.parametrize("rank", [False], indirect=True)
def test_a_finished_sequence_gives_its_row_up_at_once(rank: Rank) -> None:
    handles = rank.prefill(1, 2)
    first = rank.prepare(1, 2)
    rank.finished(1, handles[0])
    assert 1 not in rank.rows and 2 in rank.rows
    rank.prefill(3)
    second = rank.prepare(2, 3)
    assert second[2] == first[2]
    assert second[3][0] == first[1][0] and second[3][1] not in (first[1][1], first[2][1])


@pytest.mark.parametrize("rank", [True], indirect=True)
def test_under_async_scheduling_the_step_after_the_last_still_has_the_row(rank: Rank) -> None:
    """The step after a sequence's last is prepared before MindIE knows: the row is given up a round later."""
    handles = rank.prefill(1, 2)
    first = rank.prepare(1, 2)
    ahead = rank.prepare(1, 2)
    assert ahead == first
    rank.finished(1, handles[0])
    assert 1 in rank.rows
    rank.prepare(2)
    rank.finished(1, handles[0])
    assert 1 not in rank.rows and len(rank.rows) == 1


@pytest.mark.parametrize("rank", [True], indirect=True)
def test_a_sequence_that_waits_for_a_finished_one_takes_its_row_at_once(rank: Rank) -> None:
    """The scheduler may send a new request before the store has let go of the finished one: it is absent."""
    handles = rank.prefill(1, 2)
    first = rank.prepare(1, 2)
    rank.finished(1, handles[0])
    rank.prefill(3)
    second = rank.prepare(2, 3)
    assert (
        second[2] == first[2] and second[3][0] == first[1][0] and second[3][1] > max(first[1][1], first[2][1])
    )
    rank.nothing_finished()
    assert rank.prepare(2, 3) == second


@pytest.mark.parametrize("rank", [False, True], indirect=True)
def test_a_preempted_sequence_comes_back_under_a_new_lease(rank: Rank) -> None:
    """Recomputed by a prefill, whether or not the scheduler cleaned up before."""
    rank.prefill(1, 2)
    first = rank.prepare(1, 2)
    rank.store.clear_context_by_seq_ids(np.array([1]))
    assert 1 not in rank.rows
    rank.prefill(1)
    again = rank.prepare(1, 2)
    rank.prefill(1)
    third = rank.prepare(1, 2)
    assert len({first[1][1], again[1][1], third[1][1]}) == 3
    assert first[2] == again[2] == third[2]
