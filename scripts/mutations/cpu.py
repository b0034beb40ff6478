# SPDX-License-Identifier: Apache-2.0
"""Planted faults of the CPU backend, which its own tests must catch: they compile it and load no library."""

from __future__ import annotations

from .case import Mutation, python

CPU = "tests/ut/cpu/"

MUTATIONS = (
    Mutation(
        name="cpu-gather-mask-turns-the-bytes-of-its-bits",
        rule="GatherMask: bit i of the pattern belongs to element i",
        file="framework/cpu/ascendc/gather.h",
        old="uint32_t byte = static_cast<uint32_t>(bits >> i & 255);",
        new="uint32_t byte = static_cast<uint32_t>(bits >> (56 - i) & 255);",
        tests=python(f"{CPU}test_moving.py::test_gather_mask_keeps_order_and_writes_nothing_behind"),
    ),
    Mutation(
        name="cpu-gather-does-not-wrap",
        rule="Gather: whole repeats are counted in eight bits",
        file="framework/cpu/ascendc/gather.h",
        old="const uint64_t done = (repeats & 255) * detail::Lanes<T>();",
        new="const uint64_t done = repeats * detail::Lanes<T>();",
        tests=python(f"{CPU}test_moving.py::test_gather_of_16384_words_or_more_wraps"),
    ),
    Mutation(
        name="cpu-integers-are-compared-by-any-mode",
        rule="Compare: int32_t is compared with EQ only",
        file="framework/cpu/ascendc/compare.h",
        old="  if (std::is_same<T, int32_t>::value) mode = CMPMODE::EQ;",
        new="  if (std::is_same<T, int16_t>::value) mode = CMPMODE::EQ;",
        tests=python(f"{CPU}test_elementwise.py::test_int32_compare_has_only_equal"),
    ),
    Mutation(
        name="cpu-checked-misses-a-write-over-a-read",
        rule="DESIGN.md, sentence 5: the checked build watches the order of pipes",
        file="framework/cpu/runtime/hazards.cpp",
        old="if (write && other != party.pipe && shadow.read[q] != 0 &&",
        new="if (!write && other != party.pipe && shadow.read[q] != 0 &&",
        tests=python(f"{CPU}test_rules.py::test_broken_rule_is_named_with_its_line"),
    ),
)
