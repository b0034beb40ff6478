# SPDX-License-Identifier: Apache-2.0
"""The torch operators in torch's own checks, under FakeTensor and under torch.compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_case import CONFIG, Arguments, Steps

import avsg
from avsg.torch_ops import TorchPool

OPERATORS = ("match", "load", "step", "store")


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_passes_the_checks_of_torch(name):
    """Schema against what is written, FakeTensor against CPU, autograd, AOT dispatch with dynamic shapes."""
    operator, arguments = getattr(torch.ops.avsg, name).default, Arguments()
    results = torch.library.opcheck(operator, tuple(arguments[a.name] for a in operator._schema.arguments))
    assert set(results.values()) == {"SUCCESS"} and len(results) == 4


@pytest.mark.parametrize("name", OPERATORS)
def test_schema_marks_what_is_written_and_nothing_else(name):
    """A missing mark would let torch.compile drop or reorder a call."""
    written = {
        "slots",
        "miss_tokens",
        "miss_slots",
        "num_misses",
        "counters",
        "plan_rows",
        "plan_verified_lens",
    }
    expected = {
        "match": {"state", "workspace", *written},
        "load": {"state", "workspace", "load_counters", "device_kv"},
        "step": {"state", "workspace", "load_counters", "device_kv", *written},
        "store": {"host_kv", "store_counters", "workspace"},
    }
    schema = getattr(torch.ops.avsg, name).default._schema
    assert {a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write} == expected[name]
    assert not schema.returns


@pytest.mark.parametrize("name", OPERATORS)
def test_fake_tensors_are_checked_and_touch_no_memory(name):
    operator, arguments = getattr(torch.ops.avsg, name).default, Arguments()
    values = [arguments[a.name] for a in operator._schema.arguments]
    before = [t.clone() for t in arguments.tensors()]
    with FakeTensorMode() as mode:
        fakes = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, values)
        operator(*fakes)
        short = [
            value[:1] if a.name == "block_table" else value
            for a, value in zip(operator._schema.arguments, fakes)
        ]
        if name in ("load", "step"):
            with pytest.raises(ValueError, match="block_table.shape is"):
                operator(*short)
    assert all(torch.equal(now, then) for now, then in zip(arguments.tensors(), before))


def test_meta_tensors_give_the_same_refusals():
    arguments = Arguments()
    operator = torch.ops.avsg.match.default
    values = [arguments[a.name] for a in operator._schema.arguments]
    meta = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in values]
    assert operator(*meta) is None
    meta[1] = meta[1].long()
    with pytest.raises(TypeError, match="verified_lens.dtype is int64, but int32 is allowed"):
        operator(*meta)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_step_equals_the_reference(backend):
    """One graph for all steps: store, step with fresh rows, and what attention reads, in this order."""
    if backend == "inductor" and " " in torch.__file__:
        pytest.skip("inductor's compiler commands split a path with a space: run the tests elsewhere")
    steps, pool = Steps(8), TorchPool(CONFIG)
    device_kv = [pool.device_kv(host) for host in steps.host_kv]
    graphs = torch._dynamo.testing.CompileCounterWithBackend(backend)

    @torch.compile(backend=graphs, fullgraph=True)
    def decode(topk_tokens, verified_lens, seq_lens, leases, rows, positions, entries, new_rows):
        pool.store(positions, entries, steps.block_table, new_rows, steps.host_kv)
        fresh = [rows.view(2, CONFIG.num_queries, *rows.shape[1:]) for rows in new_rows]
        plan = pool.step(
            topk_tokens,
            verified_lens,
            seq_lens,
            leases,
            rows,
            steps.block_table,
            steps.host_kv,
            device_kv,
            fresh,
        )
        at = rows[:, None, None] * CONFIG.num_slots + plan.slots
        return plan.slots + 0, [device[at] for device in device_kv]

    reference = avsg.Pool(CONFIG, library="reference")
    host_kv = [host.numpy().copy() for host in steps.host_kv]
    expected_kv = [device.numpy().copy() for device in device_kv]
    table = steps.block_table.numpy()
    addresses = [t.data_ptr() for t in (pool.state, *pool.plan(2, 2), *device_kv)]
    for t in range(6):
        inputs = steps.inputs()
        positions = (inputs["verified_lens"][:, None] - 1 + torch.arange(2)).flatten().int()
        entries = torch.tensor([0, 0, 1, 1], dtype=torch.int32)
        new_rows = [rows.view(4, *rows.shape[2:]) for rows in steps.fresh()]
        slots, read = decode(*inputs.values(), positions, entries, new_rows)
        lines = {name: value.numpy() for name, value in inputs.items()}
        new = [rows.numpy() for rows in new_rows]
        reference.store(new, host_kv, positions=positions.numpy(), entries=entries.numpy(), block_table=table)
        fresh = [rows.reshape(2, 2, *rows.shape[1:]) for rows in new]
        plan = reference.step(
            lines.pop("topk_tokens"), host_kv, expected_kv, block_table=table, fresh=fresh, **lines
        )
        np.testing.assert_array_equal(slots.numpy(), plan.slots, f"step {t}")
        at = lines["rows"][:, None, None] * CONFIG.num_slots + plan.slots
        for got, device, expected in zip(read, device_kv, expected_kv):
            np.testing.assert_array_equal(got.numpy(), expected[at], f"step {t}")
            np.testing.assert_array_equal(device.numpy(), expected, f"step {t}")
        np.testing.assert_array_equal(pool.load_counters.numpy(), [plan.num_misses.sum(), 0], f"step {t}")
    assert graphs.frame_count == 1
    assert [t.data_ptr() for t in (pool.state, *pool.plan(2, 2), *device_kv)] == addresses
