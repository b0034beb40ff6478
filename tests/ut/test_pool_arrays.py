# SPDX-License-Identifier: Apache-2.0
"""Arrays of every kind and dtype are used where they are: numpy, buffers, DLPack exporters, data_ptr."""

import array
import sys

import numpy as np
import pytest

import avsg
from avsg import arrays, dlpack
from pool_case import BLOCK_SIZE, NUM_BLOCKS, NUM_ROWS, NUM_SLOTS, PoolCase, int32


class Tensor:
    """Looks like a torch CPU tensor over a numpy array; the dtype's name need not be numpy's."""

    def __init__(self, owner, dtype, shape=None):
        self.owner, self.dtype, self.shape = owner, f"torch.{dtype}", tuple(shape or owner.shape)
        self.device = "cpu"

    def data_ptr(self):
        return self.owner.ctypes.data

    def element_size(self):
        return self.owner.itemsize

    def is_contiguous(self):
        return self.owner.flags.c_contiguous


class OldDlpack:
    """Exports by the unversioned protocol, as numpy does when asked without max_version."""

    def __init__(self, owner):
        self.owner = owner

    def __dlpack_device__(self):
        return self.owner.__dlpack_device__()

    def __dlpack__(self):
        return self.owner.__dlpack__()


class NewDlpack(OldDlpack):
    """Exports by DLPack 1.0."""

    def __dlpack__(self, *, max_version=None):
        return self.owner.__dlpack__(max_version=max_version)


class NpuDlpack:
    """An exporter on another device must not be asked to export."""

    def __dlpack_device__(self):
        return (12, 0)

    def __dlpack__(self, **_):
        raise AssertionError("exporting could wait for another device")


class Buffer:
    """Only a buffer, as a ctypes array is: no `__dlpack__`, no `data_ptr`."""

    def __new__(cls, owner):
        kind = np.ctypeslib.as_ctypes_type(owner.dtype)
        for extent in reversed(owner.shape):
            kind = kind * extent
        return kind.from_buffer(owner)


KINDS = {
    "numpy": lambda a: a,
    "data_ptr": lambda a: Tensor(a, a.dtype.name),
    "old dlpack": OldDlpack,
    "dlpack": NewDlpack,
    "buffer": Buffer,
    "memoryview": memoryview,
}


def spread(kind, value):
    if isinstance(value, np.ndarray):
        return KINDS[kind](value)
    if isinstance(value, list):
        return [spread(kind, item) for item in value]
    if isinstance(value, avsg.Plan):
        return avsg.Plan(**{name: spread(kind, item) for name, item in vars(value).items()})
    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", ["match", "load", "step", "store"])
def test_every_kind_of_array_is_written_in_place(call, kind):
    expected, got = PoolCase(), PoolCase()
    getattr(expected.pool, call)(**expected.arguments(call))
    arguments = {name: spread(kind, value) for name, value in got.arguments(call).items()}
    getattr(got.pool, call)(**arguments)
    assert got.memory() == expected.memory()
    assert got.memory() != PoolCase().memory()


@pytest.mark.parametrize("kind", ["old dlpack", "dlpack"])
def test_dlpack_of_a_strided_array_is_refused(kind):
    strided = KINDS[kind](np.zeros((2, 2, 16), np.int32)[:, :, ::2])
    case = PoolCase()
    with pytest.raises(ValueError, match="topk_tokens .* not contiguous"):
        case.pool.match(strided, **case.lines)


def test_dlpack_with_unit_dimensions_is_contiguous_whatever_their_strides():
    odd = np.lib.stride_tricks.as_strided(np.zeros(16, np.int32), (2, 1, 8), (32, 4, 4))
    seen = arrays.view("x", NewDlpack(odd))
    assert seen.contiguous and seen.shape == (2, 1, 8)


def test_read_only_dlpack_and_buffer_are_not_written():
    case = PoolCase()
    frozen = case.out.counters.copy()
    frozen.flags.writeable = False
    for kind in (NewDlpack, memoryview):
        case.out.counters = kind(frozen)
        with pytest.raises(ValueError, match="out.counters is read-only"):
            case.pool.match(**case.arguments("match"))


def test_dlpack_byte_offset_is_added():
    numbers = int32(1, 2)
    capsule = numbers.__dlpack__()
    tensor = dlpack._DLTensor.from_address(dlpack._pointer(capsule, b"dltensor"))
    tensor.data, tensor.byte_offset = tensor.data - 64, 64
    exporter = NewDlpack(numbers)
    exporter.__class__ = type("Offset", (NewDlpack,), {"__dlpack__": lambda self, **_: capsule})
    assert arrays.view("x", exporter).as_int32().tolist() == [1, 2]
    tensor.data, tensor.byte_offset = tensor.data + 64, 0


def test_dlpack_memory_is_released_after_the_call():
    numbers = int32(1, 2)
    case = PoolCase()
    before = sys.getrefcount(numbers)
    case.pool.match(case.topk_tokens, **{**case.lines, "leases": NewDlpack(numbers)})
    assert sys.getrefcount(numbers) == before


def test_array_on_another_device_is_refused_without_an_export():
    case = PoolCase()
    with pytest.raises(ValueError, match="rows.device is npu, but cpu is allowed"):
        case.pool.match(case.topk_tokens, **{**case.lines, "rows": NpuDlpack()})


def test_python_array_and_bytearray_are_buffers():
    case = PoolCase()
    lines = {name: array.array("i", values.tolist()) for name, values in case.lines.items()}
    plan = case.pool.match(case.topk_tokens, **lines)
    assert plan.rows.tolist() == case.lines["rows"].tolist()
    with pytest.raises(TypeError, match="leases.dtype is uint8, but int32"):
        case.pool.match(case.topk_tokens, **{**case.lines, "leases": bytearray(8)})


ROWS = {
    "bf16 nope and rope": [("bfloat16", np.uint16, (512,)), ("bfloat16", np.uint16, (64,))],
    "656 int8": [("int8", np.int8, (656,))],
    "fp16 heads": [("float16", np.float16, (2, 8))],
    "complex": [("complex128", np.complex128, (1,))],
    "one structure": [("void128", np.dtype([("nope", "u8"), ("rope", "u8")]), ())],
}


@pytest.mark.parametrize("what", ROWS)
def test_rows_of_any_dtype_are_copied_as_bytes(what):
    case = PoolCase()
    rng = np.random.default_rng(3)

    def make(*leading):
        made = []
        for name, dtype, shape in ROWS[what]:
            dtype = np.dtype(dtype)
            count = int(np.prod([*leading, *shape]))
            raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
            owner = raw.view(dtype).reshape(*leading, *shape)
            made.append(Tensor(owner, name) if name == "bfloat16" else owner)
        return made

    host, device = make(NUM_BLOCKS, BLOCK_SIZE), make(NUM_ROWS * NUM_SLOTS)
    case.pool.load(case.plan, host, device, block_table=case.block_table)
    for h, d in zip(host, device):
        h, d = getattr(h, "owner", h), getattr(d, "owner", d)
        for i, row in enumerate(case.lines["rows"]):
            for token, slot in zip(
                case.plan.miss_tokens[i], case.plan.miss_slots[i][: case.plan.num_misses[i]]
            ):
                where = case.block_table[i, token // BLOCK_SIZE], token % BLOCK_SIZE
                assert d[row * NUM_SLOTS + slot].tobytes() == h[where].tobytes()


def test_single_arrays_are_one_payload():
    listed, single = PoolCase(), PoolCase()
    for case, one in ((listed, lambda x: x[:1]), (single, lambda x: x[0])):
        case.pool.load(case.plan, one(case.host_kv), one(case.device_kv), block_table=case.block_table)
        case.pool.store(
            one(case.new_rows),
            one(case.host_kv),
            positions=int32(0, 1, 2, 3),
            entries=int32(0, 0, 1, 1),
            block_table=case.block_table,
        )
    assert listed.memory() == single.memory()


def test_store_of_no_rows_is_allowed():
    case = PoolCase()
    empty = [rows[:0] for rows in case.new_rows]
    nothing = int32()
    counts = case.pool.store(
        empty, case.host_kv, positions=nothing, entries=nothing, block_table=case.block_table
    )
    assert counts == (0, 0)
