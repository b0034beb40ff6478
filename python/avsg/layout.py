# SPDX-License-Identifier: Apache-2.0
"""Checked mirror of op_kernel/avsg_layout.h: constants, state layout, hash, tiling structs (layout version
1).

Names follow from the C++ ones: kMaxTokens is MAX_TOKENS, StateRowBytes is state_row_bytes, structs keep their
name. tests/ut/test_layout.py compares names, values and field offsets both ways.
"""

from __future__ import annotations

import ctypes
from typing import TypeVar

import numpy as np

IntOrArray = TypeVar("IntOrArray", int, np.ndarray)

# --- Constants of SPEC.md
MAX_TOKENS = 1 << 20
MAX_STEP = (1 << 24) - 1
PROBE_ROUNDS = 4
PROBE_ROUNDS_SMALL = 8
LINK_ROUNDS = 2
LAG_MIN = 4
LAG_MIN_SMALL = 1
LAG_MAX = 16
MAX_LIFE = 2000
HASH_A = 1597
HASH_B = 1213
HASH_C = 2477
EMPTY_TOKEN = -1
PAD_TOKEN = -1
EMPTY_FINGERPRINT = 0xFFFF
MAGIC = 0x41565347
LAYOUT_VERSION = 1
MAX_SLOTS = 65408
SLOT_MULTIPLE = 64
TOP_K_MULTIPLE = 8
ROW_BYTES_MULTIPLE = 16
MAX_PAYLOADS = 4

# --- State of one row
HEADER_WORDS = 128
SLOT_TAIL = 8
STRIDE_MULTIPLE = 512

HEADER_MAGIC = 0
HEADER_VERSION = 1
HEADER_LEASE = 2
HEADER_STEP = 3
HEADER_FLOOR = 4
HEADER_HIGH = 5
HEADER_POISON = 6
HEADER_SLOTS = 7

# --- Counters and flags
COUNTER_VALID = 0
COUNTER_HITS = 1
COUNTER_MISSES = 2
COUNTER_BAD_TOKENS = 3
COUNTER_INVALIDATED = 4
COUNTER_UNLINKED = 5
COUNTER_FLOOR_ADVANCE = 6
COUNTER_FLAGS = 7
NUM_COUNTERS = 8

FLAG_RESET = 1
FLAG_PROMISED_STAMPED = 2
FLAG_ROW_OUT_OF_RANGE = 4
FLAG_ROW_NAMED_TWICE = 8
FLAG_BAD_TOKEN = 16

LOAD_ROWS_COPIED = 0
LOAD_BAD_BLOCKS = 1
NUM_LOAD_COUNTERS = 2
STORE_ROWS_STORED = 0
STORE_SKIPPED = 1
NUM_STORE_COUNTERS = 2

# --- UB and device workspace of the kernels
SORT_LENGTH = 2048
COPY_WINDOW = 64
BLOCK_ID_WORDS = 8 * COPY_WINDOW  # an entry's block ids, or a 32-byte block for each of a window
COPY_WINDOW_BYTES = 4 * (5 * COPY_WINDOW + BLOCK_ID_WORDS + 16)
MAX_COPY_BUFFERS = 6
STORE_SEARCH = 1024
STORE_SEARCH_BYTES = 4 * 3 * STORE_SEARCH + 3 * STORE_SEARCH // 8
PARTIAL_BYTES = 512
MAX_CORES = 64
WORKSPACE_BYTES = PARTIAL_BYTES * MAX_CORES


# --- Sizes that follow from S, in bytes within a row
def num_buckets_log2(num_slots: int) -> int:
    """lg: NB = 1 << lg is the smallest power of two >= 2S."""
    return max((2 * num_slots - 1).bit_length(), 1)


def slot_token_offset() -> int:
    """Byte offset of slot_token int32 [S+8]."""
    return 4 * HEADER_WORDS


def slot_stamp_offset(num_slots: int) -> int:
    """Byte offset of slot_stamp float32 [S+8]."""
    return slot_token_offset() + 4 * (num_slots + SLOT_TAIL)


def bucket_word_offset(num_slots: int) -> int:
    """Byte offset of bucket_word uint32 [NB]."""
    return slot_stamp_offset(num_slots) + 4 * (num_slots + SLOT_TAIL)


def state_row_bytes(num_slots: int) -> int:
    """Bytes of one row's state without the stride's padding."""
    return bucket_word_offset(num_slots) + (4 << num_buckets_log2(num_slots))


def state_stride_bytes(num_slots: int) -> int:
    """Bytes from one row's state to the next: state_row_bytes rounded up to 512."""
    return -(-state_row_bytes(num_slots) // STRIDE_MULTIPLE) * STRIDE_MULTIPLE


def state_views(
    num_slots: int, row_state: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Views of one row's state, uint8 [stride]: header, slot_token, slot_stamp and bucket_word (SPEC.md,
    "State").
    """
    token, stamp, word = slot_token_offset(), slot_stamp_offset(num_slots), bucket_word_offset(num_slots)
    return (
        row_state[:token].view("<i4"),
        row_state[token:stamp].view("<i4"),
        row_state[stamp:word].view("<f4"),
        row_state[word : state_row_bytes(num_slots)].view("<u4"),
    )


# --- Hash (SPEC.md, "Hash"): x is a token or an array of tokens, lg = log2 NB
def hash_start(x: IntOrArray, lg: int) -> IntOrArray:
    """h(x), the first bucket that a lookup of x reads; below 2^lg."""
    return (HASH_A * x + HASH_C * (x >> lg)) & ((1 << lg) - 1)


def hash_stride(x: IntOrArray, lg: int) -> IntOrArray:
    """d(x), the odd distance between the buckets of x; below 2^lg."""
    return 2 * ((HASH_B * (x >> 1) + HASH_A * (x >> lg)) & ((1 << (lg - 1)) - 1)) + 1


# --- Tiling structs, host to kernel
def _fields(ctype: type, names: str) -> list[tuple[str, type]]:
    return [(name, ctype) for name in names.split()]


class MatchUb(ctypes.Structure):
    """UB of Match, byte offsets."""

    _fields_ = _fields(
        ctypes.c_uint32,
        "header slot_token slot_stamp bucket_word lane_bytes small hit_mask work_mask slot_mask lists "
        "lists_bytes slots miss_tokens scratch scratch_bytes total",
    )


class MatchTiling(ctypes.Structure):
    """Sizes of one match launch."""

    _fields_ = [
        *_fields(
            ctypes.c_int32,
            "num_rows num_slots top_k num_queries max_life num_entries num_cores num_buckets_log2 "
            "probe_rounds lag_min link_tile mark_min_slots",
        ),
        ("state_stride_bytes", ctypes.c_int64),
        ("ub", MatchUb),
    ]


class LoadTiling(ctypes.Structure):
    """Sizes of one load launch."""

    _fields_ = [
        *_fields(
            ctypes.c_int32,
            "num_rows num_slots num_queries plan_width num_entries num_cores num_payloads has_fresh "
            "block_size max_blocks",
        ),
        *_fields(ctypes.c_int64, "num_host_blocks state_stride_bytes"),
        ("row_bytes", ctypes.c_int64 * MAX_PAYLOADS),
    ]


class StoreTiling(ctypes.Structure):
    """Sizes of one store launch."""

    _fields_ = [
        *_fields(ctypes.c_int32, "num_entries num_new_rows num_cores num_payloads block_size max_blocks"),
        ("num_host_blocks", ctypes.c_int64),
        ("row_bytes", ctypes.c_int64 * MAX_PAYLOADS),
    ]


class CopyUb(ctypes.Structure):
    """UB of Load and Store, byte offsets."""

    _fields_ = _fields(ctypes.c_uint32, "window rows chunk_bytes num_buffers search total")


class AvsgTiling(ctypes.Structure):
    """The fused entry."""

    _fields_ = [("match", MatchTiling), ("load", LoadTiling), ("copy", CopyUb)]


class AvsgMatchTiling(ctypes.Structure):
    """The match entry."""

    _fields_ = [("match", MatchTiling)]


class AvsgLoadTiling(ctypes.Structure):
    """The load entry."""

    _fields_ = [("load", LoadTiling), ("copy", CopyUb)]


class AvsgStoreTiling(ctypes.Structure):
    """The store entry."""

    _fields_ = [("store", StoreTiling), ("copy", CopyUb)]
