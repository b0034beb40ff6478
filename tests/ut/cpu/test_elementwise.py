# SPDX-License-Identifier: Apache-2.0
"""Every element-wise operation against values written by hand from the Ascend C documentation."""

import numpy as np
import pytest

from .conftest import DTYPES, untouched

I32 = np.iinfo(np.int32)
LT, GT, EQ, LE, GE, NE = range(6)

BINARY_EXPECTED = {
    "Add": [5, 0, 9, -10],
    "Sub": [-1, -14, 1, 4],
    "Mul": [6, -49, 20, 21],
    "Max": [3, 7, 5, -3],
    "Min": [2, -7, 4, -7],
}


@pytest.mark.parametrize("place", ["", "inplace_"])
@pytest.mark.parametrize("kind", ["int16_t", "int32_t", "float"])
@pytest.mark.parametrize("name", BINARY_EXPECTED)
def test_binary_operation_takes_count_elements(cpu, name, kind, place):
    a = np.array([2, -7, 5, -3] * 40, DTYPES[kind])
    b = np.array([3, 7, 4, -7] * 40, DTYPES[kind])
    out = cpu.run(f"{name}_{place}{kind}", a, b, p=[157])
    size = 157 * a.itemsize
    expected = np.tile(np.array(BINARY_EXPECTED[name], DTYPES[kind]), 40)[:157]
    assert np.array_equal(out[:size].view(DTYPES[kind]), expected)
    assert place or untouched(out, size)


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul"])
def test_int32_arithmetic_keeps_the_low_32_bits(cpu, name):
    a = np.array([I32.max, I32.min, 1597 * 1024, 65536], np.int32)
    b = np.array([1, -1, 4096, 65537], np.int32)
    wide = {"Add": a.astype(np.int64) + b, "Sub": a.astype(np.int64) - b, "Mul": a.astype(np.int64) * b}[name]
    out = cpu.run(f"{name}_int32_t", a, b, p=[4])
    assert np.array_equal(out[:16].view(np.int32), wide.astype(np.int32))


@pytest.mark.parametrize("kind", ["int16_t", "int32_t", "float"])
@pytest.mark.parametrize(
    "name,expected",
    [("Adds", [5, -4, 8, 0]), ("Muls", [6, -21, 15, -9]), ("Maxs", [3, 3, 5, 3]), ("Mins", [2, -7, 3, -3])],
)
def test_scalar_operation_takes_count_elements(cpu, name, expected, kind):
    a = np.array([2, -7, 5, -3] * 5, DTYPES[kind])
    out = cpu.run(f"{name}_{kind}", a, p=[19, 3])
    assert np.array_equal(
        out[: 19 * a.itemsize].view(DTYPES[kind]), np.array(expected * 5, DTYPES[kind])[:19]
    )
    assert untouched(out, 19 * a.itemsize)


def test_count_zero_or_less_does_nothing(cpu):
    for name in ("Add_int32_t", "Adds_int32_t", "Duplicate_int32_t", "Select_scalar", "Gather_int32_t"):
        assert untouched(cpu.run(name, np.ones(8, np.int32), p=[0, 1]), 0)
    assert untouched(cpu.run("Add_int32_t", p=[-5]), 0)


@pytest.mark.parametrize(
    "kind,shift,expected",
    [
        ("uint16_t", 1, [0x5555, 0x7FFF]),
        ("int16_t", 1, [0xD555, 0xFFFF]),
        ("int16_t", 3, [0xF555, 0xFFFF]),
        ("uint16_t", 16, [0, 0]),
        ("int16_t", 16, [0xFFFF, 0xFFFF]),
    ],
)
def test_right_shift_is_arithmetic_for_signed_and_logical_for_unsigned(cpu, kind, shift, expected):
    out = cpu.run(f"ShiftRight_{kind}", np.array([0xAAAA, 0xFFFF], np.uint16), p=[2, shift])
    assert out[:4].view(np.uint16).tolist() == expected


@pytest.mark.parametrize(
    "name,kind,shift,expected",
    [
        ("ShiftRight", "int32_t", 4, [0xF8000000, 0x07FFFFFF, 0]),
        ("ShiftRight", "uint32_t", 4, [0x08000000, 0x07FFFFFF, 0]),
        ("ShiftRight", "int32_t", 32, [0xFFFFFFFF, 0, 0]),
        ("ShiftRight", "uint32_t", 32, [0, 0, 0]),
        ("ShiftLeft", "int32_t", 4, [0, 0xFFFFFFF0, 0x30]),
        ("ShiftLeft", "uint32_t", 31, [0, 0x80000000, 0x80000000]),
        ("ShiftLeft", "int32_t", 32, [0, 0, 0]),
        ("ShiftLeft", "uint32_t", 0, [0x80000000, 0x7FFFFFFF, 3]),
    ],
)
def test_32_bit_shifts(cpu, name, kind, shift, expected):
    out = cpu.run(f"{name}_{kind}", np.array([0x80000000, 0x7FFFFFFF, 3], np.uint32), p=[3, shift])
    assert out[:12].view(np.uint32).tolist() == expected


def test_logic_works_on_16_bit_words(cpu):
    a = np.array([0xFF00, 0x0F0F, 0x1234], np.uint16)
    b = np.array([0xF0F0, 0xFFFF, 0x00FF], np.uint16)
    assert cpu.run("And_uint16_t", a, b, p=[3])[:6].view(np.uint16).tolist() == [0xF000, 0x0F0F, 0x0034]
    assert cpu.run("Or_uint16_t", a, b, p=[3])[:6].view(np.uint16).tolist() == [0xFFF0, 0xFFFF, 0x12FF]
    out = cpu.run("Not_uint16_t", a, p=[3])
    assert out[:6].view(np.uint16).tolist() == [0x00FF, 0xF0F0, 0xEDCB]
    assert untouched(out, 6)


def test_logic_on_int32_reaches_half_of_the_words(fast):
    ones = np.full(64, -1, np.int32)
    out = fast.run("And_int32_t", ones, ones, p=[64])
    assert (out[:128] == 0xFF).all() and untouched(out, 128)


@pytest.mark.parametrize("kind", ["int16_t", "int32_t", "float"])
def test_duplicate_fills_count_elements(cpu, kind):
    out = cpu.run(f"Duplicate_{kind}", p=[100, -18])
    size = 100 * DTYPES[kind]().itemsize
    assert (out[:size].view(DTYPES[kind]) == -18).all() and untouched(out, size)


def test_duplicate_with_one_mask_bit_stores_one_element_per_repeat(cpu):
    out = cpu.run("Duplicate_masked", p=[2, 1 << 9]).view(np.int32)
    assert out[9] == 77 and out[73] == 77 and (out == 77).sum() == 2


@pytest.mark.parametrize("kind", ["int16_t", "int32_t", "float"])
def test_create_vec_index_counts_up(cpu, kind):
    dtype = DTYPES[kind]
    out = cpu.run(f"CreateVecIndex_{kind}", p=[1000, 5])
    assert np.array_equal(out[: 1000 * dtype().itemsize].view(dtype), np.arange(5, 1005).astype(dtype))


def test_create_vec_index_stores_a_whole_first_block(cpu):
    assert cpu.run("CreateVecIndex_int32_t", p=[3, 0])[:32].view(np.int32).tolist() == list(range(8))


# The documentation's example: 2 3 5 7 11 13 17 19 against 2 4 6 8 10 12 14 16.
PRIMES = np.array([2, 3, 5, 7, 11, 13, 17, 19] * 32, np.float32)
EVENS = np.array([2, 4, 6, 8, 10, 12, 14, 16] * 32, np.float32)
COMPARED = {LT: 0b00001110, GT: 0b11110000, EQ: 0b00000001, LE: 0b00001111, GE: 0b11110001, NE: 0b11111110}


@pytest.mark.parametrize("mode", COMPARED)
def test_float_compare_packs_bits_little_endian(cpu, mode):
    out = cpu.run("Compare_float", PRIMES, EVENS, p=[256, mode])
    assert (out[:32] == COMPARED[mode]).all() and untouched(out, 32)


@pytest.mark.parametrize(
    "mode,expected",
    [
        (LT, 0b00000111),
        (GT, 0b11110000),
        (EQ, 0b00001000),
        (LE, 0b00001111),
        (GE, 0b11111000),
        (NE, 0b11110111),
    ],
)
def test_float_compare_scalar(cpu, mode, expected):
    out = cpu.run("CompareScalar_float", PRIMES, p=[128, mode, 7])
    assert (out[:16] == expected).all() and untouched(out, 16)


def test_int32_compare_equal_sees_all_32_bits(cpu):
    a = np.array([0, -1, I32.min, 1 << 24, (1 << 24) + 1, 5, 6, 7] * 8, np.int32)
    b = np.array([0, 1, I32.min, (1 << 24) + 1, (1 << 24) + 1, 5, 7, 7] * 8, np.int32)
    assert (cpu.run("Compare_int32_t", a, b, p=[64, EQ])[:8] == 0b10110101).all()
    assert (cpu.run("CompareScalar_int32_t", a, p=[64, EQ, (1 << 24) + 1])[:8] == 0b00010000).all()


def test_compare_ignores_the_tail_of_a_repeat(fast):
    out = fast.run("Compare_float", PRIMES, PRIMES, p=[100, EQ])
    assert (out[:8] == 0xFF).all() and untouched(out, 8)


def test_int32_compare_has_only_equal(fast):
    a = np.arange(64, dtype=np.int32)
    assert np.array_equal(fast.run("CompareScalar_int32_t", a, p=[64, LT, 3])[:8], [8, 0, 0, 0, 0, 0, 0, 0])


# The documentation's mask and the first sixteen elements of its example.
SELECT_MASK = np.array([60, 32, 10, 7, 42, 52, 38, 26, 19, 15, 18, 83, 41, 43, 91, 30], np.uint8)
SELECT_PICKS = [0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("count", [128, 101, 64, 5])
def test_select_between_tensors_takes_the_first_where_the_bit_is_set(cpu, count):
    a = np.arange(128, dtype=np.float32)
    b = -np.arange(128, dtype=np.float32) - 1000
    bits = np.unpackbits(SELECT_MASK, bitorder="little")[:count]
    assert bits[:16].tolist() == SELECT_PICKS[: min(count, 16)]
    out = cpu.run("Select_tensor", a, b, SELECT_MASK, p=[count, 2])
    assert np.array_equal(out[: 4 * count].view(np.float32), np.where(bits, a[:count], b[:count]))
    assert untouched(out, 4 * count)


def test_select_mode_0_uses_the_first_64_bits_for_every_repeat(cpu):
    a = np.arange(128, dtype=np.float32)
    b = -a
    out = cpu.run("Select_tensor", a, b, SELECT_MASK, p=[128, 0])
    bits = np.tile(np.unpackbits(SELECT_MASK[:8], bitorder="little"), 2)
    assert np.array_equal(out[:512].view(np.float32), np.where(bits, a, b))


def test_select_with_a_scalar(cpu):
    a = np.arange(1, 129, dtype=np.float32)
    out = cpu.run("Select_scalar", a, a, SELECT_MASK, p=[77, -3])
    bits = np.unpackbits(SELECT_MASK, bitorder="little")[:77]
    assert np.array_equal(out[:308].view(np.float32), np.where(bits, a[:77], np.float32(-3)))


def test_select_moves_integers_bit_by_bit(cpu):
    a = np.array([0x7FA00001, 1, -1, 0x00800000] * 16, np.int32)  # NaN payloads and denormals as floats
    out = cpu.run("Select_tensor", a, a, np.full(8, 0x55, np.uint8), p=[64, 2])
    assert np.array_equal(out[:256].view(np.int32), a)
