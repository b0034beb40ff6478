# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of the torch operators end in a sentence, and nothing has been written then."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch_case import CONFIG, PLAN, STEP, Arguments, tensor

import avsg
from avsg import torch_ops
from avsg.torch_ops import TorchPool

B, Q, K, S = 2, CONFIG.num_queries, CONFIG.top_k, CONFIG.num_slots


def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def at_odd_address(like: torch.Tensor, offset: int) -> torch.Tensor:
    """Contiguous memory of the same dtype and shape, `offset` bytes past a multiple of 64."""
    raw = np.zeros(like.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    memory = raw[start : start + like.nbytes]
    return torch.frombuffer(memory, dtype=like.dtype).view(like.shape)


def rows_of(count: int, *row: int) -> torch.Tensor:
    return zeros(count, *row, dtype=torch.uint8)


INT32_NAMES = {
    "match": (*STEP, *PLAN),
    "load": (*PLAN[1:4], *PLAN[5:], "block_table", "load_counters"),
    "step": (*STEP, "block_table", *PLAN, "load_counters"),
    "store": ("positions", "entries", "block_table", "store_counters"),
}
EVERY = [(op, name) for op, names in INT32_NAMES.items() for name in names]
MEMORY = [(op, name) for op in ("match", "load", "step") for name in ("state", "workspace")] + [
    ("store", "workspace")
]


def refused(op: str, changes: dict, error: type, sentence: str) -> None:
    """The call raises `error` with `sentence`, and no tensor has changed."""
    arguments = Arguments()
    for name, value in changes.items():
        arguments[name] = value(arguments[name]) if callable(value) else value
    before = [t.clone() for t in arguments.tensors()]
    with pytest.raises(error, match=re.escape(sentence)) as caught:
        arguments.call(op)
    assert all(torch.equal(now, then) for now, then in zip(arguments.tensors(), before))
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")


def test_the_unchanged_arguments_are_accepted():
    for op in INT32_NAMES:
        Arguments().call(op)


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_other_integers_are_refused(op, name):
    sentence = f"{name}.dtype is int64, but int32 is allowed: create it as int32, the pool never converts."
    refused(op, {name: lambda t: t.long()}, TypeError, sentence)


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_other_shapes_are_refused(op, name):
    refused(op, {name: lambda t: t.unsqueeze(0)}, ValueError, f"{name}.shape is [1, ")


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_strided_tensors_are_refused(op, name):
    def strided(t: torch.Tensor) -> torch.Tensor:
        wide = torch.zeros((*t.shape, 2), dtype=t.dtype)
        return wide[..., 0].copy_(t)

    refused(op, {name: strided}, ValueError, "is not contiguous, but only a contiguous tensor is allowed")


@pytest.mark.parametrize(("op", "name"), EVERY)
def test_odd_addresses_are_refused(op, name):
    sentence = "but a multiple of 4 is allowed: align the tensor."
    refused(op, {name: lambda t: at_odd_address(t, 2)}, ValueError, sentence)


@pytest.mark.parametrize(("op", "name"), MEMORY)
def test_state_and_workspace_are_aligned_bytes(op, name):
    sentence = "but a multiple of 32 is allowed: align the tensor."
    refused(op, {name: lambda t: at_odd_address(t, 16)}, ValueError, f"the address of {name} is ")
    refused(op, {name: lambda t: at_odd_address(t, 16)}, ValueError, sentence)
    other = {name: lambda t: t.view(torch.int8)}
    refused(op, other, TypeError, f"{name}.dtype is int8, but uint8 is allowed")


@pytest.mark.parametrize(("op", "name"), [*EVERY, *MEMORY])
def test_other_devices_are_refused(op, name):
    """A Meta tensor among CPU tensors is none of the call's device either way round."""
    refused(op, {name: lambda t: t.to("meta")}, ValueError, ".device is ")


STRIDE = avsg.layout.state_stride_bytes(S)
REFUSALS = [
    ("match", {"topk_tokens": zeros(B, Q + 1, K)}, "Q of 1 to num_queries = 2"),
    (
        "match",
        {"topk_tokens": zeros(0, Q, K)},
        "topk_tokens.shape is [0, 2, 32], but [B, Q, K] with B and K of",
    ),
    ("match", {"rows": tensor([0])}, "rows.shape is [1], but [B] = [2] is allowed: pass that shape."),
    ("match", {"slots": zeros(B, Q * K)}, "slots.shape is [2, 64], but [B, Q, K] = [2, 2, 32] is allowed"),
    ("match", {"counters": zeros(B, 7)}, "counters.shape is [2, 7], but [B, 8] = [2, 8] is allowed"),
    ("match", {"state": rows_of(3, STRIDE - 512)}, f"[num_rows, {STRIDE}] for num_slots = 128"),
    ("match", {"workspace": rows_of(512)}, "workspace is 512 bytes, but 32768 bytes or more is allowed"),
    ("match", {"num_slots": 100}, "num_slots is 100, but a multiple of 64 up to 65408 is allowed"),
    ("match", {"num_slots": 2**32 + 128}, "num_slots is 4294967424, but 1 to 2^31 - 1 is allowed"),
    ("match", {"max_life": 0}, "max_life is 0, but 1 to 2^31 - 1 is allowed"),
    ("match", {"max_life": 2001}, "max_life is 2001"),
    ("match", {"num_queries": 5}, "num_queries"),
    ("step", {"num_queries": 1}, "Q of 1 to num_queries = 1"),
    ("load", {"top_k": 24}, "[B, Q*K] with B and Q of 1 or more and K = 24"),
    ("load", {"miss_slots": zeros(B, K)}, "miss_slots.shape is [2, 32], but [B, Q*K] = [2, 64] is allowed"),
    ("load", {"load_counters": zeros(8)}, "load_counters.shape is [8], but [2] = [2] is allowed"),
    ("load", {"num_slots": 192}, "for num_slots = 192"),
    (
        "store",
        {"positions": zeros(0), "entries": zeros(0)},
        "positions.shape is [0], but [T] with T of 1 or more",
    ),
    ("store", {"entries": zeros(2)}, "entries.shape is [2], but [T] = [3] is allowed"),
    (
        "store",
        {"host_kv": lambda hosts: hosts[:1]},
        "the number of tensors in host_kv is 1, but one for each",
    ),
    ("store", {"new_rows": []}, "the number of tensors in new_rows is 0, but 1 to 4 is allowed"),
    (
        "store",
        {"new_rows": lambda rows: [rows[0], rows[0]]},
        "the bytes per row of new_rows[1] is 64, but that of",
    ),
    (
        "store",
        {"new_rows": lambda rows: [rows[0][:2], rows[1]]},
        "new_rows[0].shape is [2, 64], but [T, ...] = [3, ",
    ),
]
COPY_REFUSALS = [
    ({"block_table": zeros(3, 24)}, "block_table.shape is [3, 24], but [B, max_blocks] with B = 2"),
    ({"block_table": zeros(2, 0)}, "max_blocks of 1 or more"),
    ({"host_kv": lambda h: h * 3}, "the number of tensors in host_kv is 6, but 1 to 4 is allowed"),
    (
        {"host_kv": lambda h: [h[0], h[1][:8]]},
        "host_kv[1].shape is [8, 16, 2, 16], but the blocks of host_kv[0], [48",
    ),
    (
        {"host_kv": lambda h: [h[0][:0], h[1]]},
        "host_kv[0].shape is [0, 16, 64], but [num_blocks, block_size, ...]",
    ),
    (
        {"host_kv": lambda h: [h[0][:, :, :40].contiguous(), h[1]]},
        "the bytes per row of host_kv[0] is 40, but a mult",
    ),
    ({"host_kv": lambda h: [h[0][:, ::2], h[1]]}, "host_kv[0] (shape [48, 8, 64]) is not contiguous"),
    ({"device_kv": lambda d: d[:1]}, "the number of tensors in device_kv is 1, but one for each payload, 2,"),
    (
        {"device_kv": lambda d: [d[0][:5], d[1]]},
        "device_kv[0].shape is [5, 64], but [num_rows * num_slots, ...] = [384",
    ),
    (
        {"device_kv": lambda d: [d[1], d[0]]},
        "the bytes per row of device_kv[0] is 32, but that of its host_kv, 64, is",
    ),
    ({"device_kv": lambda d: [d[0].to("meta"), d[1]]}, ".device is "),
    (
        {"fresh": lambda f: f[:1]},
        "the number of tensors in fresh is 1, but one for each payload, 2, is allowed",
    ),
    (
        {"fresh": lambda f: [f[0], f[1][:, :1].contiguous()]},
        "fresh[1].shape is [2, 1, 2, 16], but [B, Q, ...] = [2, 2",
    ),
    ({"fresh": lambda f: [f[0][..., :32].contiguous(), f[1]]}, "the bytes per row of fresh[0] is 32"),
    ({"fresh": lambda f: [f[0].transpose(0, 1), f[1]]}, "fresh[0] (shape [2, 2, 64]) is not contiguous"),
]
REFUSALS += [(op, changes, text) for op in ("load", "step") for changes, text in COPY_REFUSALS]


@pytest.mark.parametrize(("op", "changes", "sentence"), REFUSALS)
def test_refusal(op, changes, sentence):
    refused(op, changes, ValueError, sentence)


def test_shared_memory_is_refused():
    """By the library, with the sentence of the C ABI."""
    arguments = Arguments()
    arguments["miss_slots"] = arguments["miss_tokens"]
    before = arguments["state"].clone()
    with pytest.raises(ValueError, match="miss_tokens .* and miss_slots .* overlap"):
        arguments.call("match")
    assert torch.equal(arguments["state"], before)


def test_pool_refuses_more_than_it_was_made_for():
    pool = TorchPool(CONFIG, max_entries=2)
    for shape in ((3, 1), (1, 3), (0, 1)):
        with pytest.raises(
            ValueError, match=r"\[B, Q\] of the step is .*, but up to \[max_entries, num_queries\]"
        ):
            pool.plan(*shape)
    with pytest.raises(ValueError, match="max_entries is 0, but 1 or more is allowed"):
        TorchPool(CONFIG, max_entries=0)
    with pytest.raises(ValueError, match="topk_tokens.shape is"):
        pool.match(zeros(2), *[zeros(2)] * 4)


def test_device_without_a_library_is_refused():
    with pytest.raises(avsg.LibraryNotFoundError, match="No library of AVSG is bound for meta"):
        TorchPool(CONFIG, device="meta")


def test_libraries_that_are_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match="library is reference, but a native library is allowed"):
        torch_ops.load("reference")
    torch_ops.load()
    no_library = tmp_path / "libavsg_none.so"
    no_library.write_text("no library")
    with pytest.raises(ValueError, match="libavsg_none.so cannot be opened"):
        torch.ops.avsg.bind(str(no_library))
    with pytest.raises(ValueError, match="has no avsg_abi_version, so it is not a library of AVSG"):
        torch.ops.avsg.bind("libc.so.6")


def test_host_memory_is_refused():
    for size in ([0], [4, -1], [2**40, 2**40]):
        with pytest.raises(ValueError, match="size is .*, but one item or more in every dimension"):
            torch_ops.host_zeros(size)
    memory = torch.zeros(64, dtype=torch.uint8)
    torch_ops.register_host(memory, 0x1000)
    with pytest.raises(ValueError, match="overlaps a registered block"):
        torch_ops.register_host(memory[60:], 0x2000)
    torch_ops.unregister_host(memory)
    with pytest.raises(ValueError, match="No registered block starts at"):
        torch_ops.unregister_host(memory)
    with pytest.raises(ValueError, match="has 0 bytes, but only memory of one byte or more is allowed"):
        torch_ops.register_host(memory[:0], 0x1000)
