# SPDX-License-Identifier: Apache-2.0
"""Faults planted in the adapter: each shows as hidden states that differ from stock, in a run that is equal
without it (test_equal_to_stock.py)."""

from __future__ import annotations

from collections.abc import Callable

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from engine import BLOCK, SLOTS, Engine
from scenarios import Script, differences
from test_equal_to_stock import long_life, registered  # noqa: F401  (an autouse fixture)

pytestmark = pytest.mark.torch
GROUPS = [[0], [1], [2]]


def _drafts_count_as_verified(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.layer_group import LayerGroup

    match = LayerGroup.match

    def wrong(self, topk_tokens, seq_lens, leases, step):
        right = step.verified_lens.clone()
        step.verified_lens.copy_(seq_lens)
        plan = match(self, topk_tokens, seq_lens, leases, step)
        step.verified_lens.copy_(right)
        plan.verified_lens.copy_(right)  # the copy still takes this step's own rows from staging
        return plan

    patch.setattr(LayerGroup, "match", wrong)


def _two_requests_share_a_row(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.request_rows import RequestRows

    lookup = RequestRows.lookup

    def wrong(self, sequences, size=None):
        rows, leases = lookup(self, sequences, size)
        active = np.flatnonzero(rows >= 0)
        rows[active[1:]], leases[active[1:]] = rows[active[:1]], leases[active[:1]]
        return rows, leases

    patch.setattr(RequestRows, "lookup", wrong)


def _requests_take_turns_in_a_row(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.request_rows import RequestRows

    lookup = RequestRows.lookup

    def wrong(self, sequences, size=None):
        rows, leases = lookup(self, sequences, size)
        return np.where(rows >= 0, np.arange(len(rows), dtype=np.int32), rows), np.minimum(leases, 1)

    patch.setattr(RequestRows, "lookup", wrong)


def _sparse_mode_3(patch: pytest.MonkeyPatch) -> None:
    import torch_npu

    attention = torch_npu.npu_sparse_flash_attention
    patch.setattr(
        torch_npu,
        "npu_sparse_flash_attention",
        lambda **arguments: attention(**{**arguments, "sparse_mode": 3}),
    )


def _slots_of_another_group(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.runtime import Runtime

    decode = Runtime.decode

    def wrong(self, layer, topk_tokens, **kwargs):
        view = decode(self, layer, topk_tokens, **kwargs)
        return view._replace(slots=self.groups[0].slots(topk_tokens.shape[0]))

    patch.setattr(Runtime, "decode", wrong)


def _no_release_on_preemption(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.request_rows import RequestRows

    patch.setattr(RequestRows, "preempt", lambda self, sequences: 0)
    patch.setattr(RequestRows, "abort", lambda self, sequences: 0)


def _own_rows_from_the_host(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.layer_group import LayerGroup

    load = LayerGroup.load
    patch.setattr(
        LayerGroup,
        "load",
        lambda self, layer, block_table, host_kv, fresh: load(self, layer, block_table, host_kv, ()),
    )


def _new_rows_not_stored(patch: pytest.MonkeyPatch) -> None:
    from avsg.mindie.layer_group import LayerGroup

    patch.setattr(LayerGroup, "store", lambda self, *args: None)


def _host_lengths(patch: pytest.MonkeyPatch) -> None:
    """Rows and positions derived from what the host knew, not from the corrected lengths on the device."""
    from avsg.mindie.metadata import AvsgSfaMetadata
    from avsg.mindie.step_tensors import StepTensors

    to_device, update, known = AvsgSfaMetadata.to_device, StepTensors.update, []

    def remember(self, device):
        to_device(self, device)
        known.append(self.seq_lens.clone())

    patch.setattr(AvsgSfaMetadata, "to_device", remember)
    patch.setattr(StepTensors, "update", lambda self, rows, seq_lens: update(self, rows, known[-1]))


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    fault.__name__.strip("_"): fault
    for fault in (
        _drafts_count_as_verified,
        _two_requests_share_a_row,
        _requests_take_turns_in_a_row,
        _sparse_mode_3,
        _slots_of_another_group,
        _no_release_on_preemption,
        _own_rows_from_the_host,
        _new_rows_not_stored,
        _host_lengths,
    )
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows_against_stock(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = long_life(num_queries=4)
    expected = script.play(Engine(num_queries=4))
    engine = Engine(num_queries=4, groups=GROUPS)
    FAULTS[fault](monkeypatch)
    assert differences(expected, script.play(engine)) != []


@pytest.mark.parametrize("faulty", [False, True], ids=["lengths S", "stock lengths"])
def test_slots_past_the_sequence_length_are_read(faulty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots go up to S whatever the sequence length; a young row has low ones only, so they are moved."""
    from avsg.mindie.runtime import Runtime

    decode = Runtime.decode

    def moved(self, layer, topk_tokens, *, seq_lens, **kwargs):
        view = decode(self, layer, topk_tokens, seq_lens=seq_lens, **kwargs)
        slots = torch.where(view.slots >= 0, (view.slots + SLOTS // 2) % SLOTS, -1)
        nope, rope = (
            kv.view(-1, SLOTS, kv.shape[-1]).roll(SLOTS // 2, 1).view(kv.shape)
            for kv in (view.nope, view.rope)
        )
        kv_lens = seq_lens if faulty else view.kv_lens
        return view._replace(slots=slots, nope=nope, rope=rope, kv_lens=kv_lens)

    monkeypatch.setattr(Runtime, "decode", moved)
    script = long_life(num_queries=4)
    got = script.play(Engine(num_queries=4, groups=GROUPS))
    assert bool(differences(script.play(Engine(num_queries=4)), got)) is faulty


@pytest.mark.parametrize("faulty", [False, True], ids=["reset", "no reset"])
def test_rows_of_the_warm_up_are_reset_before_serving(faulty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warm-up decodes sequence 1; then a KV mover writes another sequence 1 to the final blocks."""
    from avsg.mindie.request_rows import RequestRows

    if faulty:
        monkeypatch.setattr(RequestRows, "renew_all", lambda self: None)
        monkeypatch.setattr(RequestRows, "release_all", lambda self: 0)
    stock, engine = Engine(), Engine(groups=GROUPS)
    warm_up, serving = Script(1, 1), Script(2, 1)
    warm_up.arrive((1, 200))
    for _ in range(3):
        warm_up.step()
    serving.text[1] = serving.rng.integers(0, 97, 260).tolist()
    table = serving._table(1, 260)
    for player in (stock, engine):
        warm_up.play(player)
        player.allocate(24)
        player.compile()
        node = Engine()
        node.prefill([1], [np.array(serving.text[1])], [table])
        for layer, (ours, theirs) in enumerate(zip(player.kv, node.kv)):
            homes = (*player.runtime.host_layer(layer), ours[2]) if player.runtime else ours
            for home, tensor in zip(homes, theirs):
                home.copy_(tensor)
    for _ in range(4):
        serving.step()
    assert bool(differences(serving.play(stock), serving.play(engine))) is faulty
    assert BLOCK * 3 > 260 + 4, "the table holds every token"
