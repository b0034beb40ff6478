# SPDX-License-Identifier: Apache-2.0
"""AVSG in MindIE's ways of running a step: graph, eager with padding, full offload, few rows, draft layer."""

from __future__ import annotations

from types import SimpleNamespace

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from engine import BLOCK, Engine
from scenarios import Script, differences, random_life
from test_equal_to_stock import long_life, registered  # noqa: F401  (an autouse fixture)

pytestmark = pytest.mark.torch
GROUPS = [[0], [1, 2]]
SHARED = {2: 1}


@pytest.mark.parametrize("num_queries", [1, 3, 4])
@pytest.mark.parametrize("seed", range(2))
def test_random_lives_are_equal_to_stock(seed: int, num_queries: int) -> None:
    script = random_life(seed, num_queries)
    stock = Engine(num_queries=num_queries, shared=SHARED)
    engine = Engine(num_queries=num_queries, shared=SHARED, groups=GROUPS, graph=True)
    engine.compile()
    assert differences(script.play(stock), script.play(engine)) == [], f"seed {seed}"


def test_a_graph_step_runs_no_python_of_a_layer_and_moves_no_static_tensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from avsg.mindie.runtime import Runtime

    calls = []
    decode = Runtime.decode
    monkeypatch.setattr(
        Runtime,
        "decode",
        lambda self, layer, *args, **kwargs: calls.append(layer) or decode(self, layer, *args, **kwargs),
    )
    engine = Engine(num_queries=4, groups=[[0], [1], [2]], graph=True)
    engine.compile()
    captured, graphs = len(calls), dict(engine.runner.model.graphs)
    before = {name: tensor.data_ptr() for name, tensor in engine.buffers.items()}
    pointers = static_pointers(engine)
    long_life(num_queries=4).play(engine)
    assert captured == 3 * len(graphs) and len(calls) == captured
    assert engine.runner.model.graphs == graphs and sum(graph.replays for graph in graphs.values()) > 32
    assert {name: tensor.data_ptr() for name, tensor in engine.buffers.items()} == before
    assert static_pointers(engine) == pointers
    read = set().union(*(graph.addresses() for graph in graphs.values()))
    assert pointers <= read


def static_pointers(engine: Engine) -> set[int]:
    """Addresses of state, device buffers, host KV and staging."""
    runtime = engine.runtime
    tensors = [*runtime.staging.payloads(), *(group.pool.state for group in runtime.groups)]
    tensors += [kv for group in runtime.groups for pair in group.device_kv.values() for kv in pair]
    tensors += [kv for layer in range(3) for kv in runtime.host_layer(layer)]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def test_a_capture_that_reads_a_length_on_the_host_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.step_tensors import StepTensors

    update = StepTensors.update
    monkeypatch.setattr(
        StepTensors,
        "update",
        lambda self, rows, seq_lens: update(self, rows, seq_lens * int(seq_lens.max() > 0)),
    )
    engine = Engine(groups=[[0], [1], [2]], graph=True)
    with pytest.raises(RuntimeError, match="on the host"):
        engine.compile()


@pytest.mark.parametrize("num_queries", [1, 4])
def test_eager_steps_with_padding_are_equal_to_stock(num_queries: int) -> None:
    """MindIE's warm-up: the padding tokens of a step make one entry, of more than Q tokens."""
    script = long_life(num_queries)
    stock = Engine(num_queries=num_queries)
    engine = Engine(num_queries=num_queries, groups=[[0], [1], [2]], graph=True, max_requests=8)
    engine.compile()
    engine.runner.set_eager_mode_with_padding(True)
    assert differences(script.play(stock), script.play(engine)) == []
    assert all(graph.replays == 1 for graph in engine.runner.model.graphs.values())  # the capture's own


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_full_offload_copies_every_selected_row_and_back_again(graph: bool) -> None:
    script = Script(3, num_queries=4)
    script.arrive((1, 200), (2, 70))
    script.step()
    script.step()
    switch = {"full": None, "avsg": None}
    for mode in switch:
        script.call(lambda engine, mode=mode: engine.runtime and engine.runtime.set_mode(mode))
        for _ in range(3):
            script.step(accepted=2)
            script.call(
                lambda engine, mode=mode: switch.update({mode: engine.counts()}) if engine.runtime else None
            )
    stock, engine = Engine(num_queries=4), Engine(num_queries=4, groups=[[0], [1], [2]], graph=graph)
    if graph:
        engine.compile()
    assert differences(script.play(stock), script.play(engine)) == []
    full, back = switch["full"], switch["avsg"]
    assert full["resets"] == 2 + 3 * 2 and back["resets"] == full["resets"] + 2
    assert full["rows_copied"] == full["misses"]
    assert back["hits"] > full["hits"]


def test_more_sequences_than_rows_take_turns() -> None:
    script = Script(5, num_queries=1, num_blocks=30)
    for sequence in range(1, 6):
        script.arrive((sequence, 60 * sequence))
    for number in range(20):
        script.step(1 + number % 5, 1 + (number + 2) % 5)
    stock = Engine(max_requests=2, num_blocks=30)
    engine = Engine(max_requests=2, num_blocks=30, groups=[[0], [1], [2]])
    assert differences(script.play(stock), script.play(engine)) == []
    assert engine.runtime.metrics.snapshot()["rows_taken"] > 0


def test_the_draft_layer_keeps_its_kv_in_hbm() -> None:
    """Layer 61 is MindIE's draft layer: it is in no group, and its caches are paged."""
    script = long_life(num_queries=4)
    layers = [0, 1, 61]
    stock = Engine(num_queries=4, layers=layers)
    engine = Engine(num_queries=4, layers=layers, groups=[[0], [1]])
    assert differences(script.play(stock), script.play(engine)) == []
    for ours, theirs in zip(engine.kv[2], stock.kv[2]):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_an_idle_rank_decodes_one_token_of_no_request_and_changes_nothing(graph: bool) -> None:
    """What GeneratorAclGraph gives a rank of attention data parallelism without entries: one token."""
    from mindie_llm.text_generator.utils.model_input import ModelInput

    from avsg.mindie.engine_rows import SEQUENCES

    engine = Engine(num_queries=4, groups=[[0], [1], [2]], graph=graph)
    if graph:
        engine.compile()
    script = Script(0, num_queries=4)
    script.arrive((1, 150))
    script.step()
    script.play(engine)
    runtime = engine.runtime
    watched = [
        *(group.pool.state for group in runtime.groups),
        *runtime.host_layer(0),
        *runtime.host_layer(2),
    ]
    before = [tensor.clone() for tensor in watched]
    inputs = ModelInput(
        input_ids=np.array([1]),
        position_ids=np.array([0]),
        block_tables=np.array([[1]], np.int32),
        slots=np.array([BLOCK], np.int32),
        context_length=np.array([1], np.int32),
        max_seq_len=1,
        prefill_head_indices=None,
        is_prefill=False,
        q_lens=[1],
    )
    setattr(inputs, SEQUENCES, [None])
    assert engine._forward(inputs).shape[0] == 1
    assert all(torch.equal(left, right) for left, right in zip(before, watched))


def test_a_prompt_without_a_request_is_not_stored() -> None:
    """A rank of attention data parallelism without prompts prefills one token into the last block."""
    from avsg.mindie.engine_rows import SEQUENCES
    from avsg.mindie.metadata import AvsgSfaMetadata

    inputs = SimpleNamespace(
        is_prefill=True,
        q_lens=None,
        context_length=np.array([2, 1, 3], np.int32),
        slots=np.array([128, 129, 7, -1, -1, -1], np.int32),
        block_tables=np.array([[1], [0], [2]], np.int32),
        input_ids=np.zeros(6, np.int64),
        **{SEQUENCES: [5, None, 6]},
    )
    with Engine(groups=[[0], [1], [2]]):
        metadata = AvsgSfaMetadata.from_model_input(inputs, None)
    assert metadata.entries.tolist() == [0, 0, -1, -1, -1, -1]
    assert metadata.positions.tolist() == [0, 1, 0, 0, 1, 2]


def test_a_prefill_that_staging_cannot_hold_is_refused_before_anything_is_written() -> None:
    engine = Engine(groups=[[0], [1], [2]])
    engine.runtime.staging.nope.fill_(3.0)
    prompt = np.zeros(9 * BLOCK, np.int64)
    with pytest.raises(RuntimeError, match="takes 9 staging blocks of 8: lower maxPrefillTokens"):
        engine.prefill([1], [prompt], [np.arange(1, 10)])
    assert bool((engine.runtime.staging.nope == 3.0).all()) and not engine.runtime.host_layer(0)[0].any()
