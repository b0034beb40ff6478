# SPDX-License-Identifier: Apache-2.0
"""Gather, GatherMask, Cast, reductions and sorts against values written by hand from the documentation."""

import numpy as np
import pytest

from .conftest import DTYPES, UNTOUCHED, untouched

I32 = np.iinfo(np.int32)
NONE, RINT, FLOOR, CEIL, ROUND, TRUNC = range(6)


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


def gather_mask(
    cpu, kind, data, pattern, mask, *, counter=1, block=1, repeats=1, step=0, pattern_step=0, in_place=0
):
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
        out, kept = gather_mask(
            cpu, kind, data, np.packbits(bits, bitorder="little"), count, in_place=in_place
        )
        assert kept == bits.sum(), (seed, count)
        size = kept * dtype().itemsize
        assert np.array_equal(out[:size].view(dtype), data[bits]), (seed, count)
        assert in_place or (out[size : 32 * 1024] == UNTOUCHED).all(), (seed, count)


@pytest.mark.parametrize("kind", ["int16_t", "int32_t"])
@pytest.mark.parametrize(
    "pattern,picks", [(1, [0, 2]), (2, [1, 3]), (3, [0]), (4, [1]), (5, [2]), (6, [3]), (7, [0, 1, 2, 3])]
)
def test_gather_mask_fixed_patterns(cpu, kind, pattern, picks):
    data = np.arange(70).astype(DTYPES[kind])
    out, kept = gather_mask(cpu, kind, data, pattern, 70)
    expected = data[np.isin(data % 4, picks)]
    assert kept == expected.size and np.array_equal(out[: expected.nbytes].view(data.dtype), expected)


def test_gather_mask_normal_mode_takes_256_bytes_a_repeat(cpu):
    # The documentation's example: pattern 2 over 1..256 keeps 2, 4 .. 256.
    out, kept = gather_mask(
        cpu, "int32_t", np.arange(1, 257, dtype=np.int32), 2, 0, counter=0, repeats=4, step=8
    )
    assert kept == 128 and np.array_equal(out[:512].view(np.int32), np.arange(2, 257, 2))


def test_gather_mask_counter_mode_takes_mask_elements_in_each_repeat(cpu):
    # The documentation's figure: mask 70, two repeats 4 blocks apart, the pattern 1001 anew each time.
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


@pytest.mark.parametrize(
    "mode,expected",
    [
        (RINT, [0, 2, 2, -2, -2, 3, -3, 0]),
        (FLOOR, [0, 1, 2, -2, -3, 2, -3, -1]),
        (CEIL, [1, 2, 3, -1, -2, 3, -2, 0]),
        (ROUND, [1, 2, 3, -2, -3, 3, -3, 0]),
        (TRUNC, [0, 1, 2, -1, -2, 2, -2, 0]),
    ],
)
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
    assert cpu.run("Cast_float_to_int16_t", values, p=[4, RINT])[:8].view(np.int16).tolist() == [
        32767,
        32767,
        32767,
        -32768,
    ]


def test_integer_to_float_is_exact_below_2_24_and_rounds_to_even_above(cpu):
    values = np.array([0, -1, 16777215, -16777216, 16777217, 16777219, I32.max], np.int32)
    out = cpu.run("Cast_int32_t_to_float", values, p=[7, NONE])[:28].view(np.float32)
    assert out.tolist() == [0, -1, 16777215, -16777216, 16777216, 16777220, 2147483648]
    values = np.array([-32768, 32767, 5], np.int16)
    assert cpu.run("Cast_int16_t_to_float", values, p=[3, NONE])[:12].view(np.float32).tolist() == [
        -32768,
        32767,
        5,
    ]


def test_int32_to_int16_saturates(cpu):
    values = np.array([1, 40000, -40000, -5], np.int32)
    assert cpu.run("Cast_int32_t_to_int16_t", values, p=[4, NONE])[:8].view(np.int16).tolist() == [
        1,
        32767,
        -32768,
        -5,
    ]


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
    order = np.concatenate(
        [g * 32 + np.argsort(-scores[g * 32 : g * 32 + 32], kind="stable") for g in range(3)]
    )
    assert pairs(out, 96) == (scores[order].tolist(), index[order].tolist())
    assert untouched(out, 768)


def queue_bytes(queues):
    return b"".join(
        np.stack(
            [np.array(q, np.float32), np.arange(k * 100, k * 100 + len(q), dtype=np.uint32).view(np.float32)],
            1,
        ).tobytes()
        for k, q in enumerate(queues)
    )


@pytest.mark.parametrize(
    "queues",
    [
        [[9, 5, 1], [8, 5, 0]],
        [[5, 5], [5], [7, 5, 5]],
        [[4, 3], [9, 3, 1], [3], [8, 8]],
        [[], [3, 2]],
        [[1], [], [2], []],
    ],
)
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
