# SPDX-License-Identifier: Apache-2.0
"""Every argument that the C ABI refuses: which calls, which argument, what it is set to, what is said."""

INT64_MAX = 2**63 - 1
ALL = ("match", "load", "step_fused", "store")
STEPS = ("match", "step_fused")
LOADS = ("load", "step_fused")
COPIES = ("load", "step_fused", "store")

# (calls, argument, value or a function of the valid arguments, what the sentence says)
CONFIG = [
    ("config", None, "avsg_config is NULL"),
    ("config.struct_bytes", 24, "struct_bytes of avsg_config is 24, this library knows 28"),
    ("config.num_rows", 0, "num_rows is 0"),
    ("config.num_rows", -1, "num_rows is -1"),
    ("config.num_slots", 0, "num_slots is 0"),
    ("config.num_slots", 96, "num_slots is 96, allowed are multiples of 64"),
    ("config.num_slots", 65472, "num_slots is 65472"),
    ("config.num_slots", -64, "num_slots is -64"),
    ("config.top_k", 0, "top_k is 0"),
    ("config.top_k", 12, "top_k is 12"),
    ("config.top_k", -8, "top_k is -8"),
    ("config.num_queries", 0, "num_queries is 0"),
    ("config.num_queries", 5, "num_queries * top_k is 80, more than num_slots = 64"),
    ("config.num_queries", 2**31 - 1, "num_queries * top_k"),
    ("config.max_life", 0, "max_life is 0"),
    ("config.max_life", 2001, "max_life is 2001"),
    ("config.num_cores", -1, "num_cores is -1"),
    ("config.num_cores", 65, "num_cores is 65"),
]
REFUSALS = [
    *[(("sizes", *ALL), *case) for case in CONFIG],
    (("sizes",), "report", None, "avsg_size_report is NULL"),
    (("sizes",), "report.struct_bytes", 60, "struct_bytes of avsg_size_report is 60, this library knows 64"),
    (ALL, "stream", 1, "stream is not NULL"),
    (ALL, "workspace", None, "workspace is NULL"),
    (ALL, "workspace", lambda c: c.workspace + 8, "workspace is at"),
    (("match", "load", "step_fused"), "state", None, "state is NULL"),
    (("match", "load", "step_fused"), "state", lambda c: c.state + 16, "multiples of 32"),
    (("match", "load", "step_fused"), "state", lambda c: 2**64 - 32, "64-bit address space"),
    # the step
    (STEPS, "step", None, "avsg_step is NULL"),
    (STEPS, "step.struct_bytes", 0, "struct_bytes of avsg_step is 0"),
    (STEPS, "step.num_entries", 0, "num_entries of avsg_step is 0"),
    (STEPS, "step.num_entries", -3, "num_entries of avsg_step is -3"),
    (STEPS, "step.num_queries", 0, "num_queries of avsg_step is 0, allowed is 1 to 2"),
    (STEPS, "step.num_queries", 3, "num_queries of avsg_step is 3, allowed is 1 to 2"),
    *[
        (STEPS, f"step.{field}", None, f"{field}{of} is NULL")
        for field, of in (
            ("topk_tokens", ""),
            ("verified_lens", " of avsg_step"),
            ("seq_lens", ""),
            ("leases", ""),
            ("rows", " of avsg_step"),
        )
    ],
    *[
        (STEPS, f"step.{field}", lambda c, field=field: getattr(c.step, field) + 2, "multiples of 4")
        for field in ("topk_tokens", "verified_lens", "seq_lens", "leases", "rows")
    ],
    # the plan, written by a match
    (STEPS, "plan", None, "avsg_plan is NULL"),
    (STEPS, "plan.struct_bytes", 71, "struct_bytes of avsg_plan is 71"),
    (STEPS, "plan.num_entries", 2, "avsg_plan is for 2 entries of 2 queries, avsg_step has 3 of 2"),
    (STEPS, "plan.num_queries", 1, "avsg_plan is for 3 entries of 1 queries, avsg_step has 3 of 2"),
    *[
        (STEPS, f"plan.{field}", None, f"{field}{of} is NULL")
        for field, of in (
            ("slots", ""),
            ("miss_tokens", ""),
            ("miss_slots", ""),
            ("num_misses", ""),
            ("counters", ""),
            ("rows", " of avsg_plan"),
            ("verified_lens", " of avsg_plan"),
        )
    ],
    *[
        (STEPS, f"plan.{field}", lambda c, field=field: getattr(c.plan, field) + 1, "multiples of 4")
        for field in ("slots", "miss_tokens", "miss_slots", "num_misses", "counters", "rows", "verified_lens")
    ],
    # the plan, read by a load
    (("load",), "plan", None, "avsg_plan is NULL"),
    (("load",), "plan.struct_bytes", 8, "struct_bytes of avsg_plan is 8"),
    (("load",), "plan.num_entries", 0, "num_entries of avsg_plan is 0"),
    (("load",), "plan.num_queries", 3, "num_queries of avsg_plan is 3, allowed is 1 to 2"),
    *[
        (("load",), f"plan.{field}", None, f"{field}{of} is NULL")
        for field, of in (
            ("miss_tokens", ""),
            ("miss_slots", ""),
            ("num_misses", ""),
            ("rows", " of avsg_plan"),
            ("verified_lens", " of avsg_plan"),
        )
    ],
    # blocks
    (COPIES, "blocks", None, "avsg_blocks is NULL"),
    (COPIES, "blocks.struct_bytes", 24, "struct_bytes of avsg_blocks is 24"),
    (COPIES, "blocks.block_size", 0, "block_size is 0"),
    (COPIES, "blocks.max_blocks", -1, "max_blocks is -1"),
    (COPIES, "blocks.num_host_blocks", 0, "num_host_blocks is 0"),
    (COPIES, "blocks.num_host_blocks", INT64_MAX, "does not fit a 64-bit address space"),
    (COPIES, "blocks.num_entries", 0, "num_entries of avsg_blocks is 0"),
    (LOADS, "blocks.num_entries", 2, "num_entries of avsg_blocks is 2, avsg_plan has 3"),
    (COPIES, "blocks.block_table", None, "block_table is NULL"),
    (COPIES, "blocks.block_table", lambda c: c.blocks.block_table + 2, "multiples of 4"),
    # payloads
    (COPIES, "num_payloads", 0, "num_payloads is 0, allowed is 1 to 4"),
    (COPIES, "num_payloads", 5, "num_payloads is 5, allowed is 1 to 4"),
    (LOADS, "payloads", None, "payloads is NULL"),
    (LOADS, "payloads[1].struct_bytes", 0, "struct_bytes of avsg_payload is 0"),
    (LOADS, "payloads[1].reserved", 7, "payloads[1].reserved is 7, allowed is 0"),
    (LOADS, "payloads[1].row_bytes", 24, "payloads[1].row_bytes is 24, allowed are positive multiples of 16"),
    (LOADS, "payloads[0].row_bytes", 0, "payloads[0].row_bytes is 0"),
    (LOADS, "payloads[0].row_bytes", -16, "payloads[0].row_bytes is -16"),
    (LOADS, "payloads[0].row_bytes", 2**60, "does not fit a 64-bit address space"),
    (LOADS, "payloads[1].host_kv", None, "payloads[1].host_kv is NULL"),
    (LOADS, "payloads[0].device_kv", None, "payloads[0].device_kv is NULL"),
    (LOADS, "payloads[1].fresh", None, "fresh is given for payloads[0] but not for payloads[1]"),
    (LOADS, "payloads[0].fresh", None, "fresh is given for payloads[1] but not for payloads[0]"),
    (LOADS, "counters", None, "load_counters is NULL"),
    (LOADS, "counters", lambda c: c.counters + 1, "load_counters is at"),
    # store
    (("store",), "store_payloads", None, "payloads is NULL"),
    (("store",), "store_payloads[0].struct_bytes", 40, "struct_bytes of avsg_store_payload is 40"),
    (("store",), "store_payloads[1].reserved", 1, "payloads[1].reserved is 1"),
    (("store",), "store_payloads[1].row_bytes", 8, "payloads[1].row_bytes is 8"),
    (("store",), "store_payloads[0].host_kv", None, "payloads[0].host_kv is NULL"),
    (("store",), "store_payloads[1].new_rows", None, "payloads[1].new_rows is NULL"),
    (("store",), "positions", None, "positions is NULL"),
    (("store",), "positions", lambda c: c.positions + 2, "positions is at"),
    (("store",), "entries", None, "entries is NULL"),
    (("store",), "num_new_rows", 0, "num_new_rows is 0"),
    (("store",), "num_new_rows", -1, "num_new_rows is -1"),
    (("store",), "counters", None, "store_counters is NULL"),
]
# One tensor's memory inside another's: calls, argument, where it is put, what it then overlaps.
OVERLAPS = [
    (STEPS, "plan.slots", lambda c: c.step.topk_tokens, "topk_tokens"),
    (STEPS, "plan.rows", lambda c: c.step.rows, "rows of avsg_plan"),
    (STEPS, "plan.miss_slots", lambda c: c.plan.miss_tokens + 4, "miss_tokens"),
    (STEPS, "plan.counters", lambda c: c.state + c.report.state_bytes - 4, "state"),
    (STEPS, "workspace", lambda c: c.state, "workspace"),
    (LOADS, "payloads[0].device_kv", lambda c: c.payloads[0].host_kv, "payloads[0].host_kv"),
    (LOADS, "payloads[1].device_kv", lambda c: c.payloads[0].device_kv + 16, "payloads[1].device_kv"),
    (LOADS, "payloads[1].device_kv", lambda c: c.payloads[1].fresh, "payloads[1].fresh"),
    (LOADS, "payloads[0].device_kv", lambda c: c.state, "state"),
    (LOADS, "payloads[0].device_kv", lambda c: c.plan.miss_tokens, "miss_tokens"),
    (LOADS, "counters", lambda c: c.plan.num_misses, "num_misses"),
    (LOADS, "blocks.block_table", lambda c: c.workspace, "block_table"),
    (("step_fused",), "payloads[0].device_kv", lambda c: c.step.leases, "leases"),
    (("store",), "store_payloads[1].host_kv", lambda c: c.store_payloads[0].host_kv, "payloads[1].host_kv"),
    (("store",), "store_payloads[0].new_rows", lambda c: c.store_payloads[0].host_kv, "payloads[0].new_rows"),
    (("store",), "counters", lambda c: c.positions, "store_counters"),
    (("store",), "entries", lambda c: c.store_payloads[0].host_kv, "entries"),
]


def each_call(cases: list[tuple]) -> list[tuple]:
    """One case per call."""
    return [(call, *case) for calls, *case in cases for call in calls]
