# SPDX-License-Identifier: Apache-2.0
"""Planted faults of Load, Store, tiling and the argument checks of the C ABI."""

from __future__ import annotations

from .case import Mutation, checked, fast, vector

LOAD, RING, STORE = "op_kernel/avsg_load.h", "op_kernel/row_copy.h", "op_kernel/avsg_store.h"
LATE_REPEAT = (
    "tests/st/test_laws.py::test_highest_index_wins_where_a_long_rising_list_repeats_one_position_late"
)
INVISIBLE = "tests/st/test_invisible.py::test_attention_reads_the_hosts_rows"
BAD_BLOCK = "tests/st/test_invisible.py::test_bad_block_gives_zeros_poisons_and_the_next_step_resets"
SHARES = "tests/st/test_counts.py::test_every_core_copies_its_share_whatever_request_it_belongs_to"
OVERLAP = (
    "tests/ut/test_abi.py::test_overlap_is_refused_and_the_sentence_names_both_tensors"
    "[cpu-checked-match-plan.slots-<lambda>-topk_tokens]"
)
FAR = "tests/st/test_invisible.py::test_host_kv_and_device_kv_beyond_two_gib[cpu-checked]"

COPY = (
    Mutation(
        name="load-skips-the-last-of-each-share",
        rule="Copy: core c copies [c*n/num_cores, (c+1)*n/num_cores)",
        file=LOAD,
        old="  left_ = (core + 1) * total / tiling_.num_cores - skip_;\n",
        new="  left_ = (core + 1) * total / tiling_.num_cores - skip_;\n  if (left_ > 0) left_ -= 1;\n",
        tests=fast(f"{INVISIBLE}[cpu-one payload-match+load-host]"),
    ),
    Mutation(
        name="load-gives-every-row-to-one-core",
        rule="Copy: core c copies [c*n/num_cores, (c+1)*n/num_cores)",
        file=LOAD,
        old="  left_ = (core + 1) * total / tiling_.num_cores - skip_;\n",
        new="  skip_ = 0;\n  left_ = core == 0 ? total : 0;\n",
        tests=checked(f"{SHARES}[5]"),
    ),
    Mutation(
        name="load-writes-a-row-before-it-has-arrived",
        rule="DESIGN.md, Kernel: MTE2 and MTE3 overlap, in order for each buffer",
        file=RING,
        old="""\
    WaitFlag<HardEvent::MTE2_MTE3>(event);
    CopyOut(Global<uint8_t>(to_[oldest]), bytes_[oldest * chunk_bytes_], to_bytes_[oldest]);
""",
        new="""\
    CopyOut(Global<uint8_t>(to_[oldest]), bytes_[oldest * chunk_bytes_], to_bytes_[oldest]);
    WaitFlag<HardEvent::MTE2_MTE3>(event);
""",
        tests=checked(f"{INVISIBLE}[cpu-checked-one payload-match+load-host]"),
    ),
    Mutation(
        name="load-refills-a-buffer-before-it-has-left",
        rule="DESIGN.md, Kernel: MTE2 and MTE3 overlap, in order for each buffer",
        file=RING,
        old="        WaitFlag<HardEvent::MTE3_MTE2>(event);\n        num_leaving_ -= 1;\n",
        new="        num_leaving_ -= 1;\n",
        tests=checked(f"{INVISIBLE}[cpu-checked-one payload-match+load-host]"),
    ),
    Mutation(
        name="load-reads-the-host-at-32-bit-offsets",
        rule="Copy: 64-bit offsets",
        file=LOAD,
        old="host_kv_[p] + host_row * row_bytes,",
        new="host_kv_[p] + static_cast<int32_t>(host_row * row_bytes),",
        tests=checked(FAR),
    ),
    Mutation(
        name="load-writes-the-device-at-32-bit-offsets",
        rule="Copy: 64-bit offsets",
        file=LOAD,
        old="device_kv_[p] + device_row * row_bytes;",
        new="device_kv_[p] + static_cast<int32_t>(device_row * row_bytes);",
        tests=checked(FAR),
    ),
    Mutation(
        name="load-leaves-the-row-of-a-bad-block",
        rule="Copy: the device row of every payload is filled with zeros",
        file=LOAD,
        old="      ring_.Zero(to, row_bytes);\n",
        new="      continue;\n",
        tests=checked(f"{BAD_BLOCK}[cpu-checked--1]"),
    ),
    Mutation(
        name="load-never-poisons",
        rule="Copy: the row's poison is set to 1 so that its next step starts from a reset",
        file=LOAD,
        old="    if (!poisoned_) Poison();\n",
        new="",
        tests=checked(f"{BAD_BLOCK}[cpu-checked--1]"),
    ),
    Mutation(
        name="load-reads-one-block-past-the-host",
        rule="Copy: bad block: an id outside [0, num_host_blocks)",
        file=RING,
        old="id >= num_host_blocks",
        new="id > num_host_blocks",
        tests=checked(f"{BAD_BLOCK}[cpu-checked-one past the last]"),
    ),
    Mutation(
        name="load-takes-fresh-rows-one-token-late",
        rule="Copy: f = token - (V - 1)",
        file=LOAD,
        old="int64_t{token} - (int64_t{verified_len_} - 1);",
        new="int64_t{token} - int64_t{verified_len_};",
        tests=checked(f"{INVISIBLE}[cpu-checked-one payload-match+load-fresh]"),
    ),
    Mutation(
        name="load-copies-rows-of-the-first-payloads-length",
        rule="Copy: each entry to all payloads, rows of row_bytes each",
        file=LOAD,
        old="const int64_t row_bytes = tiling_.row_bytes[p];",
        new="const int64_t row_bytes = tiling_.row_bytes[0];",
        tests=checked(f"{INVISIBLE}[cpu-checked-bf16 pair-match+load-host]"),
    ),
    Mutation(
        name="store-lets-the-lowest-index-win",
        rule="Store: positions of one call are distinct per entry; otherwise the highest index wins",
        file=STORE,
        old="if (num_same > num_before) return true;",
        new="if (num_before > 1) return true;",
        tests=checked(
            "tests/st/test_laws.py::test_highest_index_wins_a_position_that_is_stored_twice[cpu-checked-3]"
        ),
    ),
    Mutation(
        name="store-takes-every-list-for-rising",
        rule="Store: positions of one call are distinct per entry; otherwise the highest index wins",
        file=STORE,
        old="if (Compact(kept, position, falls, count) > 0) return false;",
        new="if (Compact(kept, position, falls, count) > 1) return false;",
        tests=checked(f"{LATE_REPEAT}[cpu-checked-3]"),
    ),
)

HOST = (
    Mutation(
        name="tiling-lets-too-many-slots-pass",
        rule="DESIGN.md, Kernel: tiling refuses what does not fit, with the largest S that does",
        file="op_host/tiling.cpp",
        old="if (ub.total + kSmallestCopyBytes > platform.ub_bytes) continue;",
        new="if (ub.total > 2 * platform.ub_bytes) continue;",
        tests=checked(
            "tests/ut/test_pool_calls.py::"
            "test_what_the_device_cannot_hold_is_refused_with_the_largest_that_fits[cpu-checked]"
        ),
    ),
    Mutation(
        name="tiling-overlaps-tokens-and-stamps",
        rule="State of one row: slot_token int32 [S+8]; DESIGN.md, Kernel: UB",
        file="op_host/tiling.cpp",
        old="ub.slot_token = carver.Take(4 * (num_slots + kSlotTail));",
        new="ub.slot_token = carver.Take(4 * num_slots);",
        tests=checked(*vector("cpu-checked", "aliases")),
    ),
    Mutation(
        name="tiling-never-walks-eight-buckets",
        rule="Constants: PROBE_ROUNDS R is 8 when S < 2K",
        file="op_host/tiling.cpp",
        old="return num_slots < 2 * top_k ? kProbeRoundsSmall : kProbeRounds;",
        new="return num_slots < top_k ? kProbeRoundsSmall : kProbeRounds;",
        tests=checked(
            "tests/ut/test_pool_calls.py::test_native_sizes_equal_the_references[sizes1-cpu-checked]"
        ),
    ),
    Mutation(
        name="c-abi-accepts-overlapping-memory",
        rule="DESIGN.md, C ABI: what a call writes is memory of its own",
        file="framework/c_api/check.cpp",
        old="if (!(a.written || b.written) || ",
        new="if (!(a.written && b.written) || ",
        tests=checked(OVERLAP),
    ),
)

MUTATIONS = (*COPY, *HOST)
