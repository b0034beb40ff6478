# SPDX-License-Identifier: Apache-2.0
"""The Ascend primitives take the CPU's arguments and hand aclnn its lists; the rest needs a chip."""

from __future__ import annotations

import mindspore as ms
import pytest

import avsg
from avsg.mindspore.ascend_ops import ascend_primitives
from avsg.mindspore.infer import signatures

CONFIG = avsg.PoolConfig(num_rows=1, num_slots=128, top_k=32, num_queries=2)


class Recorder:
    """Stands for ops.Custom: keeps what it was made with and returns what it is called with."""

    def __init__(self, function, out_shape, out_dtype, func_type, reg_info) -> None:
        self.function, self.out_shape, self.out_dtype = function, out_shape, out_dtype
        self.reg_info = reg_info
        self.attributes: dict = {}

    def add_prim_attr(self, name: str, value: object) -> None:
        self.attributes[name] = value

    def __call__(self, *arguments: object) -> tuple:
        return arguments


ATTRIBUTES = {
    "match": ["num_slots", "num_queries", "max_life"],
    "load": ["num_slots", "top_k", "num_queries", "max_life", "has_fresh"],
    "step": ["num_slots", "num_queries", "max_life", "has_fresh"],
    "store": [],
}
SHAPES = {
    "topk_tokens": [3, 2, 32],
    "miss_tokens": [3, 64],
    "miss_slots": [3, 64],
    "state": [1, avsg.layout.state_stride_bytes(128)],
    "block_table": [3, 5],
    "positions": [4],
    "entries": [4],
    **{f"host_kv[{i}]": [9, 16, 8 << i] for i in range(2)},
    **{f"device_kv[{i}]": [128, 8 << i] for i in range(2)},
    **{f"fresh[{i}]": [3, 2, 8 << i] for i in range(2)},
    **{f"new_rows[{i}]": [4, 8 << i] for i in range(2)},
}


def grouped(names: tuple, pick) -> list:
    """The values of the operator's inputs, lists as lists."""
    return [[pick(x) for x in name] if isinstance(name, tuple) else pick(name) for name in names]


@pytest.mark.parametrize("name", ["match", "load", "load_fresh", "step", "step_fresh", "store"])
def test_lists_are_grouped_and_checked_by_the_same_rules(name: str) -> None:
    primitive = ascend_primitives(CONFIG, 2, custom=Recorder)[name]
    signature = signatures(CONFIG, 2)[name]
    inputs = primitive(*signature.names)
    lists = [x for x in inputs if isinstance(x, tuple)]
    assert all([x.split("[")[1] for x in group] == ["0]", "1]"] for group in lists)
    assert len(lists) == {"match": 0, "store": 2}.get(name, 3)
    if len(lists) == 3 and not name.endswith("fresh"):
        assert lists[1] == lists[0], "an operator takes no empty list: host_kv stands where fresh would"
    assert (
        primitive.operator.function
        == {
            "match": "aclnnAvsgMatch",
            "load": "aclnnAvsgLoad",
            "step": "aclnnAvsg",
            "store": "aclnnAvsgStore",
        }[signature.kind]
    )
    assert primitive.operator.attributes == {"side_effect_mem": True}

    attributes = {x["name"]: x["value"] for x in primitive.operator.reg_info["attr"]}
    assert list(attributes) == ATTRIBUTES[signature.kind]
    assert attributes.get("has_fresh") == (name.endswith("fresh") if "has_fresh" in attributes else None)

    shape = {**{x: [3] for x in signature.names}, **SHAPES}
    wanted = signature.out_shape(*([1] if x == "config" else shape[x] for x in signature.names))
    assert primitive.operator.out_shape(*grouped(inputs, shape.get)) == wanted
    dtype = {x: ms.uint8 if x == "state" or "[" in x else ms.int32 for x in signature.names}
    outputs = primitive.operator.out_dtype(*grouped(inputs, dtype.get))
    assert set(outputs if isinstance(outputs, tuple) else [outputs]) == {ms.int32}
    first = signature.names[1]
    with pytest.raises(TypeError, match="is a tensor of Int64, but only Int32 is allowed"):
        primitive.operator.out_dtype(*grouped(inputs, {**dtype, first: ms.int64}.get))
