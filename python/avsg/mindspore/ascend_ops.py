# SPDX-License-Identifier: Apache-2.0
"""The primitives on Ascend without a build: ops.Custom on the aclnn functions of the installed operator
package.

Not yet run on hardware. MindSpore writes and compiles a callback for each function on the user's machine,
from op_api/include/aclnn_avsg*.h of an ASCEND_CUSTOM_OPP_PATH entry. The built alternative is
framework/mindspore/ascend.
"""

from __future__ import annotations

import mindspore as ms
from mindspore import ops

from ..config import PoolConfig
from ..plan import PLAN_FIELDS
from .infer import MISSES, STEP, signatures

_LISTS = ("host_kv", "fresh", "device_kv", "new_rows")
_INPUTS = {
    "match": (*STEP, "state"),
    "load": (*MISSES, "block_table", "host_kv", "fresh", "device_kv", "state"),
    "step": (*STEP, "block_table", "host_kv", "fresh", "device_kv", "state"),
    "store": ("positions", "entries", "block_table", "new_rows", "host_kv"),
}
_OUTPUTS = {
    "match": PLAN_FIELDS,
    "load": ("load_counters",),
    "step": (*PLAN_FIELDS, "load_counters"),
    "store": ("store_counters",),
}
_ATTRIBUTES = {
    "match": ("num_slots", "num_queries", "max_life"),
    "load": ("num_slots", "top_k", "num_queries", "max_life", "has_fresh"),
    "step": ("num_slots", "num_queries", "max_life", "has_fresh"),
    "store": (),
}
_FUNCTIONS = {
    "match": "aclnnAvsgMatch",
    "load": "aclnnAvsgLoad",
    "step": "aclnnAvsg",
    "store": "aclnnAvsgStore",
}


@ms.jit_class
class AscendPrimitive:
    """One operator with the arguments of its CPU counterpart: the config tensor is dropped, payloads
    become lists."""

    def __init__(
        self, kind: str, config: PoolConfig, num_payloads: int, has_fresh: bool, custom: type
    ) -> None:
        self.kind = kind
        self.num_payloads = num_payloads
        self.has_fresh = has_fresh
        signature = signatures(config, num_payloads)[kind + ("_fresh" if has_fresh else "")]
        # The tuples that reach the operator hold the same tensors in another order.
        order = [signature.names.index(name) for name in _flat(kind, num_payloads, has_fresh)]

        def in_order(values: tuple) -> list:
            flat = [
                x
                for value in values
                for x in (value if isinstance(value, (tuple, list)) and _nested(value) else [value])
            ]
            ordered: list = [None] * len(signature.names)
            for position, value in zip(order, flat):
                ordered[position] = value
            return ordered

        def out_shape(*shapes: object) -> object:
            ordered = in_order(shapes)
            ordered[0] = (1,)
            return signature.out_shape(*ordered)

        def out_dtype(*dtypes: object) -> object:
            ordered = in_order(dtypes)
            ordered[0] = ms.int64
            return signature.out_dtype(*ordered)

        self.operator = custom(
            _FUNCTIONS[kind],
            out_shape,
            out_dtype,
            func_type="aot",
            reg_info=_registration(kind, config, has_fresh),
        )
        self.operator.add_prim_attr("side_effect_mem", True)

    def __call__(self, config_tensor, *arguments):
        p = self.num_payloads
        if self.kind == "match":
            return self.operator(*arguments)
        if self.kind == "store":
            return self.operator(*arguments[:3], arguments[3 : 3 + p], arguments[3 + p :])
        host_kv, device_kv, fresh = arguments[7 : 7 + p], arguments[7 + p : 7 + 2 * p], arguments[7 + 2 * p :]
        # An operator of CANN takes no empty list: without fresh it is host_kv again, and has_fresh says so.
        return self.operator(*arguments[:6], host_kv, fresh or host_kv, device_kv, arguments[6])


def ascend_primitives(
    config: PoolConfig, num_payloads: int, custom: type = ops.Custom
) -> dict[str, AscendPrimitive]:
    """The six primitives of Primitives, on aclnn. custom: the class that stands for ops.Custom (tests)."""
    kinds = [
        ("match", False),
        ("load", False),
        ("load", True),
        ("step", False),
        ("step", True),
        ("store", False),
    ]
    return {
        kind + ("_fresh" if fresh else ""): AscendPrimitive(kind, config, num_payloads, fresh, custom)
        for kind, fresh in kinds
    }


def _flat(kind: str, num_payloads: int, has_fresh: bool) -> list[str]:
    names = []
    for name in _INPUTS[kind]:
        listed = "host_kv" if name == "fresh" and not has_fresh else name
        names += [f"{listed}[{i}]" for i in range(num_payloads)] if name in _LISTS else [name]
    return names


def _nested(value: object) -> bool:
    """A list of shapes or dtypes, not one shape: a shape holds whole numbers."""
    return not all(isinstance(x, int) for x in value)


def _registration(kind: str, config: PoolConfig, has_fresh: bool) -> dict:
    register = ops.CustomRegOp(_FUNCTIONS[kind])
    names = _INPUTS[kind]
    for i, name in enumerate(names):
        register = register.input(i, name.replace(" ", "_"), "dynamic" if name in _LISTS else "required")
    for i, name in enumerate(_OUTPUTS[kind]):
        register = register.output(i, name, "required")
    for name in _ATTRIBUTES[kind]:
        value, of_type = (has_fresh, "bool") if name == "has_fresh" else (getattr(config, name), "int")
        register = register.attr(name, "required", of_type, value=value)
    none = ops.DataType.None_None
    return register.dtype_format(*[none] * (len(names) + len(_OUTPUTS[kind]))).target("Ascend").get_op_info()
