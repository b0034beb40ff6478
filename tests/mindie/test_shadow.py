# SPDX-License-Identifier: Apache-2.0
"""The shadow check sees every row that differs from the host's, and blames no row that does not."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is missing: run these tests in .venv-torch (scripts/test.sh)"
)

import avsg  # noqa: E402
from avsg import layout  # noqa: E402
from avsg.mindie.background import Background  # noqa: E402
from avsg.mindie.host_kv import HostKv  # noqa: E402
from avsg.mindie.metrics import Metrics  # noqa: E402
from avsg.mindie.request_rows import DUMMY_SEQUENCE, RequestRows  # noqa: E402
from avsg.mindie.shadow import MOST_PENDING, SAMPLE_ROWS, ShadowCheck  # noqa: E402
from avsg.torch_ops import TorchPool  # noqa: E402

pytestmark = pytest.mark.torch

SLOTS, TOP_K, LENGTH = 128, 16, 100


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait before a row is called wrong."""
    monkeypatch.setattr("avsg.mindie.shadow.SETTLE_SECONDS", 0.0)


class Served:
    """One layer's pool with host KV of random bytes; the sequence's row is row 1, entry 2 of the step."""

    def __init__(self, rows_per_minute: int = 60) -> None:
        self.now = 0.0
        self.wrong: list[str] = []
        self.rows = RequestRows(2)
        self.rows.admit("another")
        self.rows.admit("sequence")
        self.pool = TorchPool(avsg.PoolConfig(num_rows=2, num_slots=SLOTS, top_k=TOP_K))
        self.host_kv = list(HostKv(1, 8, block_size=16).layer(0))
        for payload in self.host_kv:
            payload.view(torch.int16).random_(-(2**15), 2**15)
        self.device_kv = [self.pool.device_kv(payload) for payload in self.host_kv]
        self.block_table = torch.tensor([[-1] * 8, [-1] * 8, [7, 0, 3, 1, 6, 2, 5, 4]], dtype=torch.int32)
        self.metrics = Metrics([[5]], row_bytes=1152)
        self.shadow = ShadowCheck(
            self.rows,
            self.metrics,
            num_slots=SLOTS,
            rows_per_minute=rows_per_minute,
            on_wrong=self.wrong.append,
            clock=lambda: self.now,
        )
        for start in range(0, 80, TOP_K):
            self.step(range(start, start + TOP_K))

    def step(self, tokens: range) -> None:
        rows, leases = (torch.from_numpy(x) for x in self.rows.lookup([None, DUMMY_SEQUENCE, "sequence"]))
        lens = torch.tensor([0, 0, LENGTH], dtype=torch.int32)
        topk = torch.tensor(tokens, dtype=torch.int32).repeat(3, 1, 1)
        plan = self.pool.match(topk, lens, lens, leases, rows)
        self.pool.load(plan, self.block_table, self.host_kv, self.device_kv)

    def take(self, sequence: str = "sequence") -> bool:
        return self.shadow.take(
            layer=5,
            sequences=[None, DUMMY_SEQUENCE, sequence],
            state=self.pool.state,
            device_kv=self.device_kv,
            host_kv=self.host_kv,
            block_table=self.block_table,
        )

    def counts(self) -> tuple[int, int, int]:
        snapshot = self.metrics.snapshot()
        return tuple(snapshot[f"shadow_rows_{name}"] for name in ("compared", "wrong", "discarded"))


def test_rows_equal_to_the_host_are_compared_and_none_is_wrong() -> None:
    served = Served()
    for _ in range(20):
        assert served.take() and served.shadow.verify() is None
    assert served.counts() == (20 * SAMPLE_ROWS, 0, 0) and not served.wrong


@pytest.mark.parametrize("payload", [0, 1])
def test_one_flipped_bit_in_a_sampled_row_is_found_and_named(payload: int) -> None:
    served = Served()
    row_bytes = served.device_kv[payload].flatten(1).view(torch.uint8)
    row_bytes[SLOTS:, -1] ^= 1
    assert served.take()
    text = served.shadow.verify()
    assert text == served.wrong[0] and "8 of 8 sampled device rows of layer 5" in text
    assert "'sequence', row 1" in text and "with 1 other bytes" in text
    assert served.counts() == (SAMPLE_ROWS, SAMPLE_ROWS, 0)


def test_a_row_of_another_request_is_not_blamed_on_this_one() -> None:
    served = Served()
    served.device_kv[0][:SLOTS] = 1
    assert served.take() and served.shadow.verify() is None


def test_every_live_slot_is_sampled_sooner_or_later_and_no_empty_one() -> None:
    served = Served()
    live = 80
    rows = served.device_kv[0][SLOTS:]
    tokens = layout.state_views(SLOTS, served.pool.state[1].numpy())[1][:SLOTS]
    rows[torch.from_numpy(tokens < 0)] = 1  # what an empty slot holds is nobody's row
    for _ in range(200):
        assert served.take() and served.shadow.verify() is None
    victim = int((tokens >= 0).nonzero()[0][-1])
    rows[victim] = 1
    assert any(served.take() and served.shadow.verify() for _ in range(20 * live // SAMPLE_ROWS))
    assert f"slot {victim} holds token {tokens[victim]}" in served.wrong[0]


def test_a_sample_is_compared_as_it_was_when_taken() -> None:
    served = Served()
    assert served.take()
    served.device_kv[0].fill_(1)
    served.pool.state.zero_()
    assert served.shadow.verify() is None and served.counts() == (SAMPLE_ROWS, 0, 0)


@pytest.mark.parametrize("leave", ["finish", "resume"])
def test_a_sample_of_a_request_with_another_lease_is_discarded(leave: str) -> None:
    served = Served()
    assert served.take()
    if leave == "finish":
        served.rows.finish(["sequence"])
    else:
        served.rows.recompute("sequence")
    served.host_kv[0].fill_(1)  # its blocks belong to somebody else by now
    assert served.shadow.verify() is None and served.counts() == (0, 0, SAMPLE_ROWS)


def test_a_request_whose_end_is_heard_of_late_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asynchronous MindIE prefills into a finished request's blocks a moment before it clears the request."""
    served = Served()
    assert served.take()
    served.host_kv[0].fill_(1)
    monkeypatch.setattr("avsg.mindie.shadow.time.sleep", lambda seconds: served.rows.finish(["sequence"]))
    assert served.shadow.verify() is None and served.counts() == (0, 0, SAMPLE_ROWS) and not served.wrong


def test_a_poisoned_row_is_discarded() -> None:
    """SPEC.md "Copy": a bad block fills the device row with zeros and poisons the row."""
    served = Served()
    served.block_table[2, 5] = 99
    served.step(range(80, 80 + TOP_K))
    assert served.take() and served.shadow.verify() is None
    compared, wrong, discarded = served.counts()
    assert compared == wrong == 0 and discarded > 0


def test_nothing_is_taken_from_a_step_without_requests() -> None:
    served = Served()
    served.rows.finish(["sequence", "another"])
    assert not served.take() and served.shadow.verify() is None


def test_the_rate_is_rows_a_minute() -> None:
    served = Served(rows_per_minute=2 * SAMPLE_ROWS)
    taken = 0
    for second in range(600):
        served.now = float(second)
        if served.shadow.due():
            taken += served.take()
            served.shadow.verify()
    assert taken == 20


def test_zero_rows_a_minute_is_off() -> None:
    assert not Served(rows_per_minute=0).shadow.due()


def test_samples_that_nobody_verifies_do_not_pile_up() -> None:
    served = Served()
    assert [served.take() for _ in range(MOST_PENDING + 2)] == [True] * MOST_PENDING + [False] * 2


def test_the_models_random_numbers_stay_as_they_are() -> None:
    served = Served()
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    served.take()
    assert torch.equal(torch.rand(4), expected)


def test_layers_are_picked_at_random_from_those_given() -> None:
    shadow = Served().shadow
    assert {shadow.pick([3, 4, 9]) for _ in range(100)} == {3, 4, 9}


def test_a_background_job_runs_until_stopped_and_survives_its_errors() -> None:
    calls, enough = [], threading.Event()

    def job() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("once")
        enough.set()

    background = Background(0.001, job)
    background.start()
    assert enough.wait(30)
    background.stop()
    background.stop()
    assert len(calls) >= 2 and not background._thread.is_alive()
