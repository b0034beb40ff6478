# SPDX-License-Identifier: Apache-2.0
"""What MindIE does with sequences, and what follows for their rows; stand-ins for its objects, no torch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from avsg.mindie import active, engine_rows
from avsg.mindie.request_rows import DUMMY_SEQUENCE, RequestRows


class Rows:
    """A Runtime as far as the life of sequences goes."""

    def __init__(self) -> None:
        self.rows = RequestRows(4)

    def prefilled(self, sequences) -> None:
        self.rows.preempt(sequences)

    def decode(self, *sequences: int) -> list[tuple[int, int]]:
        """A step of these; (row, lease) each."""
        self.rows.admit_step(sequences)
        return list(zip(*(array.tolist() for array in self.rows.lookup(sequences))))


@pytest.fixture
def runtime():
    runtime = Rows()
    active.activate(runtime)
    yield runtime
    active.activate(None)


def metadata(*sequences: int, is_prefill: bool = False, is_dummy_batch: bool = False) -> SimpleNamespace:
    """InputMetadata as far as it is read."""
    ids = np.array(sequences, np.int64)
    return SimpleNamespace(all_sequence_ids=ids, is_prefill=is_prefill, is_dummy_batch=is_dummy_batch)


def update(inputs: SimpleNamespace, data: SimpleNamespace) -> list[int | None]:
    """The step's sequences that the replaced model_inputs_update_manager leaves on the new ModelInput."""

    def stock(self, model_inputs, input_metadata, sampling_metadata, cache_ids):
        return SimpleNamespace(kind="a new ModelInput"), None, None

    replaced = engine_rows.wrap_model_inputs_update_manager(stock)
    return getattr(replaced(None, inputs, data, None, None)[0], engine_rows.SEQUENCES)


def test_a_step_carries_sequence_ids_not_cache_ids(runtime) -> None:
    assert update(SimpleNamespace(), metadata(900, 7)) == [900, 7]


def test_dummy_batches_and_simulated_requests_have_no_sequence(runtime) -> None:
    assert update(SimpleNamespace(), metadata(0, 0, is_dummy_batch=True)) == [None, None]
    assert update(SimpleNamespace(), metadata(3, DUMMY_SEQUENCE)) == [3, None]


def test_nothing_is_attached_where_avsg_is_not_enabled() -> None:
    assert active.find_runtime() is None
    with pytest.raises(AttributeError, match=engine_rows.SEQUENCES):
        update(SimpleNamespace(), metadata(1))


@pytest.mark.parametrize("rank, mine", [(0, [11, 13]), (1, [12]), (2, [None])])
def test_a_rank_of_attention_dp_keeps_its_own_entries(runtime, rank: int, mine: list) -> None:
    """Stock gives a rank without entries one entry that stands for none."""
    generator = SimpleNamespace(mapping=SimpleNamespace(attn_dp=SimpleNamespace(rank=rank)))
    inputs = SimpleNamespace(dp_rank_ids=np.array([0, 1, 0]), **{engine_rows.SEQUENCES: [11, 12, 13]})
    engine_rows.wrap_dp_partition_data(lambda self, model_inputs, kwargs: None)(generator, inputs, {})
    assert getattr(inputs, engine_rows.SEQUENCES) == mine


def test_draft_inputs_without_sequences_pass_the_dp_partition(runtime) -> None:
    generator = SimpleNamespace(mapping=SimpleNamespace(attn_dp=SimpleNamespace(rank=0)))
    draft = SimpleNamespace(dp_rank_ids=np.array([0]))
    engine_rows.wrap_dp_partition_data(lambda self, model_inputs, kwargs: None)(generator, draft, {})
    assert not hasattr(draft, engine_rows.SEQUENCES)


def handles(data: SimpleNamespace) -> None:
    engine_rows.wrap_get_batch_context_handles(lambda self, metadata: np.zeros(1, np.int32))(None, data)


def test_a_prefill_means_a_new_lease_whether_or_not_the_scheduler_said_so(runtime) -> None:
    """Recompute after preemption, and KV from a prefill node, both pass here with is_prefill."""
    ((_, first),) = runtime.decode(5)
    handles(metadata(5, is_prefill=True))
    ((_, second),) = runtime.decode(5)
    assert second > first


def test_decode_steps_and_dummy_prefills_leave_leases_alone(runtime) -> None:
    before = runtime.decode(5)
    handles(metadata(5))
    handles(metadata(5, is_prefill=True, is_dummy_batch=True))
    assert runtime.decode(5) == before


def test_cleanup_releases_aborted_and_preempted_sequences(runtime) -> None:
    runtime.decode(1, 2)
    calls = []
    replaced = engine_rows.wrap_clear_context_by_seq_ids(
        lambda self, sequence_ids: calls.append(sequence_ids)
    )
    replaced(None, np.array([2, 99], np.int64))
    assert 1 in runtime.rows and 2 not in runtime.rows and len(calls) == 1


def test_finished_sequences_are_those_that_stock_returns(runtime) -> None:
    """Under async inference stock returns the sequences of a round ago, not the ones it is given."""
    runtime.decode(1, 2)
    replaced = engine_rows.wrap_clear_finished_context(lambda self, sequence_ids, handles: np.array([1]))
    assert replaced(None, np.array([2]), np.array([6])).tolist() == [1]
    assert 1 not in runtime.rows and 2 in runtime.rows


def test_a_forked_child_gets_a_new_lease_and_its_parent_keeps_its_own(runtime) -> None:
    (parent, child) = runtime.decode(1, 2)
    output = SimpleNamespace(
        sequence_ids=np.array([1, 2, 3, -1]), parent_sequence_ids=np.array([1, 1, 1, -1])
    )
    engine_rows.wrap_fork_context(lambda self, sampling_output: np.array([0]))(None, output)
    again = runtime.decode(1, 2, 3)
    assert again[0] == parent and again[1][1] > child[1] and len({row for row, _ in again}) == 3


def test_recovery_forgets_every_sequence(runtime) -> None:
    before = runtime.decode(1, 2)
    engine_rows.wrap_reset_all_context(lambda self: None)(None)
    assert len(runtime.rows) == 0
    after = runtime.decode(1, 2)
    assert min(lease for _, lease in after) > max(lease for _, lease in before)
