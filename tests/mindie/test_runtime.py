# SPDX-License-Identifier: Apache-2.0
"""Runtime without MindIE: what attention reads through slots is the row written last for that token."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.torch
BLOCK, SLOTS, TOP_K, DIMS, GROUPS, MAX_LEN = 16, 128, 16, (16, 8), [[0], [1, 2]], 160


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
    torch.set_num_threads(1)
    return torch


def make_runtime(torch, num_queries: int = 1, rows: int = 3):
    from avsg.mindie.runtime import KvLayout, Runtime
    from avsg.mindie.settings import EngineFacts, Settings

    facts = EngineFacts(
        top_k=TOP_K, max_requests=rows, max_seq_len=MAX_LEN, num_queries=num_queries, block_size=BLOCK
    )
    settings = Settings(rows=rows, slots=SLOTS, huge_pages=False)
    layout = KvLayout(GROUPS, *DIMS, torch.float32, BLOCK)
    runtime = Runtime(settings, facts, layout, max_entries=rows + 1, prefill_tokens=2 * MAX_LEN)
    runtime.bind(3 * MAX_LEN // BLOCK + 1)
    return runtime


class Requests:
    """Sequences whose KV is a number: a row holds token + version / 16 + layer * 1000 in every item."""

    def __init__(self, torch, runtime, seed: int = 0) -> None:
        self.torch, self.runtime, self.rng = torch, runtime, np.random.default_rng(seed)
        self.queries = runtime.num_queries
        self.length: dict[int, int] = {}
        self.version: dict[int, np.ndarray] = {}
        self.table: dict[int, np.ndarray] = {}
        self.free = list(range(runtime.host_kv.num_blocks))

    def value(self, sequence: int, tokens: np.ndarray, layer: int) -> np.ndarray:
        return tokens + self.version[sequence][tokens] / 16 + 1000 * layer

    def prefill(self, sequence: int, length: int) -> None:
        """Writes a prompt through staging, as attention's prefill does."""
        torch, runtime = self.torch, self.runtime
        runtime.prefilled([sequence])
        if sequence not in self.table:
            self.table[sequence] = np.array([self.free.pop() for _ in range(MAX_LEN // BLOCK)], np.int32)
        self.length[sequence] = length
        self.version[sequence] = self.rng.integers(0, 16, MAX_LEN)
        slots, _ = runtime.staging.place_prompts(np.array([length]))
        tokens = np.arange(length, dtype=np.int32)
        for layer in range(3):
            rows = torch.from_numpy(self.value(sequence, tokens, layer)).float()
            for payload in runtime.staging.payloads():
                payload[torch.from_numpy(slots).long()] = rows.unsqueeze(1).expand(-1, payload.shape[1])
            runtime.store_prompt(
                layer,
                slots=torch.from_numpy(slots),
                positions=torch.from_numpy(tokens),
                entries=torch.zeros(length, dtype=torch.int32),
                block_table=torch.from_numpy(self.table[sequence])[None],
            )

    def step(self, *sequences: int | None) -> None:
        """A decode step; asserts what every query reads in every layer. None: an entry without a request."""
        torch, runtime, queries = self.torch, self.runtime, self.queries
        rows, leases = runtime.lookup(sequences)
        lengths = [0 if s is None else self.length[s] + queries for s in sequences]
        tables = [np.zeros(MAX_LEN // BLOCK, np.int32) if s is None else self.table[s] for s in sequences]
        topk = np.full((len(sequences), queries, TOP_K), -1, np.int32)
        for entry, sequence in enumerate(sequences):
            if sequence is None:
                continue
            written = np.arange(self.length[sequence], lengths[entry])
            self.version[sequence][written] = self.rng.integers(0, 16, queries)
            for query in range(queries):
                seen = written[query] + 1
                count = min(TOP_K, seen)
                topk[entry, query, :count] = self.rng.permutation(seen)[:count]
        for layer in range(3):
            for payload in runtime.staging.payloads():
                for entry, sequence in enumerate(sequences):
                    if sequence is not None:
                        written = np.arange(self.length[sequence], lengths[entry])
                        row = torch.from_numpy(self.value(sequence, written, layer)).float()
                        payload[entry * queries : (entry + 1) * queries] = row.unsqueeze(1)
            view = runtime.decode(
                layer,
                torch.from_numpy(topk).view(-1, 1, TOP_K),
                rows=torch.from_numpy(rows),
                leases=torch.from_numpy(leases),
                seq_lens=torch.tensor(lengths, dtype=torch.int32),
                block_table=torch.from_numpy(np.stack(tables)),
            )
            self._check(layer, sequences, topk, view)
        for sequence in sequences:
            if sequence is not None:
                self.length[sequence] += int(self.rng.integers(1, queries + 1))  # the rest is rejected

    def _check(self, layer: int, sequences, topk: np.ndarray, view) -> None:
        for entry, sequence in enumerate(sequences):
            assert view.kv_lens[entry] == (0 if sequence is None else SLOTS)
            for query in range(self.queries):
                slots = view.slots[entry * self.queries + query, 0].numpy()
                tokens = topk[entry, query][topk[entry, query] >= 0]
                assert (slots[len(tokens) :] == -1).all() and (slots[: len(tokens)] >= 0).all()
                blocks = view.block_table[entry].numpy()[slots[: len(tokens)] // 128]
                for buffer in (view.nope, view.rope):
                    got = buffer[blocks, slots[: len(tokens)] % 128, 0].numpy()
                    if sequence is not None:
                        assert (got == self.value(sequence, tokens, layer)[:, None]).all(), (layer, sequence)


@pytest.mark.parametrize("num_queries", [1, 3])
@pytest.mark.parametrize("mode", ["avsg", "full"])
def test_every_selected_row_is_the_newest_one(torch, num_queries: int, mode: str) -> None:
    runtime = make_runtime(torch, num_queries)
    runtime.set_mode(mode)
    requests = Requests(torch, runtime)
    requests.prefill(1, 40)
    requests.prefill(2, 9)
    requests.step(1, 2)
    requests.step(2, None, 1)
    requests.prefill(3, 100)
    for number in range(12):
        requests.step(*((3, 1, 2) if number % 2 else (None, 1, 2, 3)))
    requests.prefill(2, 30)  # recomputed: other rows for the same tokens
    for _ in range(6):
        requests.step(2, 1, 3)
    groups = runtime.metrics.snapshot()["groups"]
    assert all(group["rows_copied"] == len(group["layers"]) * group["misses"] for group in groups)
    if mode == "full":
        assert all(group["resets"] == 2 * 2 + 3 * 18 for group in groups)


def test_full_offload_takes_no_lease_from_the_table_and_never_repeats_one(torch) -> None:
    runtime = make_runtime(torch)
    _, ordinary = runtime.lookup([1, 2])
    runtime.set_mode("full")
    seen = [tuple(runtime.lookup([1, None, 2])[1].tolist()) for _ in range(3)]
    assert seen == [(-1, 0, -1), (-2, 0, -2), (-3, 0, -3)]
    runtime.set_mode("full")
    runtime.set_mode("avsg")
    assert runtime.lookup([1, 2])[1].min() > ordinary.max()
    with pytest.raises(ValueError, match="'half'"):
        runtime.set_mode("half")
    assert runtime.mode == "avsg" and runtime.metrics.snapshot()["mode_switches"] == 2


def test_step_tensors_follow_device_lengths_at_the_same_addresses(torch) -> None:
    from avsg.mindie.step_tensors import StepTensors

    step = StepTensors(4, 2, 256, TOP_K, "cpu")
    step.update(torch.tensor([3, -1, 1], dtype=torch.int32), torch.tensor([10, 7, 0], dtype=torch.int32))
    names = ("rows", "verified_lens", "kv_lens", "block_table", "positions", "entries")
    before = {name: getattr(step, name).data_ptr() for name in names}
    got = {name: getattr(step, name).tolist() for name in names}
    assert got["rows"] == [3, -1, -1] and got["kv_lens"] == [256, 0, 0]
    assert got["verified_lens"][0] == 9 and got["positions"][:2] == [8, 9]
    assert got["block_table"][0] == [6, 7] and got["entries"] == [0, 0, -1, -1, -1, -1]
    step.update(torch.tensor([0, 2, 1], dtype=torch.int32), torch.tensor([5, 6, 9], dtype=torch.int32))
    assert {name: getattr(step, name).data_ptr() for name in names} == before
    assert step.rows.tolist() == [0, 2, 1] and step.entries.tolist() == [0, 0, 1, 1, 2, 2]
    assert step.positions.tolist() == [3, 4, 4, 5, 7, 8] and step.verified_lens.tolist() == [4, 5, 8]


@pytest.mark.parametrize("num_queries", [1, 2])
def test_a_step_reads_no_number_on_the_host_and_takes_none_from_it(torch, monkeypatch, num_queries) -> None:
    """A captured graph would copy such a number from memory that is gone (torch_npu: where with a number)."""
    from torch.utils._python_dispatch import TorchDispatchMode

    from avsg.mindie.runtime import Runtime

    called = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            called.add(operator._schema.name)
            return operator(*args, **(kwargs or {}))

    decode = Runtime.decode

    def watched(self, *args, **kwargs):
        with Watch():
            return decode(self, *args, **kwargs)

    monkeypatch.setattr(Runtime, "decode", watched)
    requests = Requests(torch, make_runtime(torch, num_queries))
    requests.prefill(1, 40)
    requests.step(1, None)
    assert {"avsg::match", "avsg::load", "avsg::store", "aten::copy_"} <= called
    assert not called & {"aten::scalar_tensor", "aten::_local_scalar_dense", "aten::lift_fresh"}


def test_all_groups_share_one_workspace_and_nothing_else(torch) -> None:
    """16 MiB of an NPU's memory that sizing.py counts once."""
    pools = [group.pool for group in make_runtime(torch).groups]
    assert len(pools) == len(GROUPS)
    assert len({pool.workspace.data_ptr() for pool in pools}) == 1
    for name in ("state", "load_counters", "store_counters"):
        assert len({getattr(pool, name).data_ptr() for pool in pools}) == len(GROUPS), name


def test_prompts_lie_in_blocks_of_their_own(torch) -> None:
    from avsg.mindie.step_tensors import Staging

    staging = Staging(90, DIMS, block_size=BLOCK, dtype=torch.bfloat16, device="cpu")
    slots, tables = staging.place_prompts(np.array([17, 3, 16]))
    assert staging.num_blocks == 6 and staging.slots.tolist() == list(range(96))
    assert slots.tolist() == [*range(17), *range(32, 35), *range(48, 64)]
    assert [table[:n].tolist() for table, n in zip(tables, (2, 1, 1))] == [[0, 1], [2], [3]]
    assert slots.dtype == tables.dtype == np.int32 and tables.max() < 6
    with pytest.raises(RuntimeError, match="100 tokens in 1 requests takes 7 staging blocks of 6"):
        staging.place_prompts(np.array([100]))


def test_a_second_bind_gives_new_memory_and_new_leases(torch) -> None:
    runtime = make_runtime(torch)
    _, before = runtime.lookup([1])
    runtime.host_layer(2)[0].fill_(7.0)
    assert runtime.bind(5).num_blocks == 5
    assert runtime.host_layer(2)[0].shape[0] == 5 and not runtime.host_layer(2)[0].any()
    assert runtime.lookup([1])[1] > before and runtime.offloads(2) and not runtime.offloads(3)
    runtime.start_serving()
    assert len(runtime.rows) == 0
