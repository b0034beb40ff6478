# SPDX-License-Identifier: Apache-2.0
"""HostKv: shapes, what load and store see of it, addresses for a KV mover, refusals, and its end."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is missing: run these tests in .venv-torch (scripts/test.sh)"
)

import avsg  # noqa: E402
from avsg.mindie import host_kv  # noqa: E402
from avsg.mindie.host_kv import HostKv, available_host_bytes  # noqa: E402
from avsg.torch_ops import TorchPool  # noqa: E402

pytestmark = pytest.mark.torch


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_layers_are_zeroed_tensors_of_their_own() -> None:
    kv = HostKv(3, 5, block_size=16, nope_dim=32, rope_dim=8, dtype=torch.float16)
    nope, rope = kv.layer(1)
    assert nope.shape == (5, 16, 1, 32) and rope.shape == (5, 16, 1, 8) and nope.dtype == torch.float16
    assert kv.total_bytes == 3 * sum(payload.nbytes for payload in kv.layer(0))
    assert not nope.any() and not rope.any() and nope.is_contiguous()
    nope.fill_(1)
    assert not kv.layer(0)[0].any() and not kv.layer(2)[0].any() and not rope.any()
    assert kv.layer(1)[0].data_ptr() == nope.data_ptr()


def test_rows_stored_by_a_prefill_are_the_rows_a_step_loads() -> None:
    kv = HostKv(1, 4, block_size=16)
    pool = TorchPool(avsg.PoolConfig(num_rows=1, num_slots=64, top_k=8))
    block_table, num_tokens = int32(2, 0).view(1, 2), 20
    new_rows = [
        torch.randint(1, 100, (num_tokens, 1, payload.shape[-1])).to(kv.dtype) for payload in kv.layer(0)
    ]
    positions, entries = (
        torch.arange(num_tokens, dtype=torch.int32),
        torch.zeros(num_tokens, dtype=torch.int32),
    )
    pool.store(positions, entries, block_table, new_rows, list(kv.layer(0)))
    device_kv = [pool.device_kv(payload) for payload in kv.layer(0)]
    topk = int32(0, 3, 15, 16, 17, 19, -1, -1).view(1, 1, 8)
    plan = pool.match(topk, int32(20), int32(20), int32(1), int32(0))
    pool.load(plan, block_table, list(kv.layer(0)), device_kv)
    slots = plan.slots[0, 0, :6].long()
    for rows, new in zip(device_kv, new_rows):
        assert torch.equal(rows[slots], new[topk[0, 0, :6].long()])


def test_a_mover_that_writes_to_the_addresses_fills_the_layers() -> None:
    kv = HostKv(2, 3, block_size=16)
    regions = kv.addresses()
    assert [(region.layer, region.payload) for region in regions] == [
        (0, "nope"),
        (0, "rope"),
        (1, "nope"),
        (1, "rope"),
    ]
    region = regions[3]
    assert (region.num_blocks, region.block_bytes) == (3, 16 * 64 * 2)
    ctypes.memset(region.address + 2 * region.block_bytes, 0x3F, region.block_bytes)
    rope = kv.layer(1)[1].view(torch.int16)
    assert (rope[2] == 0x3F3F).all() and not rope[:2].any() and not kv.layer(0)[1].any()


def test_a_tensor_outlives_close_and_the_class_does_not() -> None:
    kv = HostKv(1, 2, block_size=16)
    nope, _ = kv.layer(0)
    kv.close()
    kv.close()
    nope.fill_(3)
    assert (nope == 3).all()
    for use in (lambda: kv.layer(0), kv.addresses):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_queued_steps_are_done_before_the_memory_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """MindIE allocates anew after its warm-up, whose last step an NPU may still be executing."""
    kv, seen = HostKv(1, 2, block_size=16), []
    chip = SimpleNamespace(synchronize=lambda device: seen.append(kv.layer(0)[0].shape[0]))
    monkeypatch.setattr(torch, "chip", chip, raising=False)
    kv._device = SimpleNamespace(type="chip")
    kv.close()
    kv.close()
    assert seen == [2]


@pytest.mark.parametrize("name", ["num_layers", "num_blocks", "block_size", "nope_dim", "rope_dim"])
def test_a_size_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        HostKv(**{"num_layers": 1, "num_blocks": 1, name: 0})


def test_more_than_the_machine_has_is_refused_before_anything_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kv = HostKv(2, 4, block_size=16)
    monkeypatch.setattr(host_kv, "available_host_bytes", lambda: kv.total_bytes)
    HostKv(2, 4, block_size=16)
    monkeypatch.setattr(host_kv, "available_host_bytes", lambda: kv.total_bytes - 1)
    monkeypatch.setattr(host_kv.torch_ops, "host_zeros", lambda *_, **__: pytest.fail("allocated"))
    with pytest.raises(MemoryError, match="host_gib"):
        HostKv(2, 4, block_size=16)


def test_available_memory_counts_free_huge_pages(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 900 kB\nMemAvailable: 100 kB\nHugePages_Free: 3\nHugepagesize: 2048 kB\n")
    assert available_host_bytes(meminfo) == 1024 * (100 + 3 * 2048)
    meminfo.write_text("MemTotal: 900 kB\n")
    assert available_host_bytes(meminfo) is None and available_host_bytes(tmp_path / "none") is None
