# SPDX-License-Identifier: Apache-2.0
"""Metrics: sums of what the operators counted, at fixed addresses, and their two forms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is missing: run these tests in .venv-torch (scripts/test.sh)"
)

import avsg  # noqa: E402
from avsg.mindie.metrics import DEVICE_COUNTERS, HOST_COUNTERS, HOST_GAUGES, Metrics  # noqa: E402
from avsg.torch_ops import TorchPool  # noqa: E402

pytestmark = pytest.mark.torch

GROUPS = [[0], [1, 2, 3]]
FLAGS = 1 | 2 | 16


def int32(values: list) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def filled() -> Metrics:
    metrics = Metrics(GROUPS, row_bytes=1152, rank=3)
    metrics.record_match(0, int32([[100, 90, 10, 1, 2, 3, 4, FLAGS], [50, 45, 5, 0, 0, 0, 1, 2]]))
    metrics.record_match(1, int32([[8, 0, 8, 0, 0, 0, 0, 1], [8, 0, 8, 0, 0, 0, 0, 1]]))
    metrics.record_load(0, int32([15, 1]))
    metrics.record_load(1, int32([[16, 0], [16, 0], [16, 2]]))
    metrics.record_store(1, int32([[2, 1], [2, 1], [2, 1]]))
    return metrics


def test_a_snapshot_adds_up_entries_layers_and_calls() -> None:
    metrics = filled()
    metrics.record_match(0, int32([[10, 10, 0, 0, 0, 0, 0, 0]]))
    snapshot = metrics.snapshot()
    first, second = snapshot["groups"]
    assert snapshot["steps"] == 2
    assert first == {
        "layers": [0],
        "valid_tokens": 160,
        "hits": 145,
        "misses": 15,
        "bad_tokens": 1,
        "invalidated": 2,
        "unlinked": 3,
        "floor_advance": 5,
        "resets": 1,
        "rows_copied": 15,
        "bad_blocks": 1,
        "rows_stored": 0,
        "rows_skipped": 0,
        "bytes_copied": 15 * 1152,
        "hit_rate": 145 / 160,
    }
    assert (second["resets"], second["rows_copied"], second["bad_blocks"]) == (2, 48, 2)
    assert (second["rows_stored"], second["rows_skipped"], second["hit_rate"]) == (6, 3, 0.0)


def test_the_counters_of_a_pool_reach_the_snapshot() -> None:
    """SPEC.md "Counters": 8 misses, then 8 hits, under one reset."""
    pool = TorchPool(avsg.PoolConfig(num_rows=2, num_slots=64, top_k=8))
    metrics = Metrics([[0]], row_bytes=32)
    host_kv, table = torch.zeros((1, 64, 32), dtype=torch.uint8), int32([[0], [0]])
    device_kv = [pool.device_kv(host_kv)]
    for _ in range(2):
        topk = torch.arange(8, dtype=torch.int32).repeat(2, 1, 1)
        plan = pool.match(topk, int32([9, 9]), int32([9, 9]), int32([1, 0]), int32([0, -1]))
        metrics.record_match(0, plan.counters)
        metrics.record_load(0, pool.load(plan, table, [host_kv], device_kv))
    (group,) = metrics.snapshot()["groups"]
    names = ("valid_tokens", "hits", "misses", "resets", "rows_copied", "bytes_copied")
    assert [group[name] for name in names] == [16, 8, 8, 1, 8, 256]


def test_sums_pass_32_bits() -> None:
    metrics = Metrics([[0]], row_bytes=1)
    for _ in range(3):
        metrics.record_load(0, int32([[2**31 - 1, 0], [2**31 - 1, 0]]))
    assert metrics.snapshot()["groups"][0]["rows_copied"] == 6 * (2**31 - 1)


def test_recording_moves_nothing_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = filled()
    address = metrics.totals.data_ptr()
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__int__"):
        monkeypatch.setattr(torch.Tensor, name, lambda *_, name=name: pytest.fail(f"a host sync: {name}"))
    metrics.record_match(0, int32([[1] * 8]))
    metrics.record_load(0, int32([1, 1]))
    metrics.record_store(0, int32([1, 1]))
    assert metrics.totals.data_ptr() == address


def test_recording_the_same_tensors_again_adds_their_present_contents() -> None:
    """A captured graph replays the operators with new contents at the same addresses."""
    metrics, counters = Metrics([[0]], row_bytes=1), int32([[1] * 8])
    metrics.record_match(0, counters)
    counters.fill_(5)
    metrics.record_match(0, counters)
    assert metrics.snapshot()["groups"][0]["hits"] == 6


def test_reset_forgets_the_warm_up_and_keeps_gauges() -> None:
    metrics = filled()
    metrics.count("rows_taken", 4)
    metrics.gauge("rows", 32)
    metrics.reset()
    snapshot = metrics.snapshot()
    assert not metrics.totals.any() and snapshot["steps"] == snapshot["rows_taken"] == 0
    assert snapshot["rows"] == 32


def test_host_values_are_counted_and_set_by_known_names_only() -> None:
    metrics = Metrics(GROUPS, row_bytes=1)
    metrics.count("mode_switches")
    metrics.count("mode_switches", 2)
    metrics.gauge("rows_in_use", 7)
    metrics.gauge("rows_in_use", 5)
    assert metrics.snapshot()["mode_switches"] == 3 and metrics.snapshot()["rows_in_use"] == 5
    for call, name in ((metrics.count, "rows"), (metrics.gauge, "mode_switches"), (metrics.count, "x")):
        with pytest.raises(KeyError, match="no metric is called"):
            call(name, 1)


def test_prometheus_text_has_every_value_once_with_its_labels() -> None:
    metrics = filled()
    metrics.gauge("full_offload", 1)
    lines = metrics.prometheus().splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert samples['avsg_hits_total{rank="3",group="0",layers="0"}'] == "135"
    assert samples['avsg_resets_total{rank="3",group="1",layers="1-3"}'] == "2"
    assert samples['avsg_bytes_copied_total{rank="3",group="1",layers="1-3"}'] == str(48 * 1152)
    assert samples['avsg_steps_total{rank="3"}'] == "1" and samples['avsg_full_offload{rank="3"}'] == "1"
    assert len(samples) == 1 + 2 * (len(DEVICE_COUNTERS) + 1) + len(HOST_COUNTERS) + len(HOST_GAUGES)
    kinds = [line.split()[2:] for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len({name for name, _ in kinds}) == sum(line.startswith("# HELP") for line in lines)
    assert all((kind == "counter") == name.endswith("_total") for name, kind in kinds)
    assert all(re.fullmatch(r'[a-z_]+\{([a-z]+="[^"\\]*",?)+\} \d+', f"{k} {v}") for k, v in samples.items())


def test_a_written_file_is_replaced_whole_and_named_by_rank(tmp_path: Path) -> None:
    metrics = filled()
    metrics.write(tmp_path / "avsg-{rank}.prom")
    metrics.record_load(0, int32([1, 0]))
    metrics.write(tmp_path / "avsg-{rank}.prom")
    (file,) = tmp_path.iterdir()
    assert file.name == "avsg-3.prom" and file.read_text() == metrics.prometheus()
