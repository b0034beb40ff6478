# SPDX-License-Identifier: Apache-2.0
"""Wrong structure is refused by name, whatever `check` says, and nothing has changed."""

import numpy as np
import pytest

import avsg
from pool_case import PoolCase, int32, refused, spoil


class Foreign:
    """A tensor of another device."""

    dtype, shape, device = "torch.int32", (2,), "npu:0"

    def data_ptr(self):
        return 4096

    def element_size(self):
        return 4

    def is_contiguous(self):
        return True


def read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    view = np.frombuffer(raw, array.dtype).reshape(array.shape)
    view[...] = array
    return view


# case: (call, argument, bad value, error, words of the sentence)
# fmt: off
STRUCTURE = {
    "a list is no array": ("match", "leases", lambda c: [1, 2], TypeError, "leases a list only an array"),
    "int64 tokens": ("match", "topk_tokens", lambda c: c.topk_tokens.astype(np.int64), TypeError,
        "topk_tokens.dtype int64 int32"),
    "big-endian rows": ("match", "rows", lambda c: c.lines["rows"].astype(">i4"), TypeError,
        "rows.dtype >i4 int32"),
    "float lengths": ("step", "seq_lens", lambda c: np.zeros(2, np.float32), TypeError,
        "seq_lens.dtype float32 int32"),
    "wrong K": ("match", "topk_tokens", lambda c: np.zeros((2, 2, 16), np.int32), ValueError,
        "topk_tokens.shape [2, 2, 16] K = 8 -1"),
    "Q above num_queries": ("match", "topk_tokens", lambda c: np.zeros((2, 3, 8), np.int32), ValueError,
        "topk_tokens.shape [2, 3, 8] num_queries = 2"),
    "two dimensions": ("step", "topk_tokens", lambda c: np.zeros((2, 8), np.int32), ValueError,
        "topk_tokens.shape [2, 8] [B, Q, K]"),
    "no entries": ("match", "topk_tokens", lambda c: np.zeros((0, 1, 8), np.int32), ValueError,
        "topk_tokens.shape B >= 1"),
    "one row too few": ("match", "rows", lambda c: int32(0), ValueError, "rows.shape [1] [B] = [2]"),
    "column of leases": ("match", "leases", lambda c: np.zeros((2, 1), np.int32), ValueError,
        "leases.shape [2, 1] = [2]"),
    "strided tokens": ("match", "topk_tokens", lambda c: np.zeros((2, 2, 16), np.int32)[:, :, ::2],
        ValueError, "topk_tokens not contiguous C-contiguous"),
    "transposed table": ("load", "block_table", lambda c: np.zeros((5, 2), np.int32).T, ValueError,
        "block_table not contiguous"),
    "misaligned lengths": ("match", "verified_lens", lambda c: misaligned(c.lines["verified_lens"]),
        ValueError, "verified_lens multiple of 4"),
    "another device": ("match", "rows", lambda c: Foreign(), ValueError, "rows.device npu cpu"),
    "no plan": ("load", "plan", lambda c: c.plan.slots, TypeError, "plan ndarray avsg.Plan"),
    "out is a tuple": ("match", "out", lambda c: (1, 2), TypeError, "out tuple avsg.Plan"),
    "out of another batch": ("match", "out", lambda c: avsg.Plan.empty(1, 2, 8), ValueError,
        "out.slots.shape [1, 2, 8]"),
    "out of another Q": ("step", "out", lambda c: avsg.Plan.empty(2, 1, 8), ValueError,
        "out.slots.shape [2, 1, 8]"),
    "read-only counters": ("match", "out", lambda c: spoil(c.out, counters=read_only(c.out.counters)),
        ValueError, "out.counters read-only writable"),
    "short miss_tokens": ("load", "plan",
        lambda c: spoil(c.plan, miss_tokens=c.plan.miss_tokens[:, :8].copy()), ValueError,
        "plan.miss_tokens.shape [2, 8] [2, 16]"),
    "plan of another K": ("load", "plan", lambda c: avsg.Plan.empty(2, 2, 16), ValueError,
        "plan.slots.shape [2, 2, 16]"),
    "five payloads": ("load", "host_kv", lambda c: c.host_kv[:1] * 5, ValueError, "host_kv 5 1 to 4"),
    "no payload": ("load", "host_kv", lambda c: [], ValueError, "host_kv 0 1 to 4"),
    "one device_kv for two host_kv": ("load", "device_kv", lambda c: c.device_kv[0], ValueError,
        "device_kv 1 host_kv 2"),
    "one fresh for two host_kv": ("step", "fresh", lambda c: c.fresh[:1], ValueError, "fresh 1 host_kv 2"),
    "fresh for one of two": ("load", "fresh", lambda c: [c.fresh[0], None], TypeError, "fresh[1] NoneType"),
    "one-dimensional host_kv": ("load", "host_kv", lambda c: [np.zeros(64, np.uint8), c.host_kv[1]],
        ValueError, "host_kv[0].shape [num_blocks, block_size, ...]"),
    "empty host_kv": ("load", "host_kv", lambda c: [h[:0] for h in c.host_kv], ValueError,
        "host_kv[0].shape empty"),
    "payloads of different blocks": ("load", "host_kv", lambda c: [c.host_kv[0], c.host_kv[1][:-1].copy()],
        ValueError, "host_kv[1].shape[:2] [47, 4] [48, 4]"),
    "24-byte rows": ("load", "host_kv", lambda c: [np.zeros((48, 4, 24), np.uint8), c.host_kv[1]], ValueError,
        "bytes per row host_kv[0] 24 multiple of 16"),
    "device rows of another size": ("step", "device_kv",
        lambda c: [c.device_kv[0], np.zeros((192, 32), np.uint8)], ValueError,
        "bytes per row device_kv[1] 32 host_kv 16"),
    "too few device rows": ("load", "device_kv", lambda c: [d[:-1].copy() for d in c.device_kv], ValueError,
        "device_kv[0].shape [191, 32] num_rows * S [192"),
    "fresh of another Q": ("load", "fresh", lambda c: [f[:, :1].copy() for f in c.fresh], ValueError,
        "fresh[0].shape [2, 1, 32] [2, 2, ...]"),
    "fresh rows of another size": ("load", "fresh", lambda c: c.fresh[::-1], ValueError, "fresh[0] 16 32"),
    "objects": ("load", "host_kv", lambda c: [np.zeros((48, 4, 4), object), c.host_kv[1]], TypeError,
        "host_kv[0].dtype object bytes"),
    "read-only device_kv": ("load", "device_kv", lambda c: [c.device_kv[0], read_only(c.device_kv[1])],
        ValueError, "device_kv[1] read-only"),
    "strided host_kv": ("load", "host_kv",
        lambda c: [np.zeros((48, 4, 64), np.uint8)[:, :, ::2], c.host_kv[1]], ValueError,
        "host_kv[0] not contiguous"),
    "a table of three dimensions": ("load", "block_table", lambda c: np.zeros((2, 5, 1), np.int32),
        ValueError, "block_table.shape [2, 5, 1] [B, max_blocks]"),
    "a line too few": ("step", "block_table", lambda c: c.block_table[:1], ValueError,
        "block_table.shape [1, 5] B = 2"),
    "int64 table": ("store", "block_table", lambda c: c.block_table.astype(np.int64), TypeError,
        "block_table.dtype int64"),
    "read-only host_kv": ("store", "host_kv", lambda c: [read_only(h) for h in c.host_kv], ValueError,
        "host_kv[0] read-only"),
    "positions in a matrix": ("store", "positions", lambda c: np.zeros((2, 2), np.int32), ValueError,
        "positions.shape [2, 2] [T]"),
    "an entry too few": ("store", "entries", lambda c: int32(0, 0, 1), ValueError,
        "entries.shape [3] [T] = [4]"),
    "a new row too few": ("store", "new_rows", lambda c: [n[:3] for n in c.new_rows], ValueError,
        "new_rows[0].shape [3, 32] [4, ...]"),
    "new rows of another size": ("store", "new_rows", lambda c: c.new_rows[::-1], ValueError,
        "new_rows[0] 16 32"),
    "out over the input": ("match", "out", lambda c: spoil(c.out, rows=c.lines["rows"]), ValueError,
        "memory rows shared separate"),
    "out over the state": ("match", "out",
        lambda c: spoil(c.out, counters=c.pool.state[0, :64].view(np.int32).reshape(2, 8)), ValueError,
        "out.counters pool.state shared"),
    "two outputs in one place": ("match", "out", lambda c: spoil(c.out, miss_slots=c.out.miss_tokens),
        ValueError, "out.miss_slots out.miss_tokens shared"),
    "device_kv over host_kv": ("load", "device_kv", lambda c: [c.device_kv[0], c.host_kv[1].reshape(-1, 16)],
        ValueError, "device_kv[1] host_kv[1] shared"),
    "one device_kv twice": ("load", "both",
        lambda c: {"host_kv": c.host_kv[:1] * 2, "device_kv": c.device_kv[:1] * 2, "fresh": None}, ValueError,
        "device_kv[0] shared"),
    "new rows inside host_kv": ("store", "new_rows",
        lambda c: [c.host_kv[0].reshape(-1, 32)[:4], c.new_rows[1]], ValueError,
        "new_rows[0] host_kv[0] shared"),
}
# fmt: on


@pytest.fixture
def case():
    return PoolCase()


@pytest.mark.parametrize("call", ["match", "load", "step", "store"])
def test_the_unspoilt_arguments_are_accepted(case, call):
    getattr(case.pool, call)(**case.arguments(call))


@pytest.mark.parametrize("what", STRUCTURE)
@pytest.mark.parametrize("check", [True, False], ids=["check", "no check"])
def test_wrong_structure_is_refused_by_name(case, what, check):
    call, name, make, error, words = STRUCTURE[what]
    original = getattr(case.pool, call)
    setattr(case.pool, call, lambda **arguments: original(check=check, **arguments))
    refused(case, call, name, make, error, words)
