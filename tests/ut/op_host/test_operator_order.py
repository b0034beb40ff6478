# SPDX-License-Identifier: Apache-2.0
"""An operator's parameters have one order wherever it is written: definition, tiling, kernel, callers."""

from __future__ import annotations

import re

import pytest

from .operators import LISTS, OPERATORS, ROOT, defined

TYPES = {"match": "AvsgMatch", "load": "AvsgLoad", "store": "AvsgStore", "fused": "Avsg"}
CALLS = {"match": "MatchCall", "load": "LoadCall", "store": "StoreCall", "fused": "FusedCall"}


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text()


def arguments(text: str, function: str) -> list[list[str]]:
    """The arguments of every call of function in text, without spaces."""
    found = []
    for start in (match.end() for match in re.finditer(rf"\b{function}\(", text)):
        depth, end = 1, start
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append([re.sub(r"\s+", "", argument) for argument in text[start : end - 1].split(",")])
    return found


def outputs(operator: str) -> list[str]:
    """Outputs that are not inputs too."""
    return [name for name in defined(operator, "Output") if name not in defined(operator, "Input")]


@pytest.mark.parametrize("operator", OPERATORS)
def test_definition_is_registered_under_the_name_of_its_kernel(operator):
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", TYPES[operator]).lower()
    assert snake == OPERATORS[operator]
    text = read("op_host", f"{snake}_op.cpp")
    assert (
        re.findall(r"OP_ADD\((\w+)\)", text)
        == re.findall(r"class (\w+) : public OpDef", text)
        == [TYPES[operator]]
    )


@pytest.mark.parametrize("operator", OPERATORS)
def test_kernel_takes_inputs_then_outputs_then_workspace_and_tiling(operator):
    text = read("op_kernel", f"{OPERATORS[operator]}.cpp")
    (signature,) = re.findall(rf"void {OPERATORS[operator]}\((.*?)\)", text, re.S)
    kernel = re.findall(r"GM_ADDR\s+(?:/\*)?(\w+)", signature)
    inputs = defined(operator, "Input")
    written = [f"{name}_out" if name in inputs else name for name in defined(operator, "Output")]
    assert kernel == [*inputs, *written, "workspace", "tiling"]


@pytest.mark.parametrize("kind", ["Input", "Attr"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_tiling_reads_inputs_and_attributes_in_the_order_of_the_definition(operator, kind):
    (body,) = re.findall(rf"struct {CALLS[operator]} {{(.*?)\n}};", read("op_host", "tiling_call.h"), re.S)
    (names,) = re.findall(rf"enum {kind} {{(.*?)}}", body, re.S)
    wanted = ["k" + "".join(word.title() for word in name.split("_")) for name in defined(operator, kind)]
    assert re.findall(r"\w+", names) == [*wanted, f"kNum{kind}s"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_flags_follow_the_whole_numbers_and_are_as_many_as_the_tiling_reads(operator):
    text = read("op_host", f"{OPERATORS[operator]}_op.cpp")
    kinds = re.findall(r'Attr\("\w+"\)\.AttrType\(REQUIRED\)\.(\w+)\(\)', text)
    assert len(kinds) == len(defined(operator, "Attr"))
    (flags,) = re.findall(r"Tile<C, (\d)>", text)
    assert kinds == ["Int"] * (len(kinds) - int(flags)) + ["Bool"] * int(flags)


@pytest.mark.parametrize("operator", OPERATORS)
def test_payload_lists_are_kv_parameters_and_no_other(operator):
    text = read("op_host", f"{OPERATORS[operator]}_op.cpp")
    for kind, name in re.findall(r'parameters\.(\w+)\((?:Input|Output)\("(\w+)"\)\)', text):
        assert kind == ("Kv" if name in LISTS else "State" if name == "state" else "Int32"), name
    held = re.findall(r'(?:Kv|State)\(Input\("(\w+)"\)\)(\.IgnoreContiguous\(\))?', text)
    assert all(ignored for _, ignored in held), "CANN may neither copy nor convert them"
    assert "AutoContiguous()" not in text


@pytest.mark.parametrize("operator", OPERATORS)
def test_c_library_declares_the_generated_function(operator):
    text = read("framework", "npu", "acl_api.h")
    (declared,) = re.findall(rf"int32_t \(\*{operator}_size\)\((.*?)\);", text, re.S)
    parameters = [tuple(re.sub(r"\s+", " ", x).strip().rsplit(" ", 1)) for x in declared.split(",")]
    inputs, written = defined(operator, "Input"), defined(operator, "Output")
    kind = {name: "aclTensorList*" if name in LISTS else "aclTensor*" for name in inputs + written}
    wanted = [
        (kind[name], f"{name}_ref") if name in written else (f"const {kind[name]}", name) for name in inputs
    ]
    wanted += [("bool" if name == "has_fresh" else "int64_t", name) for name in defined(operator, "Attr")]
    wanted += [(f"const {kind[name]}", name) for name in outputs(operator)]
    assert parameters == [*wanted, ("uint64_t*", "workspace_bytes"), ("aclOpExecutor**", "executor")]


@pytest.mark.parametrize("operator", OPERATORS)
def test_c_library_passes_the_arguments_in_order(operator):
    (call,) = arguments(read("framework", "npu", "avsg_npu.cpp"), rf"cann\.avsg\.{operator}_size")
    last = [re.split(r"->|\.", argument)[-1].lstrip("&") for argument in call]
    other = {"plan_rows": "rows", "plan_verified_lens": "verified_lens"}
    other |= {"load_counters": "counters", "store_counters": "counters"}
    other |= {"new_rows": "from", "host_kv": "to"} if operator == "store" else {}
    names = [*defined(operator, "Input"), *defined(operator, "Attr"), *outputs(operator)]
    assert last == [*(other.get(name, name) for name in names), "workspace_bytes", "executor"]


@pytest.mark.parametrize("operator", ["match", "load", "store"])
def test_mindspore_glue_passes_the_arguments_in_order(operator):
    text = read("framework", "mindspore", "ascend", f"aclnn_{operator}.cc")
    names = [*defined(operator, "Input"), *defined(operator, "Attr"), *outputs(operator)]
    (pynative,) = arguments(text, "LAUNCH_ACLNN_FUNC")
    assert pynative[0] == f"aclnn{TYPES[operator]}"
    groups = {f"plan[{i}]": name for i, name in enumerate(outputs(operator))}
    groups |= {f"misses[{i}]": name for i, name in enumerate(names[:5])} | {"listed_fresh": "fresh"}
    assert [groups.get(argument, argument) for argument in pynative[1:]] == names

    (resize,) = arguments(text, "GetWorkspaceForResize")
    (launch,) = arguments(text, "RunOp")
    assert launch == ["stream", "workspace", *resize]
    groups = {f"inputs[{i}]": name for i, name in enumerate(names)}
    groups |= {f"outputs[{i}]": name for i, name in enumerate(outputs(operator))}
    flat = [
        re.sub(r"inputs\[k(\w+)\]", lambda m: re.sub(r"(?<!^)(?=[A-Z])", "_", m[1]).lower(), x)
        for x in resize
    ]
    assert [groups.get(argument, argument).rstrip("_") for argument in flat] == names
