# SPDX-License-Identifier: Apache-2.0
"""Cases of the torch tests: one step's tensors, and a random trace's replica that runs the operators."""

from __future__ import annotations

import numpy as np
import torch
from random_trace import Call, Trace

import avsg
from avsg import layout, torch_ops

LIBRARIES = ("cpu", "cpu-checked")
CONFIG = avsg.PoolConfig(num_rows=3, num_slots=128, top_k=32, num_queries=2)
ROW_SHAPES = ((64,), (2, 16))  # 64 and 32 bytes of uint8
POISON = 0x5A5A5A5A
PLAN = ("slots", "miss_tokens", "miss_slots", "num_misses", "counters", "plan_rows", "plan_verified_lens")
STEP = ("topk_tokens", "verified_lens", "seq_lens", "leases", "rows")

torch_ops.build()
torch_ops.load()


def tensor(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Steps:
    """Two growing requests: one step's tensors after another, drawn from a seed."""

    BLOCK_SIZE, MAX_BLOCKS = 16, 24

    def __init__(self, seed: int, config: avsg.PoolConfig = CONFIG) -> None:
        self.rng, self.config = np.random.default_rng(seed), config
        self.seq_lens = np.array([120, 45], np.int32)
        table = self.rng.permutation(2 * self.MAX_BLOCKS).reshape(2, self.MAX_BLOCKS)
        self.block_table = torch.from_numpy(table.astype(np.int32))
        shape = (2 * self.MAX_BLOCKS, self.BLOCK_SIZE)
        self.host_kv = [self.random_rows(*shape, *row) for row in ROW_SHAPES]

    def random_rows(self, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.rng.integers(0, 256, shape, dtype=np.uint8))

    def fresh(self) -> list[torch.Tensor]:
        return [self.random_rows(2, self.config.num_queries, *row) for row in ROW_SHAPES]

    def inputs(self) -> dict[str, torch.Tensor]:
        """topk_tokens, verified_lens, seq_lens, leases, rows of the next step."""
        queries, top_k = self.config.num_queries, self.config.top_k
        self.seq_lens = self.seq_lens + self.rng.integers(1, queries + 1, 2).astype(np.int32)
        drawn = [
            [self.rng.choice(n - queries + 1 + q, top_k, replace=False) for q in range(queries)]
            for n in self.seq_lens
        ]
        return {
            "topk_tokens": tensor(np.array(drawn)),
            "verified_lens": tensor(self.seq_lens - queries + 1),
            "seq_lens": tensor(self.seq_lens),
            "leases": tensor([1, 2]),
            "rows": tensor([2, 0]),
        }


class Arguments(dict):
    """Valid arguments of all operators by name; `call` picks those of one."""

    def __init__(self) -> None:
        steps, pool = Steps(7), torch_ops.TorchPool(CONFIG)
        plan = pool.match(*steps.inputs().values())
        super().__init__(
            steps.inputs(),
            **dict(zip(PLAN, plan)),
            state=pool.state,
            workspace=pool.workspace,
            block_table=steps.block_table,
            host_kv=steps.host_kv,
            fresh=steps.fresh(),
            device_kv=[pool.device_kv(host) for host in steps.host_kv],
            load_counters=pool.load_counters,
            store_counters=pool.store_counters,
            positions=tensor([3, 4, 5]),
            entries=tensor([0, 1, -1]),
            new_rows=[steps.random_rows(3, *host.shape[2:]) for host in steps.host_kv],
            num_slots=CONFIG.num_slots,
            num_queries=CONFIG.num_queries,
            max_life=CONFIG.max_life,
            top_k=CONFIG.top_k,
        )

    def call(self, name: str) -> None:
        operator = getattr(torch.ops.avsg, name).default
        operator(*(self[argument.name] for argument in operator._schema.arguments))

    def tensors(self) -> list[torch.Tensor]:
        values = [value if isinstance(value, list) else [value] for value in self.values()]
        return [
            t for value in values for t in value if isinstance(t, torch.Tensor) and t.device.type == "cpu"
        ]


def poison(plan: torch_ops.TorchPlan) -> None:
    for field in plan:
        field.fill_(POISON)


def plan_arrays(plan: torch_ops.TorchPlan) -> dict[str, np.ndarray]:
    """A plan in numpy, without what is unspecified past num_misses."""
    arrays = {name: getattr(plan, name).numpy() for name in plan._fields}
    listed = np.arange(arrays["miss_tokens"].shape[1]) < arrays["num_misses"][:, None]
    for name in ("miss_tokens", "miss_slots"):
        arrays[name] = arrays[name][listed]
    return arrays


class TorchReplica:
    """A random trace's pool and buffers in torch; `run` as test_agree.Replica.run."""

    def __init__(self, trace: Trace, library: str) -> None:
        self.name = f"torch over {library}"
        self.pool = torch_ops.TorchPool(trace.config, max_entries=trace.num_entries, library=library)
        num_device_rows = trace.config.num_rows * trace.config.num_slots
        self.host_kv = [torch.from_numpy(host.copy()) for host in trace.host_kv]
        self.device_kv = [torch.full((num_device_rows, n), 0xA5, dtype=torch.uint8) for n in trace.row_bytes]

    def run(self, call: Call) -> dict[str, np.ndarray]:
        state = self.pool.state.numpy()
        for row, step in call.age.items():
            state[:, : layout.slot_token_offset()].view(np.int32)[row, layout.HEADER_STEP] = step
        table = torch.from_numpy(call.block_table)
        stored = self._store(call, table)
        plan = self.pool.plan(*call.topk_tokens.shape[:2])
        poison(plan)
        step = [torch.from_numpy(call.topk_tokens)]
        step += [
            torch.from_numpy(call.lines[name]) for name in ("verified_lens", "seq_lens", "leases", "rows")
        ]
        copies = (table, self.host_kv, self.device_kv, [torch.from_numpy(f) for f in call.fresh or []])
        fused = np.zeros(2, np.int32)
        if call.fused:
            self.pool.step(*step, *copies)
            fused = self.pool.load_counters.numpy().copy()
        else:
            self.pool.match(*step)
        loaded = [self.pool.load(plan, *copies).numpy().copy() for _ in range(call.num_loads)]
        loaded.append(np.sum([fused, *loaded], axis=0))
        used = self.pool.sizes.state_row_bytes
        return {
            **plan_arrays(plan),
            "store counters": stored,
            "load counters": np.array(loaded),
            "state": state[:, :used],
            **{f"device_kv[{i}]": device.numpy() for i, device in enumerate(self.device_kv)},
            **{f"host_kv[{i}]": host.numpy() for i, host in enumerate(self.host_kv)},
        }

    def _store(self, call: Call, table: torch.Tensor) -> np.ndarray:
        if not len(call.positions):  # the operator takes one row or more
            return np.zeros(2, np.int32)
        new_rows = [torch.from_numpy(rows) for rows in call.new_rows]
        positions, entries = torch.from_numpy(call.positions), torch.from_numpy(call.entries)
        self.pool.store_counters.fill_(POISON)
        return self.pool.store(positions, entries, table, new_rows, self.host_kv).numpy().copy()
