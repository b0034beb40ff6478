# SPDX-License-Identifier: Apache-2.0
"""Operations beside a Runtime: shadow samples from its steps, the metrics file, and the mode file."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is missing: run these tests in .venv-torch (scripts/test.sh)"
)

from avsg.mindie.operations import Operations  # noqa: E402
from avsg.mindie.runtime import KvLayout, Runtime  # noqa: E402
from avsg.mindie.settings import EngineFacts, Settings  # noqa: E402

pytestmark = pytest.mark.torch

ENGINE = EngineFacts(top_k=16, max_requests=2, max_seq_len=128)
LAYERS, LENGTH = 3, 60


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait before a row is called wrong."""
    monkeypatch.setattr("avsg.mindie.shadow.SETTLE_SECONDS", 0.0)


class Served:
    """A Runtime of two groups that has decoded one step of sequence 7, and its Operations."""

    def __init__(self, **settings: object) -> None:
        self.now = 0.0
        self.runtime = Runtime(
            Settings(rows=2, slots=128, **settings),
            ENGINE,
            KvLayout([[0], [1, 2]], nope_dim=16, rope_dim=8, block_size=16),
        )
        self.runtime.bind(8)
        self.table = torch.arange(8, dtype=torch.int32).view(1, 8)
        for layer in range(LAYERS):
            for payload in self.runtime.host_layer(layer):
                payload.view(torch.int16).random_(0, 1000)
        self.operations = Operations(self.runtime, clock=lambda: self.now)
        self.step()

    def step(self) -> None:
        rows, leases = (torch.from_numpy(x) for x in self.runtime.lookup([7]))
        topk = torch.arange(16, dtype=torch.int32).view(1, 1, 16)
        lens = torch.tensor([LENGTH], dtype=torch.int32)
        for layer in range(LAYERS):
            self.runtime.decode(layer, topk, rows=rows, leases=leases, seq_lens=lens, block_table=self.table)

    def copied(self) -> int:
        before = self.total()
        self.step()
        return self.total() - before

    def total(self) -> int:
        return sum(group["rows_copied"] for group in self.runtime.metrics.snapshot()["groups"])

    def shadow(self) -> tuple[int, int]:
        self.operations.between_steps([7], self.table)
        self.operations.tick()
        snapshot = self.runtime.metrics.snapshot()
        return snapshot["shadow_rows_compared"], snapshot["shadow_rows_wrong"]


def test_samples_of_every_layer_are_right_and_none_is_taken_too_early() -> None:
    served = Served()
    for second in range(0, 800, 8):
        served.now = float(second)
        assert served.shadow() == (second + 8, 0)
        served.now += 7.9
        assert served.shadow() == (second + 8, 0)
    assert served.runtime.mode == "avsg"


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("action", ["full", "log"])
def test_a_wrong_row_of_any_layer_is_found_and_full_offload_follows(layer: int, action: str) -> None:
    served = Served(shadow_action=action)
    group = served.runtime.groups[min(layer, 1)]
    group.device_kv[layer][0].view(torch.int16).bitwise_xor_(1)
    while not served.shadow()[1]:
        served.now += 8
        assert served.now < 1000
    assert served.runtime.mode == ("full" if action == "full" else "avsg")
    assert served.copied() == (16 * LAYERS if action == "full" else 0)


def test_the_mode_file_switches_when_its_text_changes_and_only_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mode"
    served = Served(mode_file=str(path))
    served.operations.tick()
    assert served.runtime.mode == "avsg" and served.copied() == 0
    path.write_text("full\n")
    served.operations.tick()
    assert served.runtime.mode == "full" and served.copied() == served.copied() == 16 * LAYERS
    path.write_text("of")
    served.operations.tick()
    assert served.runtime.mode == "full" and "says 'of', but avsg or full is allowed" in caplog.text
    path.write_text("avsg")
    served.operations.tick()
    assert served.runtime.mode == "avsg"
    assert served.copied() == 16 * LAYERS and served.copied() == 0, "back in avsg, every row starts empty"
    served.runtime.set_mode("full")
    served.operations.tick()
    assert served.runtime.mode == "full", "an old text does not undo what the shadow check did"


def test_the_metrics_file_is_written_at_its_period_with_gauges(tmp_path: Path) -> None:
    served = Served(metrics_file=str(tmp_path / "avsg-{rank}.prom"), metrics_seconds=10, mode="full")
    served.operations.tick()
    text = (tmp_path / "avsg-0.prom").read_text()
    for sample in ("avsg_rows", "avsg_rows_in_use", "avsg_full_offload", "avsg_steps_total"):
        assert f'\n{sample}{{rank="0"}} {2 if sample == "avsg_rows" else 1}\n' in f"\n{text}"
    served.step()
    served.now = 9.9
    served.operations.tick()
    assert (tmp_path / "avsg-0.prom").read_text() == text
    served.now = 10.0
    served.operations.tick()
    assert 'avsg_steps_total{rank="0"} 2' in (tmp_path / "avsg-0.prom").read_text()


def test_the_background_thread_opens_no_other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch gives a new thread device 0, where each rank would take memory of the first."""
    served, chosen = Served(), []
    chip = SimpleNamespace(type="chip", index=5)
    monkeypatch.setattr(torch, "chip", SimpleNamespace(set_device=chosen.append), raising=False)
    served.runtime.device = chip
    served.operations.tick()
    assert chosen == [chip]


def test_the_background_thread_does_what_tick_does_and_the_log_says_what_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("avsg.mindie.operations.TICK_SECONDS", 0.001)
    path = tmp_path / "avsg.prom"
    served = Served(metrics_file=str(path))
    with caplog.at_level("INFO", "avsg"):
        served.operations.start()
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    served.operations.stop()
    assert "avsg_hits_total" in path.read_text()
    assert "AVSG serves 3 layers in 2 groups: 2 rows of 128 slots each, mode avsg." in caplog.text
