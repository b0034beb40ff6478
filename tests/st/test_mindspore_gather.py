# SPDX-License-Identifier: Apache-2.0
"""SparseGather equals the reference, bit for bit, in PyNative, under ms.jit and in GRAPH_MODE."""

import threading

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops
from mindspore_case import CONFIG, MODES, ROW_SHAPES, Expected, Steps, make_host, runner, tensor

from avsg import layout
from avsg.mindspore import LOCK, SparseGather, compiled


class Fused(nn.Cell):
    """One step, and what attention would read right after it."""

    def __init__(self, gather: SparseGather) -> None:
        super().__init__()
        self.gather = gather

    def construct(self, topk_tokens, verified_lens, seq_lens, leases, rows, block_table):
        plan, load_counters = self.gather(topk_tokens, verified_lens, seq_lens, leases, rows, block_table)
        at = ops.maximum(plan[0], 0) + (rows * self.gather.config.num_slots).reshape((-1, 1, 1))
        read = ops.gather(self.gather.layer_device_kv()[0], at, 0)
        return plan, load_counters, read


class Group(nn.Cell):
    """A group of three layers: one match, a load with fresh rows and a store for each layer."""

    def __init__(self, gather: SparseGather) -> None:
        super().__init__()
        self.gather = gather

    def construct(
        self, topk_tokens, verified_lens, seq_lens, leases, rows, block_table, fresh, positions, entries
    ):
        plan = self.gather.match(topk_tokens, verified_lens, seq_lens, leases, rows)
        for layer in range(3):
            self.gather.load(plan, block_table, fresh[layer], layer)
            flat = (
                fresh[layer][0].reshape((-1, *ROW_SHAPES[0])),
                fresh[layer][1].reshape((-1, *ROW_SHAPES[1])),
            )
            self.gather.store(flat, positions, entries, block_table, layer)
        return plan


@pytest.mark.parametrize("library", ["cpu", "cpu-checked"])
@pytest.mark.parametrize("mode", MODES)
def test_fused_step_equals_the_reference(mode: str, library: str) -> None:
    seed = 1
    steps, host = Steps(seed), make_host(np.random.default_rng(seed))
    cell = Fused(SparseGather(CONFIG, host, library=library))
    step, expected = runner(cell, mode), Expected(host)
    for t in range(24):
        arguments = steps.arguments()
        outputs = step(*(tensor(value) for value in arguments.values()), tensor(steps.block_table))
        plan = expected.step(arguments, steps.block_table)
        expected.assert_equal(cell.gather, plan, outputs[0], f"seed {seed}, step {t}")
        assert outputs[1].asnumpy().tolist() == [plan.num_misses.sum(), 0]
        tokens = arguments["topk_tokens"]
        for entry in range(2):
            blocks = steps.block_table[entry][tokens[entry] // 16]
            wanted = host[0][0][blocks, tokens[entry] % 16]
            assert np.array_equal(outputs[2].asnumpy()[entry], wanted), (
                f"seed {seed}, step {t}, entry {entry}"
            )


@pytest.mark.parametrize("mode", MODES)
def test_group_of_layers_shares_one_match(mode: str) -> None:
    seed = 2
    rng = np.random.default_rng(seed)
    steps, host = Steps(seed), make_host(rng, num_layers=3)
    ours = [[kv.copy() for kv in layer] for layer in host]
    cell = Group(SparseGather(CONFIG, ours))
    step, expected = runner(cell, mode), Expected(host)
    entries = np.repeat(np.arange(2, dtype=np.int32), 2)
    for t in range(12):
        arguments = steps.arguments()
        fresh = [[rng.integers(0, 256, (2, 2, *shape), dtype=np.uint8) for shape in ROW_SHAPES] for _ in host]
        positions = (arguments["verified_lens"][:, None] - 1 + np.arange(2)).astype(np.int32).reshape(-1)
        plan = expected.pool.match(**arguments)
        for layer in range(3):
            expected.pool.load(
                plan, host[layer], expected.device[layer], block_table=steps.block_table, fresh=fresh[layer]
            )
            flat = [rows.reshape(4, *rows.shape[2:]) for rows in fresh[layer]]
            expected.pool.store(
                flat, host[layer], positions=positions, entries=entries, block_table=steps.block_table
            )
        outputs = step(
            *(tensor(value) for value in arguments.values()),
            tensor(steps.block_table),
            tuple(tuple(ms.Tensor(rows) for rows in layer) for layer in fresh),
            tensor(positions),
            tensor(entries),
        )
        expected.assert_equal(cell.gather, plan, outputs, f"seed {seed}, step {t}")
        for got, wanted in zip(ours, host):
            assert all(np.array_equal(a, b) for a, b in zip(got, wanted)), (
                f"seed {seed}, step {t}: host_kv differs"
            )


class Loop(nn.Cell):
    """A decode loop inside the graph: its length is a tensor."""

    def __init__(self, gather: SparseGather) -> None:
        super().__init__()
        self.gather = gather
        self.first = ms.Tensor(0, ms.int32)

    def construct(self, num_steps, topk_tokens, verified_lens, seq_lens, leases, rows, block_table):
        t = self.first
        counters = ops.zeros((2, 8), ms.int32)
        read = ops.zeros((2, 2, 32, 64), ms.uint8)
        while t < num_steps:
            plan, _ = self.gather(topk_tokens[t], verified_lens[t], seq_lens[t], leases, rows, block_table)
            at = ops.maximum(plan[0], 0) + (rows * 128).reshape((-1, 1, 1))
            read = ops.gather(self.gather.layer_device_kv()[0], at, 0)
            counters = counters + plan[4]
            t = t + 1
        return counters, read


@pytest.mark.parametrize("mode", MODES)
def test_tensor_while_loop_keeps_the_state(mode: str) -> None:
    seed = 3
    steps, host = Steps(seed), make_host(np.random.default_rng(seed))
    cell, expected = Loop(SparseGather(CONFIG, host)), Expected(host)
    loop = runner(cell, mode)
    for _ in range(2):
        listed = [steps.arguments() for _ in range(8)]
        names = ("topk_tokens", "verified_lens", "seq_lens")
        stacked = [tensor([arguments[name] for arguments in listed]) for name in names]
        counters, read = loop(
            ms.Tensor(8, ms.int32),
            *stacked,
            tensor(steps.leases),
            tensor(steps.rows),
            tensor(steps.block_table),
        )
        plans = [expected.step(arguments, steps.block_table) for arguments in listed]
        assert np.array_equal(counters.asnumpy(), sum(plan.counters for plan in plans))
        expected.assert_equal(cell.gather, plans[-1], (), f"seed {seed}")
        tokens = listed[-1]["topk_tokens"]
        blocks = np.take_along_axis(steps.block_table[:, None], tokens // 16, axis=2)
        assert np.array_equal(read.asnumpy(), host[0][0][blocks, tokens % 16])


class Two(nn.Cell):
    """Two pools in one graph, called with the same arguments."""

    def __init__(self, first: SparseGather, second: SparseGather) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def construct(self, topk_tokens, verified_lens, seq_lens, leases, rows, block_table):
        step = (topk_tokens, verified_lens, seq_lens, leases, rows)
        one, _ = self.first(*step, block_table)
        two = self.second.match(*step)
        self.second.load(two, block_table)
        again = self.second.match(*step)
        return one, again


@pytest.mark.parametrize("mode", MODES)
def test_two_cells_do_not_disturb_each_other_and_no_call_is_merged(mode: str) -> None:
    """Equal calls on two pools, and a repeated one whose plan nobody reads, all run."""
    seed = 4
    steps, host = Steps(seed), make_host(np.random.default_rng(seed), num_layers=2)
    cell = Two(SparseGather(CONFIG, host[:1]), SparseGather(CONFIG, host[1:]))
    step, first, second = runner(cell, mode), Expected(host[:1]), Expected(host[1:])
    for t in range(6):
        arguments = steps.arguments()
        one, again = step(*(tensor(value) for value in arguments.values()), tensor(steps.block_table))
        first.assert_equal(
            cell.first, first.step(arguments, steps.block_table), one, f"seed {seed}, step {t}, first"
        )
        second.step(arguments, steps.block_table)
        second.assert_equal(
            cell.second, second.pool.match(**arguments), again, f"seed {seed}, step {t}, second"
        )


def run_thread(mode: str, seed: int, failures: list[str]) -> None:
    """One pool in one thread; MindSpore's own operators are not safe in two threads, so LOCK surrounds
    them."""
    try:
        steps, host = Steps(seed), make_host(np.random.default_rng(seed))
        with LOCK:
            gather = SparseGather(CONFIG, host)
            step = gather if mode == "pynative" else compiled(gather)
        expected = Expected(host)
        for t in range(40):
            arguments = steps.arguments()
            with LOCK:
                tensors = [tensor(value) for value in (*arguments.values(), steps.block_table)]
            plan, _ = step(*tensors)
            with LOCK:
                expected.assert_equal(
                    gather, expected.step(arguments, steps.block_table), plan, f"seed {seed}, {t}"
                )
    except BaseException as error:  # a thread's exception would be lost
        failures.append(repr(error))


@pytest.mark.parametrize("mode", ["pynative", "jit"])
def test_two_threads_may_use_two_pools(mode: str) -> None:
    failures: list[str] = []
    threads = [threading.Thread(target=run_thread, args=(mode, seed, failures)) for seed in (5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_views_and_strided_tensors_are_read_right() -> None:
    """Only memory that is written must be whole; arguments may be slices."""
    host = make_host(np.random.default_rng(7))
    gather, steps, expected = SparseGather(CONFIG, host), Steps(7), Expected(host)
    arguments = steps.arguments()
    doubled = {name: np.repeat(value[None], 2, axis=0) for name, value in arguments.items()}
    doubled["topk_tokens"] = np.repeat(doubled["topk_tokens"], 2, axis=-1)
    tensors = {name: tensor(value)[1] for name, value in doubled.items()}
    tensors["topk_tokens"] = tensors["topk_tokens"][:, :, ::2]
    plan, _ = gather(*tensors.values(), tensor(steps.block_table))
    expected.assert_equal(gather, expected.step(arguments, steps.block_table), plan, "seed 7")


def test_reset_empties_every_row() -> None:
    host, steps = make_host(np.random.default_rng(8)), Steps(8)
    gather = SparseGather(CONFIG, host)
    arguments = [tensor(value) for value in steps.arguments().values()]
    gather(*arguments, tensor(steps.block_table))
    gather.reset()
    plan, _ = gather(*arguments, tensor(steps.block_table))
    flags = plan[4].asnumpy()[:, layout.COUNTER_FLAGS]
    assert (flags & layout.FLAG_RESET).all()
