# SPDX-License-Identifier: Apache-2.0
"""MindIE's real Generator end to end, stock against AVSG: equal logits and tokens in both its loops."""

from __future__ import annotations

import json

import generator_env
import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SECTION = {"enable": True, "slots": 128, "huge_pages": False, "shadow_rows_per_minute": 100_000}


@pytest.fixture(params=[False, True], ids=["synchronous", "asynchronous"])
def prepared(mindie, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """torch, with AVSG registered in a process that stands for a worker's."""
    from avsg.mindie.register import register, unregister

    generator_env.prepare(mindie, monkeypatch, asynchronous=request.param)
    register()
    yield mindie
    unregister()


def serve(generator) -> generator_env.Client:
    """Arrivals, steps in changing order, a preemption with another text under the old id, a finish."""
    client = generator_env.Client(generator)
    client.prefill((1, 40), (2, 150))
    for number in range(8):
        client.decode(*((2, 1) if number % 2 else (1, 2)))
    client.prefill((3, 200))
    for _ in range(5):
        client.decode(1, 3, 2)
    client.clear(2)
    for _ in range(3):
        client.decode(3, 1)
    client.prefill((2, 170))
    for _ in range(6):
        client.decode(2, 1, 3)
    client.clear(3)
    client.prefill((4, 60), most=2)
    client.decode(4, 2, 1)
    for _ in range(3):
        client.decode(2, 1)
    client.wait()
    return client


@pytest.mark.parametrize("drafts", [0, 3])
def test_logits_and_tokens_equal_those_of_stock_mindie(prepared, monkeypatch, drafts: int) -> None:
    from avsg.mindie.active import find_runtime

    changes = speculative(prepared, monkeypatch, drafts) if drafts else {}
    stock = serve(generator_env.make({"enable": False}, **changes))
    assert find_runtime() is None
    client = serve(generator_env.make(SECTION, **changes))
    runtime = find_runtime()
    for step, (left, right) in enumerate(zip(stock.generator.logits, client.generator.logits)):
        assert prepared.equal(left, right), f"the logits of step {step} differ"
    assert client.tokens == stock.tokens and stock.expected == client.expected
    totals = runtime.metrics.snapshot()
    assert all(group["hits"] > 0 and group["bad_blocks"] == 0 for group in totals["groups"])
    assert all((group["invalidated"] > 0) == bool(drafts) for group in totals["groups"])
    assert totals["shadow_rows_wrong"] == 0 and totals["rows_taken"] == 0
    assert 4 not in runtime.rows and 3 not in runtime.rows and 1 in runtime.rows and 2 in runtime.rows


def speculative(torch, monkeypatch: pytest.MonkeyPatch, drafts: int) -> dict:
    """The changes to the configuration for so many speculative tokens."""
    generator_env.prepare_drafts(torch, monkeypatch)
    plugin = {"plugin_type": "mtp", "num_speculative_tokens": drafts}
    return {"plugin_params": json.dumps(plugin), "speculation_gamma": 2 * drafts, "dp": 1}


@pytest.mark.parametrize("fault", ["no release on preemption", "rows of another entry"])
def test_a_planted_fault_changes_logits(prepared, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    from avsg.mindie import engine_rows
    from avsg.mindie.request_rows import RequestRows

    stock = serve(generator_env.make({"enable": False}))
    if fault == "no release on preemption":
        monkeypatch.setattr(RequestRows, "preempt", lambda self, sequences: 0)
        monkeypatch.setattr(RequestRows, "abort", lambda self, sequences: 0)
    else:
        right = engine_rows.step_sequences
        monkeypatch.setattr(engine_rows, "step_sequences", lambda metadata: right(metadata)[::-1])
    client = serve(generator_env.make(SECTION))
    pairs = zip(stock.generator.logits, client.generator.logits)
    assert not all(prepared.equal(left, right) for left, right in pairs)


def test_the_second_allocation_has_blocks_for_all_requests_and_graphs_are_captured(prepared) -> None:
    from avsg.mindie.active import find_runtime

    generator = generator_env.make(SECTION)
    runtime = find_runtime()
    most = generator_env.MAX_REQUESTS * generator_env.MAX_LEN // generator_env.BLOCK
    assert generator.kvcache_settings.num_npu_blocks == runtime.host_kv.num_blocks == most
    graphs = generator.model_wrapper.model_runner.model.graphs
    assert {key.num_tokens for key in graphs} == {1, 2, 3}
    totals = runtime.metrics.snapshot()
    assert len(runtime.rows) == 0 and totals["steps"] == 0 and totals["groups"][0]["misses"] == 0


@pytest.mark.parametrize(
    "section, changes, words",
    [
        ({**SECTION, "slots": 200}, {}, "models.avsg.slots is 200"),
        ({**SECTION, "slot": 128}, {}, "models.avsg has no key 'slot'"),
        (SECTION, {"plugin_params": '{"plugin_type": "prefix_cache"}'}, "the plugin prefix_cache"),
        (SECTION, {"plugin_params": '{"plugin_type": "splitfuse"}'}, "splitfuse"),
        (SECTION, {"role": "prefill"}, "the role of this node"),
        (SECTION, {"kv_pool_backend": "mooncake", "kv_pool_config_path": "x.json"}, "kvPoolConfig"),
    ],
)
def test_a_configuration_that_does_not_go_together_stops_the_start(prepared, section, changes, words) -> None:
    with pytest.raises(ValueError, match=words):
        generator_env.make(section, **changes)


def test_a_warm_up_with_more_requests_than_a_prefill_step_has_room_in_staging(prepared) -> None:
    """MindIE warms up with maxBatchSize prompts of maxPrefillTokens in all, whatever maxPrefillBatchSize."""
    changes = {"max_batch_size": 8, "max_prefill_batch_size": 1, "max_prefill_tokens": 1040}
    client = generator_env.Client(generator_env.make(SECTION, **changes))
    client.prefill((1, 40))
    client.decode(1)
    client.wait()
