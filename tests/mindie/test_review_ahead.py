# SPDX-License-Identifier: Apache-2.0
"""Async scheduling prepares a step before the last one has run: rows change hands ahead of the device."""

from __future__ import annotations

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from engine import Engine
from scenarios import Script, differences
from test_equal_to_stock import registered  # noqa: F401  (an autouse fixture)

pytestmark = pytest.mark.torch


class Ahead(Engine):
    """Prepares `depth` steps (metadata, rows, leases) before it runs the oldest; finish runs the rest."""

    depth = 2

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._prepared: list[tuple] = []
        self.results: list[torch.Tensor] = []

    def _forward(self, inputs, device_lengths: torch.Tensor | None = None) -> torch.Tensor:
        with self:
            inputs.input_ids = torch.as_tensor(inputs.input_ids, dtype=torch.int64)
            inputs.position_ids = torch.as_tensor(inputs.position_ids, dtype=torch.int64)
            self._prepared.append((inputs, self.runner.build_forward_context(inputs), device_lengths))
        if len(self._prepared) > self.depth:
            self.run_oldest()
        return torch.empty(0)

    def run_oldest(self) -> None:
        inputs, context, device_lengths = self._prepared.pop(0)
        with self, torch.no_grad():
            if device_lengths is not None:
                context.attn_metadata.seq_lens = device_lengths
                context.attn_metadata.actual_seq_lengths_kv = device_lengths
            result = self.runner.forward(self.kv, inputs.input_ids, inputs.position_ids, context)
            self.results.append((result[0] if isinstance(result, tuple) else result).clone())

    def finish(self) -> list[torch.Tensor]:
        while self._prepared:
            self.run_oldest()
        return self.results


def changing_hands(num_queries: int) -> Script:
    """Requests end while others wait for a row, and every decode step follows another one."""
    script = Script(5, num_queries, num_blocks=40)
    script.arrive((1, 150), (2, 300))
    for _ in range(3):
        script.step(late=True)
    for sequence in range(3, 9):
        script.finish(sequence - 2)
        script.arrive((sequence, 40 * sequence))
        for _ in range(3):
            script.step(late=True)
    script.preempt(8)
    script.step(7, late=True)
    script.resume(8)
    for _ in range(3):
        script.step(8, 7, late=True)
    return script


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("num_queries", [1, 4])
def test_steps_prepared_ahead_are_equal_to_stock(num_queries: int, graph: bool) -> None:
    """Two rows for two requests: each new request takes the row of one whose last step has not run yet."""
    options = {"num_queries": num_queries, "num_blocks": 40, "max_requests": 2}
    script = changing_hands(num_queries)
    expected = script.play(Engine(**options))
    engine = Ahead(**options, groups=[[0], [1], [2]], graph=graph)
    if graph:
        engine.compile()
    script.play(engine)
    got = [left[: len(right)] for left, right in zip(engine.finish(), expected)]
    assert differences(expected, got) == []
    assert np.all([group["resets"] >= 8 for group in engine.runtime.metrics.snapshot()["groups"]])
