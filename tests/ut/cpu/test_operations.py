# SPDX-License-Identifier: Apache-2.0
"""Every operation against values written by hand from the Ascend C documentation, on every build."""

import numpy as np
import pytest

from .conftest import HALF, OPERAND

I32 = np.iinfo(np.int32)
LT, GT, EQ, LE, GE, NE = range(6)
NONE, RINT, FLOOR, CEIL, ROUND, TRUNC = range(6)
DTYPES = {"int16_t": np.int16, "uint16_t": np.uint16, "int32_t": np.int32, "uint32_t": np.uint32, "float": np.float32}
UNTOUCHED = 0xEE


def untouched(out, start):
    """All bytes from `start` on still hold what was there before."""
    return bool((out[start:] == UNTOUCHED).all())


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
@pytest.mark.parametrize("name,expected", [("Adds", [5, -4, 8, 0]), ("Muls", [6, -21, 15, -9]), ("Maxs", [3, 3, 5, 3]),
                                           ("Mins", [2, -7, 3, -3])])
def test_scalar_operation_takes_count_elements(cpu, name, expected, kind):
    a = np.array([2, -7, 5, -3] * 5, DTYPES[kind])
    out = cpu.run(f"{name}_{kind}", a, p=[19, 3])
    assert np.array_equal(out[: 19 * a.itemsize].view(DTYPES[kind]), np.array(expected * 5, DTYPES[kind])[:19])
    assert untouched(out, 19 * a.itemsize)


def test_count_zero_or_less_does_nothing(cpu):
    for name in ("Add_int32_t", "Adds_int32_t", "Duplicate_int32_t", "Select_scalar", "Gather_int32_t"):
        assert untouched(cpu.run(name, np.ones(8, np.int32), p=[0, 1]), 0)
    assert untouched(cpu.run("Add_int32_t", p=[-5]), 0)


@pytest.mark.parametrize("kind,shift,expected", [
    ("uint16_t", 1, [0x5555, 0x7FFF]), ("int16_t", 1, [0xD555, 0xFFFF]), ("int16_t", 3, [0xF555, 0xFFFF]),
    ("uint16_t", 16, [0, 0]), ("int16_t", 16, [0xFFFF, 0xFFFF]),
])
def test_right_shift_is_arithmetic_for_signed_and_logical_for_unsigned(cpu, kind, shift, expected):
    out = cpu.run(f"ShiftRight_{kind}", np.array([0xAAAA, 0xFFFF], np.uint16), p=[2, shift])
    assert out[:4].view(np.uint16).tolist() == expected


@pytest.mark.parametrize("name,kind,shift,expected", [
    ("ShiftRight", "int32_t", 4, [0xF8000000, 0x07FFFFFF, 0]), ("ShiftRight", "uint32_t", 4, [0x08000000, 0x07FFFFFF, 0]),
    ("ShiftRight", "int32_t", 32, [0xFFFFFFFF, 0, 0]), ("ShiftRight", "uint32_t", 32, [0, 0, 0]),
    ("ShiftLeft", "int32_t", 4, [0, 0xFFFFFFF0, 0x30]), ("ShiftLeft", "uint32_t", 31, [0, 0x80000000, 0x80000000]),
    ("ShiftLeft", "int32_t", 32, [0, 0, 0]), ("ShiftLeft", "uint32_t", 0, [0x80000000, 0x7FFFFFFF, 3]),
])
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


@pytest.mark.parametrize("mode,expected", [(LT, 0b00000111), (GT, 0b11110000), (EQ, 0b00001000), (LE, 0b00001111),
                                           (GE, 0b11111000), (NE, 0b11110111)])
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


def test_gather_reads_byte_offsets(cpu):
    # The documentation's example: offsets 254, 252 .. 0 into 0..127.
    offsets = np.arange(254, -1, -2).astype(np.uint32)
    out = cpu.run("Gather_uint16_t", np.arange(128, dtype=np.uint16), offsets, p=[128, 0])
    assert np.array_equal(out[:256].view(np.uint16), np.arange(127, -1, -1)) and untouched(out, 256)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_gather_adds_the_base_and_stops_at_count(cpu, count):
    words = np.arange(4096, dtype=np.int32) * 3
    offsets = (np.arange(1000) * 37 % 2000 * 4).astype(np.uint32)
    out = cpu.run("Gather_int32_t", words, offsets, p=[count, 400])
    assert np.array_equal(out[: 4 * count].view(np.int32), words[offsets[:count] // 4 + 100])
    assert untouched(out, 4 * count)


def test_gather_of_16384_words_or_more_wraps(fast):
    # 16,384 + 8 words: 256 whole repeats count as none, the tail is gathered
    assert fast.run("Gather_wraps", p=[8])[:64].view(np.int32).tolist() == [5] * 8 + [9] * 8


def test_gather_by_repeats_takes_dense_offsets(cpu):
    words = np.arange(4096, dtype=np.int32) + 7
    offsets = (np.arange(192)[::-1] * 4).astype(np.uint32)
    out = cpu.run("Gather_repeats", words, offsets, p=[8, 40, 3, 10]).view(np.int32)
    for repeat in range(3):
        expected = words[offsets[64 * repeat : 64 * repeat + 40] // 4 + 2]
        assert np.array_equal(out[80 * repeat : 80 * repeat + 40], expected)
        assert (out[80 * repeat + 40 : 80 * repeat + 80].view(np.uint8) == UNTOUCHED).all()


def gather_mask(cpu, kind, data, pattern, mask, *, counter=1, block=1, repeats=1, step=0, pattern_step=0, in_place=0):
    fixed = isinstance(pattern, int)
    name = f"GatherMask_{'fixed_' if fixed else ''}{kind}"
    p = [counter, mask, block, repeats, step, pattern_step, in_place, pattern if fixed else 0]
    out = cpu.run(name, data, np.zeros(1, np.uint8) if fixed else pattern, p=p)
    kept = int(out[60 * 1024 : 60 * 1024 + 8].view(np.uint64)[0])
    return out, kept


@pytest.mark.parametrize("in_place", [0, 1])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.1, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("kind", ["int16_t", "int32_t"])
def test_gather_mask_keeps_order_and_writes_nothing_behind(cpu, kind, density, in_place):
    seed = int(density * 100) + 1
    dtype = DTYPES[kind]
    random = np.random.default_rng(seed)
    for count in (1, 7, 64, 100, 2048):
        data = random.integers(-30000, 30000, count).astype(dtype)
        bits = random.random(count) < density
        out, kept = gather_mask(cpu, kind, data, np.packbits(bits, bitorder="little"), count, in_place=in_place)
        assert kept == bits.sum(), (seed, count)
        size = kept * dtype().itemsize
        assert np.array_equal(out[:size].view(dtype), data[bits]), (seed, count)
        assert in_place or (out[size : 32 * 1024] == UNTOUCHED).all(), (seed, count)


@pytest.mark.parametrize("kind", ["int16_t", "int32_t"])
@pytest.mark.parametrize("pattern,picks", [(1, [0, 2]), (2, [1, 3]), (3, [0]), (4, [1]), (5, [2]), (6, [3]),
                                           (7, [0, 1, 2, 3])])
def test_gather_mask_fixed_patterns(cpu, kind, pattern, picks):
    data = np.arange(70).astype(DTYPES[kind])
    out, kept = gather_mask(cpu, kind, data, pattern, 70)
    expected = data[np.isin(data % 4, picks)]
    assert kept == expected.size and np.array_equal(out[: expected.nbytes].view(data.dtype), expected)


def test_gather_mask_normal_mode_takes_256_bytes_a_repeat(cpu):
    # The documentation's example: pattern 2 over 1..256 keeps 2, 4 .. 256.
    out, kept = gather_mask(cpu, "int32_t", np.arange(1, 257, dtype=np.int32), 2, 0, counter=0, repeats=4, step=8)
    assert kept == 128 and np.array_equal(out[:512].view(np.int32), np.arange(2, 257, 2))


def test_gather_mask_counter_mode_takes_mask_elements_in_each_repeat(cpu):
    # The documentation's figure: mask 70, two repeats 4 blocks apart, the pattern 1001 from its start each time.
    data = np.arange(200, dtype=np.int32)
    pattern = np.full(8, 0x99999999, np.uint32)
    out, kept = gather_mask(cpu, "int32_t", data, pattern, 70, repeats=2, step=4)
    once = np.array([i for i in range(70) if i % 4 in (0, 3)])
    assert kept == 2 * once.size
    assert np.array_equal(out[: 4 * kept].view(np.int32), np.concatenate([once, once + 32]))


def test_gather_mask_pattern_and_block_strides(cpu):
    data = np.arange(256, dtype=np.int32)
    pattern = np.zeros(16, np.uint32)
    pattern[0] = 0b11
    pattern[8] = 0b100
    out, kept = gather_mask(cpu, "int32_t", data, pattern, 16, block=2, repeats=2, step=1, pattern_step=1)
    assert kept == 3 and out[:12].view(np.int32).tolist() == [0, 1, 10]
    pattern[0] = 1 << 9  # element 9 is the second of the second block, 2 blocks on
    assert gather_mask(cpu, "int32_t", data, pattern, 16, block=2)[0][:4].view(np.int32)[0] == 17


@pytest.mark.parametrize("mode,expected", [
    (RINT, [0, 2, 2, -2, -2, 3, -3, 0]), (FLOOR, [0, 1, 2, -2, -3, 2, -3, -1]), (CEIL, [1, 2, 3, -1, -2, 3, -2, 0]),
    (ROUND, [1, 2, 3, -2, -3, 3, -3, 0]), (TRUNC, [0, 1, 2, -1, -2, 2, -2, 0]),
])
@pytest.mark.parametrize("kind", ["int32_t", "int16_t"])
def test_float_to_integer_rounds_as_asked(cpu, kind, mode, expected):
    values = np.array([0.5, 1.5, 2.5, -1.5, -2.5, 2.7, -2.7, -0.2], np.float32)
    out = cpu.run(f"Cast_float_to_{kind}", values, p=[8, mode])
    assert out[: 8 * DTYPES[kind]().itemsize].view(DTYPES[kind]).tolist() == expected


def test_float_to_integer_saturates(cpu):
    values = np.array([3e9, -3e9, np.inf, -np.inf, 2147483520, -2147483648, np.nan], np.float32)
    out = cpu.run("Cast_float_to_int32_t", values, p=[7, TRUNC])[:28].view(np.int32)
    assert out.tolist() == [I32.max, I32.min, I32.max, I32.min, 2147483520, I32.min, 0]
    values = np.array([32767.4, 32767.6, 40000, -40000], np.float32)
    assert cpu.run("Cast_float_to_int16_t", values, p=[4, RINT])[:8].view(np.int16).tolist() == [32767, 32767, 32767, -32768]


def test_integer_to_float_is_exact_below_2_24_and_rounds_to_even_above(cpu):
    values = np.array([0, -1, 16777215, -16777216, 16777217, 16777219, I32.max], np.int32)
    out = cpu.run("Cast_int32_t_to_float", values, p=[7, NONE])[:28].view(np.float32)
    assert out.tolist() == [0, -1, 16777215, -16777216, 16777216, 16777220, 2147483648]
    values = np.array([-32768, 32767, 5], np.int16)
    assert cpu.run("Cast_int16_t_to_float", values, p=[3, NONE])[:12].view(np.float32).tolist() == [-32768, 32767, 5]


def test_int32_to_int16_saturates(cpu):
    values = np.array([1, 40000, -40000, -5], np.int32)
    assert cpu.run("Cast_int32_t_to_int16_t", values, p=[4, NONE])[:8].view(np.int16).tolist() == [1, 32767, -32768, -5]


@pytest.mark.parametrize("name,pick", [("ReduceMax", np.argmax), ("ReduceMin", np.argmin)])
@pytest.mark.parametrize("count", [1, 64, 65, 1000, 4096])
def test_reduce_extreme_gives_the_lowest_index(cpu, name, pick, count):
    values = np.random.default_rng(count).integers(-50, 50, count).astype(np.float32)
    out = cpu.run(name, values, p=[count, 1])
    assert out[:4].view(np.float32)[0] == values[pick(values)]
    assert out[4:8].view(np.uint32)[0] == pick(values)
    assert untouched(cpu.run(name, values, p=[count, 0]), 4)


@pytest.mark.parametrize("count", [1, 15, 64, 1000, 4096])
def test_reduce_sum(cpu, count):
    values = np.random.default_rng(count).integers(-4000, 4000, count).astype(np.float32)
    out = cpu.run("ReduceSum", values, p=[count])
    assert out[:4].view(np.float32)[0] == values.sum() and untouched(out, 4)


def pairs(out, n):
    words = out[: 8 * n].view(np.float32).reshape(n, 2)
    return words[:, 0].tolist(), words[:, 1].copy().view(np.uint32).tolist()


def test_sort32_sorts_groups_of_32_descending_and_is_stable(cpu):
    scores = np.random.default_rng(3).integers(0, 9, 96).astype(np.float32)
    index = np.arange(1000, 1096).astype(np.uint32)
    out = cpu.run("Sort32", scores, index, p=[3])
    order = np.concatenate([g * 32 + np.argsort(-scores[g * 32 : g * 32 + 32], kind="stable") for g in range(3)])
    assert pairs(out, 96) == (scores[order].tolist(), index[order].tolist())
    assert untouched(out, 768)


def queue_bytes(queues):
    return b"".join(
        np.stack([np.array(q, np.float32), np.arange(k * 100, k * 100 + len(q), dtype=np.uint32).view(np.float32)], 1)
        .tobytes() for k, q in enumerate(queues)
    )


@pytest.mark.parametrize("queues", [
    [[9, 5, 1], [8, 5, 0]], [[5, 5], [5], [7, 5, 5]], [[4, 3], [9, 3, 1], [3], [8, 8]], [[], [3, 2]], [[1], [], [2], []],
])
def test_merge_is_descending_and_prefers_the_earlier_queue(cpu, queues):
    lengths = [len(q) for q in queues] + [0] * (4 - len(queues))
    data = np.frombuffer(queue_bytes(queues), np.uint8)
    out = cpu.run("MrgSort", data, p=[{2: 3, 3: 7, 4: 15}[len(queues)], 1, *lengths])
    merged = sorted(((-s, k, i) for k, q in enumerate(queues) for i, s in enumerate(q)))
    expected = [float(-s) for s, _, _ in merged], [100 * k + i for _, k, i in merged]
    assert pairs(out, len(merged)) == expected and untouched(out, 8 * len(merged))


def test_merge_repeats_over_adjacent_queues(cpu):
    random = np.random.default_rng(4)
    scores = -np.sort(-random.integers(0, 99, (8, 32)).astype(np.float32), axis=1)
    words = np.zeros((8, 32, 2), np.float32)
    words[:, :, 0] = scores
    out = cpu.run("MrgSort", words, p=[15, 2, 32, 32, 32, 32])
    values = out[:2048].view(np.float32).reshape(2, 128, 2)[:, :, 0]
    assert np.array_equal(values, -np.sort(-scores.reshape(2, 128), axis=1))


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
    # The documentation's second example: 46-byte blocks, a gap of 2 bytes in GM and of one 32-byte block in UB.
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
