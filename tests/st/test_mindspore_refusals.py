# SPDX-License-Identifier: Apache-2.0
"""What SparseGather refuses, in which words, and that the next correct call works, in PyNative and in
graphs."""

import re
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops
from mindspore_case import CONFIG, Expected, Steps, make_host, runner, tensor

from avsg.mindspore import Primitives, SparseGather, sparse_gather

ROOT = Path(__file__).resolve().parents[2]
MODES = ("pynative", "jit-O0", "graph-O0")
NAMES = ("topk_tokens", "verified_lens", "seq_lens", "leases", "rows", "block_table")


def changed(name: str, change) -> dict:
    return {"name": name, "change": change}


REFUSALS = {
    "int64 tokens": (
        changed("topk_tokens", lambda x: ms.Tensor(x.astype(np.int64))),
        TypeError,
        "topk_tokens is a tensor of Int64, but only Int32 is allowed: convert it",
    ),
    "int64 lengths": (
        changed("seq_lens", lambda x: ms.Tensor(x.astype(np.int64))),
        TypeError,
        "seq_lens is a tensor of Int64, but only Int32",
    ),
    "wrong K": (
        changed("topk_tokens", lambda x: tensor(x[:, :, :8])),
        ValueError,
        "topk_tokens is of shape [2, 2, 8], but [B, Q, K] with Q from 1 to 2 and K = 32 is allowed",
    ),
    "wrong B": (changed("rows", lambda x: tensor([0])), ValueError, "rows is of shape [1], but [2]"),
    "flat block table": (
        changed("block_table", lambda x: tensor(x[0])),
        ValueError,
        "block_table is of shape [24], but [2, max_blocks]",
    ),
    "row outside the pool": (
        changed("rows", lambda x: tensor([2, 7])),
        ValueError,
        "rows[1] is 7, but 0 to 2 is allowed",
    ),
    "row named twice": (
        changed("rows", lambda x: tensor([1, 1])),
        ValueError,
        "rows[1] is 1, but each row once per step (rows[0] names it too) is allowed",
    ),
    "negative length": (
        changed("seq_lens", lambda x: tensor([-1, 50])),
        ValueError,
        "seq_lens[0] is -1, but 0 to 1048576 is allowed",
    ),
    "verified past the end": (
        changed("verified_lens", lambda x: tensor([40, 1000])),
        ValueError,
        "verified_lens[1] is 1000, but 0 to ",
    ),
    "token past the end": (
        changed("topk_tokens", lambda x: tensor(np.where(np.arange(32) == 5, 300, x))),
        ValueError,
        "topk_tokens (flat)[5] is 300, but a token below the entry's seq_len = ",
    ),
    "block outside host_kv": (
        changed("block_table", lambda x: tensor(x + 48)),
        ValueError,
        "but 0 to 47 is allowed: pass the id of a block of host_kv",
    ),
    "block table too short": (
        changed("block_table", lambda x: tensor(x[:, :1])),
        ValueError,
        "but a block below max_blocks = 1 is allowed",
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_refusal_is_a_sentence_and_the_next_call_works(mode: str) -> None:
    """Nothing has changed after a refusal: the steps around it equal those of a pool that never saw it."""
    host, steps = make_host(np.random.default_rng(1)), Steps(1)
    gather, expected = SparseGather(CONFIG, host), Expected(host)
    step = runner(gather, mode)
    for case, (refusal, kind, text) in REFUSALS.items():
        values = {**steps.arguments(), "block_table": steps.block_table}
        tensors = {name: tensor(value) for name, value in values.items()}
        name = refusal["name"]
        bad = {**tensors, name: refusal["change"](values[name])}
        with pytest.raises(kind, match=re.escape(text)):
            step(*bad.values())
        plan, _ = step(*tensors.values())
        del values["block_table"]
        expected.assert_equal(gather, expected.step(values, steps.block_table), plan, f"after {case}")


class OwnState(nn.Cell):
    """sparse_gather on memory of the caller, with a state that `view` makes of the Parameter."""

    def __init__(self, gather: SparseGather, view: str) -> None:
        super().__init__()
        self.primitives = gather.primitives
        self.state = gather.state
        self.host_kv = gather.host_kv
        self.device_kv = gather.device_kv
        self.view = view

    def construct(self, topk_tokens, verified_lens, seq_lens, leases, rows, block_table):
        state = self.state
        if self.view == "slice":
            state = self.state[0:3]
        if self.view == "reshape":
            state = ops.reshape(self.state, (3, -1))
        return sparse_gather(
            self.primitives,
            topk_tokens,
            verified_lens,
            seq_lens,
            leases,
            rows,
            block_table,
            state,
            self.host_kv,
            self.device_kv,
        )


@pytest.mark.parametrize("mode", MODES)
def test_view_as_state_is_refused_and_a_parameter_is_taken(mode: str) -> None:
    host, steps = make_host(np.random.default_rng(2)), Steps(2)
    gather, expected = SparseGather(CONFIG, host), Expected(host)
    values = steps.arguments()
    tensors = [tensor(value) for value in (*values.values(), steps.block_table)]
    for view in ("slice", "reshape"):
        with pytest.raises(
            TypeError, match="state is a view or a plain tensor, but only a whole Parameter is allowed"
        ):
            runner(OwnState(gather, view), mode)(*tensors)
    outputs = runner(OwnState(gather, "none"), mode)(*tensors)
    expected.assert_equal(gather, expected.step(values, steps.block_table), outputs, "seed 2")


@pytest.mark.parametrize("mode", MODES)
def test_registered_memory_that_moved_is_refused(mode: str) -> None:
    """A copy where a Parameter was registered, made by anything, is caught by its address."""
    host, steps = make_host(np.random.default_rng(3)), Steps(3)
    gather = SparseGather(CONFIG, host)
    gather.state.set_data(ms.Tensor(np.zeros(gather.state.shape, np.uint8)))
    tensors = [tensor(value) for value in (*steps.arguments().values(), steps.block_table)]
    with pytest.raises(
        ValueError, match="state is a copy or a view, but only the Parameter that was registered"
    ):
        runner(gather, mode)(*tensors)


def test_numpy_argument_is_refused() -> None:
    gather, steps = SparseGather(CONFIG, make_host(np.random.default_rng(4))), Steps(4)
    values = [*steps.arguments().values(), steps.block_table]
    with pytest.raises(
        TypeError, match=re.escape("topk_tokens is a ndarray, but only a mindspore.Tensor is allowed")
    ):
        gather(*values)


@pytest.mark.parametrize(
    ("host_kv", "kind", "text"),
    [
        (np.zeros((4, 16, 32), np.uint8), TypeError, "only a list of layers"),
        ([[np.zeros((4, 16, 32), np.uint8)[:, ::2]]], ValueError, "only a contiguous, writable array"),
        ([[np.zeros((4, 32), np.uint8)]], ValueError, "[num_blocks, block_size, ...]"),
        ([["rows"]], TypeError, "only a numpy array"),
        ([[np.zeros((4, 16, 32), np.uint8)] * 5], ValueError, "num_payloads is 5, but 1 to 4"),
    ],
)
def test_bad_host_memory_is_refused_at_construction(host_kv: object, kind: type, text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        SparseGather(CONFIG, host_kv)


def test_row_bytes_that_no_device_can_copy_are_refused_by_the_library() -> None:
    gather, steps = SparseGather(CONFIG, [[np.zeros((48, 16, 24), np.uint8)]]), Steps(5)
    tensors = [tensor(value) for value in (*steps.arguments().values(), steps.block_table)]
    with pytest.raises(ValueError, match="row_bytes is 24, allowed are positive multiples of 16"):
        gather(*tensors)


def test_unknown_library_and_device_are_refused(monkeypatch) -> None:
    with pytest.raises(OSError, match="neither a file nor cpu or cpu-checked"):
        Primitives(CONFIG, library="gpu")
    monkeypatch.setattr(ms, "get_context", lambda name: "GPU")
    with pytest.raises(ValueError, match="device_target is GPU, but CPU or Ascend is allowed"):
        Primitives(CONFIG)


def test_trace_capture_is_refused(tmp_path: Path) -> None:
    """In a process of its own: MindSpore aborts at exit after any exception inside a trace."""
    program = """
import mindspore as ms
from mindspore_case import CONFIG, Steps, make_host, tensor
import numpy as np
from avsg.mindspore import SparseGather
gather, steps = SparseGather(CONFIG, make_host(np.random.default_rng(6))), Steps(6)
tensors = [tensor(value) for value in (*steps.arguments().values(), steps.block_table)]
try:
    ms.jit(gather.construct, capture_mode="trace")(*tensors)
except ValueError as error:
    print("refused:", error)
print("misses", int(gather(*tensors)[0][3].asnumpy().sum()), flush=True)
"""
    script = tmp_path / "trace.py"  # a trace reads the lines of its source
    script.write_text(program)
    paths = f"{ROOT / 'python'}:{ROOT / 'tests' / 'st'}"
    environment = {"PYTHONPATH": paths, "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert 'refused: capture_mode is "trace", but only "ast" is allowed' in done.stdout, done.stderr[-2000:]
    assert re.search(r"misses [1-9]", done.stdout)
