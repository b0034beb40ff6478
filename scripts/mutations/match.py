# SPDX-License-Identifier: Apache-2.0
"""Planted faults of the Match kernel."""

from __future__ import annotations

from .case import Mutation, checked, fast, vector

PROBE, COLLECT = "op_kernel/match_probe.h", "op_kernel/match_collect.h"
LINK, STATE, MATCH = "op_kernel/match_link.h", "op_kernel/match_state.h", "op_kernel/avsg_match.h"
LAW = "tests/st/test_laws.py::"
INVISIBLE = "tests/st/test_invisible.py::test_attention_reads_the_hosts_rows"
VERSIONED = "tests/st/test_versioned_host.py::"
KEPT_CONTRACT = f"{VERSIONED}test_no_row_is_stale_when_the_contract_is_kept"
BAD_BLOCK = "tests/st/test_invisible.py::test_bad_block_gives_zeros_poisons_and_the_next_step_resets"

TOKENS = (
    Mutation(
        name="match-accepts-the-fingerprint",
        rule="PROBE: the full token is the only acceptance test",
        file=PROBE,
        old="  Compare(hit_mask_, word, tokens_, CMPMODE::EQ, count);\n",
        new="  CutField(word, 16, 0, count);\n  Fence();\n"
        "  Compare(hit_mask_, word, fingerprint, CMPMODE::EQ, count);\n",
        tests=checked(*vector("cpu-checked", "aliases")),
    ),
    Mutation(
        name="match-takes-padding-for-a-token",
        rule="PROBE: valid i: 0 <= x_i < limit; negative is padding",
        file=PROBE,
        old="    Maxs(temp, raw, 0, k64_);\n    Fence();\n    Mins(",
        new="    Maxs(temp, raw, -1, k64_);\n    Fence();\n    Mins(",
        tests=checked(f"{LAW}test_only_tokens_from_zero_to_limit_get_slots[cpu-checked]"),
    ),
    Mutation(
        name="match-takes-the-token-at-limit",
        rule="PROBE: x_i >= limit is a bad token",
        file=PROBE,
        old="Mins(temp, temp, limit_ - 1, k64_);",
        new="Mins(temp, temp, limit_, k64_);",
        tests=checked(f"{LAW}test_only_tokens_from_zero_to_limit_get_slots[cpu-checked]"),
    ),
    Mutation(
        name="match-walks-one-bucket-less",
        rule="PROBE: repeat R times",
        file=PROBE,
        old="round < tiling_.probe_rounds;",
        new="round + 1 < tiling_.probe_rounds;",
        tests=checked(*vector("cpu-checked", "churn_2_32")),
    ),
    Mutation(
        name="match-does-not-refresh-hits",
        rule="REFRESH: a hit moves an old stamp part of the way to now",
        file=PROBE,
        old="  Classify();\n  Refresh();\n",
        new="  Classify();\n",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-refreshes-by-one-step-more",
        rule="REFRESH: stamp = max(step - max(a - (a >> 2) - D + 1, 0), low)",
        file=PROBE,
        old="Adds(stamp, stamp, 1 - Lag(), count);",
        new="Adds(stamp, stamp, -Lag(), count);",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-refreshes-slots-that-were-not-hit",
        rule="REFRESH: hit slots only, here where slots are marked by sorting",
        file="op_kernel/match_mark.h",
        old="  AndMask(old, slot_mask_, count);\n",
        new="",
        tests=checked(f"{LAW}test_hits_move_towards_now_and_no_other_slot_does[cpu-checked]"),
    ),
    Mutation(
        name="match-does-not-end-slots-by-minus-one",
        rule="OUTPUT: packed, then -1",
        file=COLLECT,
        old="  FillTail(slots_, num_valid_, tiling_.top_k, kPadToken);\n",
        new="",
        tests=checked(*vector("cpu-checked", "tiny_context")),
    ),
)

ROWS = (
    Mutation(
        name="match-skips-close",
        rule="CLOSE: every plan entry with x >= V leaves its slot",
        file=STATE,
        old="{ Tally(kCounterInvalidated, Invalidate(verified_len_)); }",
        new="{}",
        tests=checked(f"{VERSIONED}test_rejected_drafts_are_read_anew[cpu-checked]"),
    ),
    Mutation(
        name="match-closes-at-v-plus-one",
        rule="CLOSE: every plan entry with x >= V leaves its slot",
        file=STATE,
        old="{ Tally(kCounterInvalidated, Invalidate(verified_len_)); }",
        new="{ Tally(kCounterInvalidated, Invalidate(verified_len_ + 1)); }",
        tests=checked(f"{VERSIONED}test_rejected_drafts_are_read_anew[cpu-checked]"),
    ),
    Mutation(
        name="match-rolls-back-to-v-plus-one",
        rule="OPEN: if V < high: every slot with slot_token >= V is emptied",
        file=STATE,
        old="if (rolled_back) Tally(kCounterInvalidated, Invalidate(verified_len_));",
        new="if (rolled_back) Tally(kCounterInvalidated, Invalidate(verified_len_ + 1));",
        tests=checked(*vector("cpu-checked", "small_q1")),
    ),
    Mutation(
        name="match-accepts-another-lease",
        rule="OPEN: reset the row if lease differs",
        file=STATE,
        old="                   static_cast<int32_t>(lease_step) == lease_ &&\n",
        new="",
        tests=checked(f"{KEPT_CONTRACT}[cpu-checked-match+load-1]"),
    ),
    Mutation(
        name="match-ignores-poison",
        rule="OPEN: reset the row if poison is set",
        file=STATE,
        old="poison_slots == static_cast<uint64_t>(tiling_.num_slots) << 32;\n",
        new="poison_slots >> 32 == static_cast<uint64_t>(tiling_.num_slots);\n",
        tests=checked(f"{BAD_BLOCK}[cpu-checked--1]"),
    ),
    Mutation(
        name="match-accepts-a-row-named-twice",
        rule="An entry is inactive when an earlier active entry names the same row (flag 8)",
        file=STATE,
        old="if (active_ && NamedBefore(entry, row_)) {",
        new="if (active_ && row_ < 0 && NamedBefore(entry, row_)) {",
        tests=checked(f"{LAW}test_entry_that_names_a_row_again_is_inactive[cpu-checked]"),
    ),
    Mutation(
        name="match-writes-the-header-after-the-poison",
        rule="DESIGN.md, Kernel: the write-back must never undo a poison that load has set meanwhile",
        file=STATE,
        old="  AwaitLoad(kBucketLoad);\n  counters_[kCounterMisses]",
        new="  AwaitLoad(kBucketLoad);\n"
        "  CopyOut(Global<int32_t>(args_.state, row_ * tiling_.state_stride_bytes), "
        "header_, 4 * kHeaderWords);\n"
        "  counters_[kCounterMisses]",
        tests=checked(f"{LAW}test_poison_of_a_load_survives_the_write_back_of_its_step[cpu-checked-1]"),
    ),
)

VICTIMS = (
    Mutation(
        name="match-does-not-spare-promised-slots",
        rule="COLLECT: late = promised slots with stamp <= T get a new stamp, T is sought again",
        file=COLLECT,
        old="const int32_t num_late = StampPromised(query, floor);",
        new="const int32_t num_late = 0;",
        tests=checked(*vector("cpu-checked", "flag2")),
    ),
    Mutation(
        name="match-forgets-the-stamp-of-a-late-slot",
        rule="COLLECT: stamps of late become step",
        file=COLLECT,
        old="    slot_stamp_.SetValue(static_cast<uint32_t>(pair) / 4, now);\n",
        new="",
        tests=checked(*vector("cpu-checked", "flag2")),
    ),
    Mutation(
        name="match-stamps-marked-late-slots-one-step-old",
        rule="COLLECT: stamps of late become step, here where slots are marked by sorting",
        file=COLLECT,
        old="Select(slot_stamp_, slot_mask_, slot_stamp_, now,",
        new="Select(slot_stamp_, slot_mask_, slot_stamp_, now - 1.0f,",
        tests=checked(*vector("cpu-checked", "dsa_2k_exact")),
    ),
    Mutation(
        name="match-stamps-all-promised-in-the-fourth-pass",
        rule="COLLECT: in the third and later such passes, stamps of all promised",
        file=COLLECT,
        old="if (pass >= 3) {",
        new="if (pass >= 4) {",
        tests=checked(f"{LAW}test_third_pass_stamps_all_promised_slots[cpu-checked]"),
    ),
    Mutation(
        name="match-seeks-t-above-the-floor",
        rule="COLLECT: T = smallest integer >= floor",
        file=COLLECT,
        old="  int32_t floor = floor_;\n",
        new="  int32_t floor = floor_ + 1;\n",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-does-not-stamp-the-last-victim",
        rule="INSTALL: slot_stamp[v] = new",
        file=COLLECT,
        old="~uint64_t{0} << (last % kLanes) << 1;",
        new="~uint64_t{0} << (last % kLanes);",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-always-installs-at-step",
        rule="INSTALL: new = step if 2n > K, else near the old end",
        file=COLLECT,
        old="2 * num_misses_ > tiling_.top_k",
        new="num_misses_ > 0",
        tests=checked(*vector("cpu-checked", "aliases")),
    ),
)

LINKS = (
    Mutation(
        name="match-links-once",
        rule="LINK: LINK_ROUNDS times",
        file=LINK,
        old="round < kLinkRounds &&",
        new="round < 1 &&",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-lets-the-lowest-k-win",
        rule="LINK: the highest k wins a collision",
        file=LINK,
        old="""\
  for (int32_t i = 0; i < count; i += 2) {
    const uint64_t word2 = words.GetValue(i / 2);
    const uint64_t target2 = targets.GetValue(i / 2);
    bucket_word_.SetValue(static_cast<uint32_t>(target2) / 4, static_cast<uint32_t>(word2));
    if (i + 1 == count) break;
    bucket_word_.SetValue(static_cast<uint32_t>(target2 >> 32) / 4, static_cast<uint32_t>(word2 >> 32));
  }
""",
        new="""\
  for (int32_t i = count - 1; i >= 0; --i) {
    const uint64_t word2 = words.GetValue(i / 2) >> 32 * (i % 2);
    const uint64_t target2 = targets.GetValue(i / 2) >> 32 * (i % 2);
    bucket_word_.SetValue(static_cast<uint32_t>(target2) / 4, static_cast<uint32_t>(word2));
  }
""",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-overwrites-links-of-this-step",
        rule="LINK: if none is free, among those with slot_stamp[s] < step",
        file=LINK,
        old="Mins(key, key, 16 * (step_ - 1) + buckets, lanes);",
        new="Mins(key, key, 16 * step_ + buckets, lanes);",
        tests=checked(*vector("cpu-checked", "s_eq_k_512")),
    ),
    Mutation(
        name="match-never-links-the-last-query",
        rule="LINK: todo = all n misses of each query",
        file=MATCH,
        old="  Link(copies);\n  copies.Advance();\n",
        new="  WaitFlag<HardEvent::MTE3_V>(kPlanEvent);\n  copies.Advance();\n",
        tests=fast(*vector("cpu", "aliases", "small_q1")),
    ),
)

ORDER = (
    Mutation(
        name="match-lacks-a-fence-in-probe",
        rule="DESIGN.md, Kernel: a vector instruction reads what another wrote only behind a barrier",
        file=PROBE,
        old="AsUint(bucket), 0U, static_cast<uint32_t>(count));\n    Fence();\n",
        new="AsUint(bucket), 0U, static_cast<uint32_t>(count));\n",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-reads-stamps-before-they-are-there",
        rule="DESIGN.md, Kernel: the scalar unit reads what the vector pipe wrote only behind an event",
        file=PROBE,
        old="  Sync<HardEvent::V_S>();\n  for (int32_t i = 0; i < num_changed; i += 2) {\n",
        new="  for (int32_t i = 0; i < num_changed; i += 2) {\n",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="match-uses-top-k-before-it-has-arrived",
        rule="DESIGN.md, Kernel: the vector pipe reads what MTE2 brought only behind an event",
        file=PROBE,
        old="  Sync<HardEvent::MTE2_V>();\n  if (k64_ > tiling_.top_k)",
        new="  if (k64_ > tiling_.top_k)",
        tests=checked(*vector("cpu-checked", "all_hit")),
    ),
    Mutation(
        name="step-loads-before-all-have-matched",
        rule="DESIGN.md, House: the fused entry is match, SyncAll, load",
        file="op_kernel/avsg.cpp",
        old="  AscendC::SyncAll();\n",
        new="",
        tests=checked(f"{INVISIBLE}[cpu-checked-one payload-step-host]"),
    ),
)

MUTATIONS = (*TOKENS, *ROWS, *VICTIMS, *LINKS, *ORDER)
