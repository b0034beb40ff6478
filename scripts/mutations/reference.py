# SPDX-License-Identifier: Apache-2.0
"""Planted faults of the numpy reference and of the Python package."""

from __future__ import annotations

from .case import Mutation, python, vector

REFERENCE, COPY = "python/avsg/reference.py", "python/avsg/reference_copy.py"
LAW, COPY_LAW = "tests/ut/test_reference.py::", "tests/ut/test_reference_copy.py::"

RULES = (
    Mutation(
        name="reference-accepts-the-fingerprint",
        rule="PROBE: the full token is the only acceptance test",
        file=REFERENCE,
        old="return slots, row.slot_token[slots] == tokens\n",
        new="return slots, (row.slot_token[slots] & 0xFFFF) == (tokens & 0xFFFF)\n",
        tests=python(*vector("reference", "aliases")),
    ),
    Mutation(
        name="reference-takes-padding-for-a-token",
        rule="PROBE: valid i: 0 <= x_i < limit; negative is padding",
        file=REFERENCE,
        old="valid = (top_k_tokens >= 0) &",
        new="valid = (top_k_tokens >= -1) &",
        tests=python(f"{LAW}test_all_padding_gives_no_slots_and_costs_one_step"),
    ),
    Mutation(
        name="reference-does-not-refresh-hits",
        rule="REFRESH: a hit moves an old stamp part of the way to now",
        file=REFERENCE,
        old="    refresh(row, slots[hit])\n",
        new="",
        tests=python(*vector("reference", "small_q1")),
    ),
    Mutation(
        name="reference-skips-close",
        rule="CLOSE: every plan entry with x >= V leaves its slot",
        file=REFERENCE,
        old="    row.forget(drafts)\n",
        new="",
        tests=python(f"{LAW}test_draft_is_forgotten_at_close"),
    ),
    Mutation(
        name="reference-closes-at-v-plus-one",
        rule="CLOSE: every plan entry with x >= V leaves its slot",
        file=REFERENCE,
        old="drafts = plan_slots[plan_tokens >= verified_len]",
        new="drafts = plan_slots[plan_tokens > verified_len]",
        tests=python(f"{LAW}test_draft_is_forgotten_at_close"),
    ),
    Mutation(
        name="reference-rolls-back-to-v-plus-one",
        rule="OPEN: if V < high: every slot with slot_token >= V is emptied",
        file=REFERENCE,
        old="rolled_back = row.slot_token >= verified_len",
        new="rolled_back = row.slot_token > verified_len",
        tests=python(f"{LAW}test_rolled_back_tokens_are_forgotten_at_open"),
    ),
    Mutation(
        name="reference-accepts-another-lease",
        rule="OPEN: reset the row if lease differs",
        file=REFERENCE,
        old="        or head[layout.HEADER_LEASE] != lease\n",
        new="",
        tests=python(f"{LAW}test_wrong_header_resets_the_row"),
    ),
    Mutation(
        name="reference-ignores-poison",
        rule="OPEN: reset the row if poison is set",
        file=REFERENCE,
        old="        or head[layout.HEADER_POISON] != 0\n",
        new="",
        tests=python(f"{LAW}test_wrong_header_resets_the_row"),
    ),
    Mutation(
        name="reference-accepts-a-row-named-twice",
        rule="An entry is inactive when an earlier active entry names the same row (flag 8)",
        file=REFERENCE,
        old="        elif index in seen:\n",
        new="        elif index in seen and index < 0:\n",
        tests=python(f"{LAW}test_inactive_entries_leave_no_trace"),
    ),
    Mutation(
        name="reference-does-not-spare-promised-slots",
        rule="COLLECT: late = promised slots with stamp <= T get a new stamp, T is sought again",
        file=REFERENCE,
        old="        if not late.any():\n",
        new="        if late.any() or not late.any():\n",
        tests=python(*vector("reference", "flag2")),
    ),
    Mutation(
        name="reference-stamps-all-promised-in-the-fourth-pass",
        rule="COLLECT: in the third and later such passes, stamps of all promised",
        file=REFERENCE,
        old="stamps[late if passes < 3 else row.promised]",
        new="stamps[late if passes < 4 else row.promised]",
        tests=python("tests/st/test_laws.py::test_third_pass_stamps_all_promised_slots[reference]"),
    ),
    Mutation(
        name="reference-seeks-t-above-the-floor",
        rule="COLLECT: T = smallest integer >= floor",
        file=REFERENCE,
        old="    if np.count_nonzero(stamps <= row.floor) >= num_victims:\n        return row.floor\n",
        new="    if np.count_nonzero(stamps <= row.floor) >= num_victims:\n        return row.floor + 1\n",
        tests=python(f"{LAW}test_all_miss_then_all_hit"),
    ),
    Mutation(
        name="reference-takes-victims-from-the-end",
        rule="COLLECT: victims = the first n slots in ascending index with stamp <= T",
        file=REFERENCE,
        old="np.flatnonzero(stamps <= threshold)[:num_victims]",
        new="np.flatnonzero(stamps <= threshold)[-num_victims:]",
        tests=python(f"{LAW}test_all_miss_then_all_hit"),
    ),
    Mutation(
        name="reference-always-installs-at-step",
        rule="INSTALL: new = step if 2n > K, else near the old end",
        file=REFERENCE,
        old="stamp = row.step if 2 * len(tokens) > top_k else near_old_end",
        new="stamp = max(row.step, near_old_end)",
        tests=python(*vector("reference", "small_q1")),
    ),
    Mutation(
        name="reference-links-once",
        rule="LINK: LINK_ROUNDS times",
        file=REFERENCE,
        old="for _ in range(layout.LINK_ROUNDS):",
        new="for _ in range(1):",
        tests=python(*vector("reference", "dup_k256")),
    ),
    Mutation(
        name="reference-lets-the-lowest-k-win",
        rule="LINK: the highest k wins a collision",
        file=REFERENCE,
        old="winners = linkable[last_of_each(targets[linkable])]",
        new="winners = linkable[np.unique(targets[linkable], return_index=True)[1]]",
        tests=python(*vector("reference", "dup_k256")),
    ),
)

COPIES = (
    Mutation(
        name="reference-share-ends-one-early",
        rule="Copy: core c copies [c*n/num_cores, (c+1)*n/num_cores)",
        file=COPY,
        old="range(core * n // num_cores, (core + 1) * n // num_cores)",
        new="range(core * n // num_cores, (core + 1) * n // num_cores - 1)",
        tests=python(f"{COPY_LAW}test_core_shares_cover_the_list_and_differ_by_one_at_most"),
    ),
    Mutation(
        name="reference-gives-every-row-to-one-core",
        rule="Copy: core c copies [c*n/num_cores, (c+1)*n/num_cores)",
        file=COPY,
        old="range(core * n // num_cores, (core + 1) * n // num_cores)",
        new="range(0, n if core == 0 else 0)",
        tests=python(f"{COPY_LAW}test_core_shares_cover_the_list_and_differ_by_one_at_most"),
    ),
    Mutation(
        name="reference-leaves-the-row-of-a-bad-block",
        rule="Copy: the device row of every payload is filled with zeros",
        file=COPY,
        old="        device_kv[targets[bad]] = 0\n",
        new="",
        tests=python(f"{COPY_LAW}test_bad_block_gives_zeros_and_poisons_the_row"),
    ),
    Mutation(
        name="reference-never-poisons",
        rule="Copy: the row's poison is set to 1 so that its next step starts from a reset",
        file=COPY,
        old="[0][layout.HEADER_POISON] = 1\n",
        new="[0][layout.HEADER_POISON] = 0\n",
        tests=python(f"{COPY_LAW}test_bad_block_gives_zeros_and_poisons_the_row"),
    ),
    Mutation(
        name="reference-takes-fresh-rows-one-token-late",
        rule="Copy: f = token - (V - 1)",
        file=COPY,
        old="fresh_index = tokens - (verified_lens - 1)",
        new="fresh_index = tokens - verified_lens",
        tests=python(f"{COPY_LAW}test_own_rows_come_from_fresh_whatever_the_block_table_says"),
    ),
    Mutation(
        name="reference-store-lets-the-lowest-index-win",
        rule="Store: positions of one call are distinct per entry; otherwise the highest index wins",
        file=COPY,
        old="last = len(targets) - 1 - np.unique(targets[::-1], return_index=True)[1]",
        new="last = np.unique(targets, return_index=True)[1]",
        tests=python(f"{COPY_LAW}test_store_of_one_position_twice_keeps_the_highest_index"),
    ),
)

PACKAGE = (
    Mutation(
        name="row-table-gives-a-released-lease-again",
        rule="Leases: an int32 that the engine never reuses within a pool's life",
        file="python/avsg/row_table.py",
        old="            del self._owners[sequence]\n",
        new="            del self._owners[sequence]\n            self._last_lease -= 1\n",
        tests=python("tests/ut/test_pool_row_table.py::TestRowTableLaws"),
    ),
    Mutation(
        name="pool-accepts-overlapping-memory",
        rule="DESIGN.md, Python: overlapping memory is refused by name before anything changes",
        file="python/avsg/arrays.py",
        old="        if start < (any_end if writes else writer_end):\n",
        new="        if start > end:\n",
        tests=python("tests/ut/test_pool_structure.py"),
    ),
)

MUTATIONS = (*RULES, *COPIES, *PACKAGE)
