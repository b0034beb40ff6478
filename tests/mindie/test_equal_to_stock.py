# SPDX-License-Identifier: Apache-2.0
"""MindIE's real DSA attention, stock against AVSG: equal hidden states, to the bit, whatever happens to
requests.

Every layer feeds the next, so one wrong KV row in any layer shows in the hidden states of that step or a
later one.
"""

from __future__ import annotations

import needs_torch  # noqa: F401
import pytest
import torch
from engine import Engine
from scenarios import Script, differences

pytestmark = pytest.mark.torch
GROUPS = {"own indexers": ([[0], [1], [2]], None), "shared indexer": ([[0], [1, 2]], {2: 1})}


@pytest.fixture(autouse=True)
def registered(mindie):
    """AVSG is registered, and torch.npu has graphs."""
    import graph_tape

    from avsg.mindie.register import register, unregister

    graph_tape.install(torch.npu)
    register()
    yield
    unregister()


def long_life(num_queries: int, seed: int = 0) -> Script:
    """32 steps and more: arrivals, contexts below K, reorder, dummies, finish, preemption, resume, late
    lengths."""
    script = Script(seed, num_queries)
    script.arrive((1, 40), (2, 300))
    script.step()
    script.dummy_step()
    for _ in range(5):
        script.step(2, 1)
    script.arrive((3, 128), remote=True)
    for number in range(8):
        script.step(3, 1, 2, late=number % 2 == 1)
    script.finish(2)
    script.step(1, 3, dummies=1)
    script.arrive((4, 200))
    for number in range(6):
        script.step(*((4, 3, 1) if number % 2 else (1, 4, 3)), late=number > 2)
    script.preempt(3)
    script.step(4, 1)
    script.arrive((5, 257), remote=True)
    script.step(1, 5, 4, dummies=1)
    script.resume(3)
    for _ in range(6):
        script.step(5, 3, 1, 4)
    script.preempt(5, forgotten=False)
    script.dummy_step(1)
    script.step(3, 4)
    script.resume(5)
    for _ in range(6):
        script.step(late=True)
    return script


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("num_queries", [1, 4])
def test_hidden_states_equal_those_of_all_kv_in_hbm(num_queries: int, graph: bool, groups: str) -> None:
    layer_groups, shared = GROUPS[groups]
    stock = Engine(num_queries=num_queries, shared=shared)
    engine = Engine(num_queries=num_queries, shared=shared, graph=graph, groups=layer_groups)
    if graph:
        engine.compile()
    script = long_life(num_queries)
    assert differences(script.play(stock), script.play(engine)) == []
    totals = engine.runtime.metrics.snapshot()["groups"]
    assert all(group["hits"] > 0 and group["misses"] > 0 for group in totals)
    assert all(group["bad_blocks"] == group["bad_tokens"] == 0 for group in totals)
