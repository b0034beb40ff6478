# SPDX-License-Identifier: Apache-2.0
"""Whose row is whose: replacements that carry MindIE's sequence ids to the metadata and tell the Runtime
of their life."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from .active import find_runtime
from .request_rows import DUMMY_SEQUENCE

SEQUENCES = (
    "avsg_sequences"  # attribute of MindIE's ModelInput: a sequence id an entry, None where no request is
)


def wrap_model_inputs_update_manager(stock: Callable) -> Callable:
    """The last place where a step's ModelInput and its sequence ids meet (the mtp plugin makes a new
    ModelInput)."""

    @wraps(stock)
    def model_inputs_update_manager(
        self: object, model_inputs: object, input_metadata: object, *args: object, **kwargs: object
    ) -> tuple:
        result = stock(self, model_inputs, input_metadata, *args, **kwargs)
        if find_runtime() is not None:
            setattr(result[0], SEQUENCES, step_sequences(input_metadata))
        return result

    return model_inputs_update_manager


def step_sequences(input_metadata: object) -> list[int | None]:
    """Sequence ids of a step's entries; None for a dummy batch and for simulated requests, which own no
    row."""
    ids = [int(sequence) for sequence in input_metadata.all_sequence_ids]
    if input_metadata.is_dummy_batch:
        return [None] * len(ids)
    return [None if sequence == DUMMY_SEQUENCE else sequence for sequence in ids]


def wrap_dp_partition_data(stock: Callable) -> Callable:
    """A rank of attention data parallelism keeps its own entries; one without any runs a dummy entry."""

    @wraps(stock)
    def _dp_partition_data(self: object, model_inputs: object, kwargs: dict) -> None:
        stock(self, model_inputs, kwargs)
        sequences = getattr(model_inputs, SEQUENCES, None)
        if sequences is not None:
            mine = np.flatnonzero(np.asarray(model_inputs.dp_rank_ids) == self.mapping.attn_dp.rank)
            setattr(model_inputs, SEQUENCES, [sequences[entry] for entry in mine] or [None])

    return _dp_partition_data


def wrap_get_batch_context_handles(stock: Callable) -> Callable:
    """A prefill, a recompute after preemption, or KV that a prefill node sent: the sequence's KV is new."""

    @wraps(stock)
    def get_batch_context_handles(self: object, metadata: object) -> np.ndarray:
        runtime = find_runtime()
        if runtime is not None and metadata.is_prefill and not metadata.is_dummy_batch:
            runtime.prefilled(metadata.all_sequence_ids)
        return stock(self, metadata)

    return get_batch_context_handles


def wrap_clear_context_by_seq_ids(stock: Callable) -> Callable:
    """The scheduler's cleanup: aborted and preempted sequences, and those of a failed step."""

    @wraps(stock)
    def clear_context_by_seq_ids(self: object, sequence_ids: np.ndarray) -> None:
        stock(self, sequence_ids)
        runtime = find_runtime()
        if runtime is not None:
            runtime.rows.abort(sequence_ids)

    return clear_context_by_seq_ids


def wrap_clear_finished_context(stock: Callable) -> Callable:
    """Finished sequences; under async inference those of the step before, which is what stock returns."""

    @wraps(stock)
    def clear_finished_context(
        self: object, sequence_ids: np.ndarray, context_handles: np.ndarray
    ) -> np.ndarray:
        cleared = stock(self, sequence_ids, context_handles)
        runtime = find_runtime()
        if runtime is not None:
            runtime.rows.finish(cleared)
        return cleared

    return clear_finished_context


def wrap_fork_context(stock: Callable) -> Callable:
    """Children of best-of and beam search: their blocks are copies, so they start under a new lease."""

    @wraps(stock)
    def fork_context(self: object, sampling_output: object) -> np.ndarray:
        handles = stock(self, sampling_output)
        runtime = find_runtime()
        if runtime is not None:
            pairs = zip(sampling_output.sequence_ids, sampling_output.parent_sequence_ids)
            runtime.prefilled([child for child, parent in pairs if child not in (-1, parent)])
        return handles

    return fork_context


def wrap_reset_all_context(stock: Callable) -> Callable:
    """Recovery forgets every sequence; what comes back under an old id is another request."""

    @wraps(stock)
    def reset_all_context(self: object) -> None:
        stock(self)
        runtime = find_runtime()
        if runtime is not None:
            runtime.rows.release_all()

    return reset_all_context
