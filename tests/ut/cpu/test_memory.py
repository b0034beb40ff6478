# SPDX-License-Identifier: Apache-2.0
"""Strided forms, copies, scalar accesses, events and tensor lists against values written by hand."""

import numpy as np
import pytest

from .conftest import HALF, OPERAND, UNTOUCHED, untouched


@pytest.mark.parametrize("bits", [0, 1])
def test_strided_add_honours_mask_and_strides(cpu, bits):
    a = np.arange(512, dtype=np.int32)
    b = np.arange(512, dtype=np.int32) * 1000
    mask = (1 << 20) - 1
    # dst repeats 10 blocks apart; A every other block; B stands still
    out = cpu.run("Add_strided", a, b, p=[2, mask if bits else 20, 1, 2, 1, 10, 8, 0, bits]).view(np.int32)
    lane = np.arange(20)
    for repeat in range(2):
        got = out[80 * repeat : 80 * repeat + 80]
        assert np.array_equal(got[:20], a[repeat * 64 + lane // 8 * 16 + lane % 8] + b[lane])
        assert (got[20:].view(np.uint8) == UNTOUCHED).all()


def test_min_accumulates_into_its_second_source(cpu):
    a = np.random.default_rng(5).integers(-99, 99, (20, 64)).astype(np.int32)
    assert np.array_equal(cpu.run("Min_accumulates", a, p=[20])[:256].view(np.int32), a.min(axis=0))


def test_strided_scalar_operation(cpu):
    a = np.arange(64, dtype=np.int32)
    out = cpu.run("Adds_strided", a, p=[3, 64, 0])  # the source stands still
    assert np.array_equal(out[:768].view(np.int32), np.tile(a + 100, 3)) and untouched(out, 768)


def test_copy_inside_ub(cpu):
    a = np.arange(16, dtype=np.int32)
    out = cpu.run("DataCopy_inside", a, p=[16])
    assert np.array_equal(out[:64].view(np.int32), a) and untouched(out, 64)


def test_copy_moves_whole_blocks(fast):
    out = fast.run("DataCopy_inside", np.arange(16, dtype=np.int32), p=[15])
    assert np.array_equal(out[:32].view(np.int32), np.arange(8)) and untouched(out, 32)


def test_padded_copy_in_starts_each_block_on_32_bytes(cpu):
    # The documentation's second example: a gap of 2 bytes in GM and of one 32-byte block in UB.
    data = np.arange(200).astype(np.uint8)
    out = cpu.run("DataCopyPad_in", data, p=[3, 46, 2, 1, 1, 0, 0, -2, 3])
    for block in range(3):
        at = block * 96
        assert np.array_equal(out[at : at + 46], data[3 + 48 * block : 49 + 48 * block])
        assert (out[at + 46 : at + 64].view(np.int16) == -2).all()
        assert block == 2 or (out[at + 64 : at + 96] == UNTOUCHED).all()


def test_padding_left_and_right(cpu):
    out = cpu.run("DataCopyPad_in", np.arange(8, dtype=np.int16), p=[1, 8, 0, 0, 1, 3, 2, 9, 0])
    assert out[:32].view(np.int16).tolist() == [9, 9, 9, 0, 1, 2, 3] + [9] * 9


def test_padded_copy_out_writes_only_its_bytes(cpu):
    data = np.arange(200).astype(np.uint8)
    out = cpu.run("DataCopyPad_out", data, p=[2, 45, 7, 1, 0, 0, 0, 0, 5])
    assert np.array_equal(out[5:50], data[:45]) and np.array_equal(out[57:102], data[96:141])
    assert (out[:5] == UNTOUCHED).all() and (out[50:57] == UNTOUCHED).all() and untouched(out, 102)


def test_scalars_see_the_same_bytes_at_every_width(cpu):
    a = np.array([1, 2, 3, 0x7654321, 5, 6], np.int32)
    out = cpu.run("scalars", a)
    assert out[:8].view(np.int32).tolist() == [3, 0x7654321]
    assert out[8:10].view(np.int16)[0] == 0x765
    assert out[32:36].view(np.int32)[0] == OPERAND // 4 and out[40] == 0


def test_scalar_access_to_device_memory(cpu):
    out = cpu.run("global_scalars", np.arange(16, dtype=np.int32) * 3).view(np.int32)
    assert out[4] == 21 and out[0] == 16


def test_event_ids_are_fetched_and_allocated_in_order(cpu):
    assert cpu.run("event_ids")[:24].view(np.int32).tolist() == [0, 0, 1, 2, 0, 0]


def test_tensor_list_is_read_as_it_is_built(cpu):
    inputs = np.zeros(HALF, np.uint8)
    assert cpu.library.make_list(inputs.ctypes.data) == 56
    inputs[1024:1028].view(np.int32)[0] = 41
    inputs[2048:2052].view(np.int32)[0] = 42
    assert cpu.run_raw("tensor_list", inputs)[:12].view(np.int32).tolist() == [2, 41, 42]


def test_copy_arrives_when_it_is_waited_for(fast):
    out = fast.run("copy_not_awaited", np.arange(8, dtype=np.int32))
    assert (out[:32] == UNTOUCHED).all()
    assert out[32:64].view(np.int32).tolist() == list(range(8))
