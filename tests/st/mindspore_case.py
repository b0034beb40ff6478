# SPDX-License-Identifier: Apache-2.0
"""Steps for the MindSpore tests: random top-k of two requests, and the same pool through avsg.Pool as the
reference."""

from __future__ import annotations

from collections.abc import Callable

import mindspore as ms
import numpy as np

import avsg
from avsg.mindspore import SparseGather, compiled

CONFIG = avsg.PoolConfig(num_rows=3, num_slots=128, top_k=32, num_queries=2)
ROW_SHAPES = ((64,), (2, 16))  # 64 and 32 bytes of uint8
MODES = ("pynative", "jit-O0", "jit-O1", "graph-O0", "graph-O1")
BLOCK_SIZE, MAX_BLOCKS = 16, 24


def tensor(values: object) -> ms.Tensor:
    return ms.Tensor(np.array(values, np.int32))


def runner(cell: ms.nn.Cell, mode: str, method: str = "construct") -> Callable:
    """The cell in one of MODES; graph modes go through `compiled`."""
    kind, _, level = mode.partition("-")
    if kind == "graph":
        ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": level})
        return compiled(cell)
    if kind == "jit":
        return compiled(getattr(cell, method), jit_level=level)
    return getattr(cell, method)


def make_host(rng: np.random.Generator, num_layers: int = 1) -> list[list[np.ndarray]]:
    """host_kv[layer][payload] of random bytes."""
    blocks = 2 * MAX_BLOCKS
    return [
        [rng.integers(0, 256, (blocks, BLOCK_SIZE, *shape), dtype=np.uint8) for shape in ROW_SHAPES]
        for _ in range(num_layers)
    ]


class Steps:
    """Growing requests: one step's arguments after another, drawn from a seed."""

    def __init__(self, seed: int, config: avsg.PoolConfig = CONFIG) -> None:
        self.rng = np.random.default_rng(seed)
        self.config = config
        self.seq_lens = np.array([120, 45], np.int32)
        self.block_table = self.rng.permutation(2 * MAX_BLOCKS).reshape(2, MAX_BLOCKS).astype(np.int32)
        self.rows = np.array([2, 0], np.int32)
        self.leases = np.array([1, 2], np.int32)

    def arguments(self) -> dict[str, np.ndarray]:
        """topk_tokens, verified_lens, seq_lens, leases, rows as numpy, for two queries a request."""
        self.seq_lens = self.seq_lens + self.rng.integers(1, 3, 2).astype(np.int32)
        drawn = [
            [self.rng.choice(n - 1 + q, self.config.top_k, replace=False) for q in range(2)]
            for n in self.seq_lens
        ]
        return {
            "topk_tokens": np.array(drawn, np.int32),
            "verified_lens": self.seq_lens - 1,
            "seq_lens": self.seq_lens.copy(),
            "leases": self.leases.copy(),
            "rows": self.rows.copy(),
        }


class Expected:
    """avsg.Pool with library="reference" over the same host memory."""

    def __init__(self, host: list[list[np.ndarray]], config: avsg.PoolConfig = CONFIG) -> None:
        self.pool = avsg.Pool(config, library="reference")
        self.host = host
        rows = config.num_rows * config.num_slots
        self.device = [[np.zeros((rows, *kv.shape[2:]), kv.dtype) for kv in layer] for layer in host]

    def step(
        self, arguments: dict[str, np.ndarray], block_table: np.ndarray, fresh: object = None
    ) -> avsg.Plan:
        """Match, then the load of every layer."""
        topk = arguments["topk_tokens"]
        plan = self.pool.match(topk, **{k: v for k, v in arguments.items() if k != "topk_tokens"})
        for host, device in zip(self.host, self.device):
            self.pool.load(plan, host, device, block_table=block_table, fresh=fresh)
        return plan

    def assert_equal(self, gather: SparseGather, plan: avsg.Plan, outputs: tuple, text: str) -> None:
        """Plan, state and device_kv are the reference's, bit for bit."""
        names = ("slots", "miss_tokens", "miss_slots", "num_misses", "counters", "rows", "verified_lens")
        for name, output in zip(names, outputs):
            got, wanted = output.asnumpy(), getattr(plan, name)
            if name in ("miss_tokens", "miss_slots"):  # unspecified past num_misses
                listed = np.arange(wanted.shape[1]) < plan.num_misses[:, None]
                got, wanted = got[listed], wanted[listed]
            assert np.array_equal(got, wanted), f"{text}: {name} differs"
        used = avsg.layout.state_row_bytes(gather.config.num_slots)
        assert np.array_equal(gather.state.asnumpy()[:, :used], self.pool.state[:, :used]), (
            f"{text}: state differs"
        )
        flat = [device for layer in self.device for device in layer]
        for i, (got, wanted) in enumerate(zip(gather.device_kv, flat)):
            assert np.array_equal(got.asnumpy(), wanted), f"{text}: device_kv {i} differs"
