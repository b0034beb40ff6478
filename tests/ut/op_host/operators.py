# SPDX-License-Identifier: Apache-2.0
"""Calls of the four operators as CANN describes them: shapes by name, in the order of the definitions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from avsg import layout

ROOT = Path(__file__).resolve().parents[3]
OPERATORS = {"match": "avsg_match", "load": "avsg_load", "store": "avsg_store", "fused": "avsg"}
LISTS = ("host_kv", "fresh", "device_kv", "new_rows")


def defined(operator: str, kind: str) -> list[str]:
    """Names of a definition, in order; operator: "match", kind: "Input", "Output" or "Attr"."""
    text = (ROOT / "op_host" / f"{OPERATORS[operator]}_op.cpp").read_text()
    return re.findall(rf'\b{kind}\("(\w+)"\)', text)


@dataclass
class Sizes:
    """Everything that a call of any operator is made of. row_dims: one payload's trailing dimensions."""

    num_rows: int = 3
    num_slots: int = 512
    top_k: int = 64
    num_queries: int = 4
    max_life: int = 2000
    entries: int = 2
    queries: int = 2
    new_rows: int = 5
    block_size: int = 16
    max_blocks: int = 7
    num_host_blocks: int = 40
    has_fresh: bool = True
    item_bytes: int = 2
    row_dims: list[tuple[int, ...]] = field(default_factory=lambda: [(1, 512), (64,)])

    def tensors(self) -> dict[str, list[tuple[int, ...]]]:
        """Shapes of every input, a list each."""
        entry, step = (self.entries,), (self.entries, self.queries)
        plan = (self.entries, self.queries * self.top_k)
        blocks = (self.num_host_blocks, self.block_size)
        lines = (
            "verified_lens",
            "seq_lens",
            "leases",
            "rows",
            "num_misses",
            "plan_rows",
            "plan_verified_lens",
        )
        host_kv = [blocks + row for row in self.row_dims]
        return {
            **{name: [entry] for name in lines},
            "topk_tokens": [(*step, self.top_k)],
            "miss_tokens": [plan],
            "miss_slots": [plan],
            "block_table": [(self.entries, self.max_blocks)],
            "state": [(self.num_rows, layout.state_stride_bytes(self.num_slots))],
            "positions": [(self.new_rows,)],
            "entries": [(self.new_rows,)],
            "host_kv": host_kv,
            "fresh": [step + row for row in self.row_dims] if self.has_fresh else host_kv,
            "device_kv": [(self.num_rows * self.num_slots, *row) for row in self.row_dims],
            "new_rows": [(self.new_rows, *row) for row in self.row_dims],
        }

    def row_bytes(self) -> list[int]:
        bytes_of = []
        for row in self.row_dims:
            bytes_of.append(self.item_bytes)
            for extent in row:
                bytes_of[-1] *= extent
        return bytes_of

    def numbers(self) -> list[int]:
        """What the pure tiling is given."""
        pool = [self.num_rows, self.num_slots, self.top_k, self.num_queries, self.max_life]
        copy = [
            self.entries,
            self.queries,
            self.new_rows,
            self.block_size,
            self.max_blocks,
            self.num_host_blocks,
        ]
        return [*pool, *copy, int(self.has_fresh), len(self.row_dims), *self.row_bytes()]

    def item_bytes_of(self, name: str) -> int:
        return self.item_bytes if name in LISTS else 1 if name == "state" else 4


def call(operator: str, sizes: Sizes, tensors: dict[str, list[tuple[int, ...]]], **attrs: int) -> list[int]:
    """The numbers of one call; attrs replace those of sizes."""
    names = defined(operator, "Input")
    numbers = [len(names)]
    for name in names:
        numbers.append(len(tensors[name]))
        for dims in tensors[name]:
            numbers += [sizes.item_bytes_of(name), len(dims), *dims]
    values = [attrs.get(name, int(getattr(sizes, name))) for name in defined(operator, "Attr")]
    return [*numbers, len(values), *values]
