# SPDX-License-Identifier: Apache-2.0
"""The torch operators equal golden vectors and reference to the bit, and write where the caller says."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from random_trace import Trace
from test_agree import Replica
from torch_case import CONFIG, LIBRARIES, Steps, TorchReplica, plan_arrays, poison

import avsg
from avsg import torch_ops
from avsg.torch_ops import TorchPool

GOLDEN = Path(__file__).parents[1] / "golden"
VECTORS = sorted(path.stem for path in GOLDEN.glob("*.npz"))


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_match_equals_the_vector(library, vector):
    """SPEC.md "Conformance files"."""
    with np.load(GOLDEN / f"{vector}.npz") as file:
        golden = dict(file)
    num_slots, top_k, num_queries, max_life, num_entries, num_rows = golden["config"].tolist()
    config = avsg.PoolConfig(num_rows, num_slots, top_k, num_queries, max_life)
    pool = TorchPool(config, max_entries=num_entries, library=library)
    used = pool.sizes.state_row_bytes
    for t in range(len(golden["topk"])):
        poison(pool.plan(num_entries, num_queries))
        names = ("topk", "verified_len", "seq_len", "lease", "row")
        got = plan_arrays(pool.match(*(torch.from_numpy(golden[name][t]) for name in names)))
        where = f"{vector}, step {t}"
        np.testing.assert_array_equal(got["counters"], golden["counters"][t], where)
        np.testing.assert_array_equal(got["num_misses"], golden["num_misses"][t], where)
        np.testing.assert_array_equal(got["slots"], golden["slots"][t], where)
        listed = np.arange(num_queries * top_k) < got["num_misses"][:, None]
        np.testing.assert_array_equal(got["miss_tokens"], golden["miss_token"][t][listed], where)
        np.testing.assert_array_equal(got["miss_slots"], golden["miss_slot"][t][listed], where)
        crcs = [zlib.crc32(row[:used]) for row in pool.state.numpy()]
        np.testing.assert_array_equal(crcs, golden["state_crc32"][t], where)


@pytest.mark.parametrize("first", range(0, 60, 20))
@pytest.mark.parametrize("library", LIBRARIES)
def test_operators_equal_the_reference_on_random_traces(library, first):
    for seed in range(1000 + first, 1000 + first + 20):
        trace = Trace(seed)
        replica, reference = TorchReplica(trace, library), Replica(trace, "reference")
        for t, call in enumerate(trace.calls(6)):
            got = replica.run(call)
            for what, expected in reference.run(call).items():
                where = f"seed {seed}, step {t}, {replica.name}: {what} differs from the reference"
                np.testing.assert_array_equal(got[what], expected, where)


def test_attention_reads_the_hosts_rows():
    steps, pool = Steps(0), TorchPool(CONFIG)
    device_kv = [pool.device_kv(host) for host in steps.host_kv]
    for _ in range(20):
        inputs = steps.inputs()
        plan = pool.step(*inputs.values(), steps.block_table, steps.host_kv, device_kv)
        for entry, row in enumerate(inputs["rows"].tolist()):
            tokens = inputs["topk_tokens"][entry].long()
            blocks = steps.block_table[entry][tokens // steps.BLOCK_SIZE].long()
            for host, device in zip(steps.host_kv, device_kv):
                read = device[row * CONFIG.num_slots + plan.slots[entry].long()]
                assert torch.equal(read, host[blocks, tokens % steps.BLOCK_SIZE])


def test_addresses_stay_while_contents_change():
    """What a captured graph needs: the same tensors in every call, filled anew (SPEC.md "One step")."""
    steps, pool = Steps(1), TorchPool(CONFIG)
    static, device_kv = steps.inputs(), [pool.device_kv(host) for host in steps.host_kv]
    kept = [*static.values(), *pool.plan(2, 2), pool.state, pool.workspace, pool.load_counters, *device_kv]
    addresses = [t.data_ptr() for t in kept]
    reference = avsg.Pool(CONFIG, library="reference")
    for t in range(12):
        if t:
            for tensor, value in zip(static.values(), steps.inputs().values()):
                tensor.copy_(value)
        plan = pool.step(*static.values(), steps.block_table, steps.host_kv, device_kv)
        topk, *lines = (value.numpy() for value in static.values())
        expected = reference.match(topk, **dict(zip(list(static)[1:], lines)))
        np.testing.assert_array_equal(plan.slots.numpy(), expected.slots, f"step {t}")
        assert plan is pool.plan(2, 2)
    assert [t.data_ptr() for t in kept] == addresses


def test_plans_of_every_size_share_their_addresses():
    pool = TorchPool(CONFIG, max_entries=5)
    for shape in ((1, 1), (5, 1), (3, 2), (5, 2)):
        plan = pool.plan(*shape)
        assert plan.slots.shape == (*shape, CONFIG.top_k) and all(t.is_contiguous() for t in plan)
        assert [t.data_ptr() for t in plan] == [t.data_ptr() for t in pool.plan(5, 2)]


def test_a_call_allocates_no_tensor():
    steps, pool = Steps(2), TorchPool(CONFIG)
    device_kv, fresh = [pool.device_kv(host) for host in steps.host_kv], steps.fresh()
    calls = [steps.inputs() for _ in range(4)]
    pool.plan(2, 2)
    with torch.profiler.profile(profile_memory=True) as profile:
        for inputs in calls:
            pool.step(*inputs.values(), steps.block_table, steps.host_kv, device_kv, fresh)
    names = {event.name for event in profile.events()}
    assert "avsg::step" in names
    assert sum(abs(event.self_cpu_memory_usage) for event in profile.events()) == 0


def test_layers_with_own_counters_keep_them_apart():
    steps, pool = Steps(3), TorchPool(CONFIG)
    device_kv, bad_table = [pool.device_kv(host) for host in steps.host_kv], steps.block_table.clone()
    bad_table[0] = -1
    plan = pool.match(*steps.inputs().values())
    own = torch.zeros(2, dtype=torch.int32)
    pool.load(plan, steps.block_table, steps.host_kv, device_kv)
    assert pool.load(plan, bad_table, steps.host_kv, device_kv, load_counters=own) is own
    misses = plan.num_misses.tolist()
    assert pool.load_counters.tolist() == [sum(misses), 0] and own.tolist() == [misses[1], misses[0]]


def test_reset_rows_start_empty():
    steps, pool = Steps(4), TorchPool(CONFIG)
    inputs = steps.inputs()
    pool.match(*inputs.values())
    for rows, hits in (([2], [False, True]), (0, [True, False]), (torch.tensor([0, 2]), [False, False])):
        pool.reset(rows)
        counters = pool.match(*inputs.values()).counters
        assert [bool(flag & 1) for flag in counters[:, 7]] == [not hit for hit in hits], f"rows {rows}"
    pool.reset()
    assert not pool.state.any()


def test_host_zeros_is_memory_that_a_load_reads():
    steps, pool = Steps(5), TorchPool(CONFIG)
    host_kv = [torch_ops.host_zeros(host.shape, host.dtype) for host in steps.host_kv]
    assert all(not host.any() and host.is_cpu and host.data_ptr() % 4096 == 0 for host in host_kv)
    for host, values in zip(host_kv, steps.host_kv):
        host.copy_(values)
    inputs, copies = steps.inputs(), []
    for memory in (host_kv, steps.host_kv):
        pool.reset()
        copies.append([pool.device_kv(host) for host in memory])
        pool.step(*inputs.values(), steps.block_table, memory, copies[-1])
    assert all(torch.equal(a, b) for a, b in zip(*copies)) and copies[0][0].any()
    view = host_kv[0][1]
    host_kv.clear()
    assert torch.equal(view, steps.host_kv[0][1]), "a view keeps the memory alive"


def test_any_dtype_is_copied_by_its_bytes():
    steps, pool = Steps(6), TorchPool(CONFIG)
    host = steps.host_kv[0].view(torch.bfloat16)
    inputs, copies = steps.inputs(), []
    for memory in (host, steps.host_kv[0]):
        pool.reset()
        copies.append(pool.device_kv(memory))
        pool.step(*inputs.values(), steps.block_table, [memory], [copies[-1]])
    assert copies[0].dtype == torch.bfloat16 and torch.equal(copies[0].view(torch.uint8), copies[1])
