# SPDX-License-Identifier: Apache-2.0
"""The checked build reports every planted violation with its rule, the operation and the line."""

import re

import numpy as np
import pytest

from .conftest import HALF, HERE, RuleBroken

FILES = ("broken.cpp", "broken_order.cpp")
CORES = {"sync_missed": 3, "cores_collide": 3}


def planted():
    """(kernel, rule, file, line) of every kernel that breaks a rule."""
    for file in FILES:
        kernel = None
        for number, line in enumerate((HERE / file).read_text().split("\n"), 1):
            found = re.match(r"KERNEL\((\w+)\)", line)
            kernel = found.group(1) if found else kernel
            broken = re.search(r"// BREAKS (\S+)$", line)
            if broken:
                yield kernel, broken.group(1), file, number


@pytest.mark.parametrize("kernel,rule,file,line", sorted(planted()))
def test_broken_rule_is_named_with_its_line(checked, kernel, rule, file, line):
    inputs = np.zeros(HALF, np.uint8)
    checked.library.make_list(inputs.ctypes.data)
    inputs[16 * 1024 : 32 * 1024].view(np.uint32)[:] = np.arange(4096) * 4  # offsets
    with pytest.raises(RuleBroken) as caught:
        checked.run_raw(kernel, inputs, num_cores=CORES.get(kernel, 1))
    sentence = str(caught.value)
    assert sentence.startswith(f"rule {rule}: "), sentence
    assert f" at cpu/{file}:{line}" in sentence, sentence


def test_every_rule_has_a_planted_violation():
    cpu = HERE.parents[2] / "framework" / "cpu"
    text = "".join(p.read_text() for p in [*cpu.glob("ascendc/*.h"), *cpu.glob("runtime/*.cpp")])
    named = set(re.findall(r'"([0-9a-z]+(?:-[0-9a-z]+)+)"', text)) - {"initial-exec"}
    named |= {"alignment", "overlap", "uninitialised", "sync-deadlock"}
    assert len(named) > 25
    assert named - {rule for _, rule, _, _ in planted()} == set()


@pytest.mark.parametrize(
    "kernel,num_cores",
    [
        ("well_ordered", 1),
        ("well_ordered_chain", 1),
        ("well_ordered_cores", 5),
        ("well_ordered_turns", 2),
        ("well_ordered_same_bytes", 2),
    ],
)
def test_ordered_work_is_not_reported(checked, kernel, num_cores):
    checked.run(kernel, num_cores=num_cores)


def test_both_operations_of_a_hazard_are_named(checked):
    with pytest.raises(
        RuleBroken,
        match=r"Adds on the vector pipe reads UB offset 0 .* after DataCopy on MTE2 at cpu/broken_order",
    ):
        checked.run("vector_reads_copy")


def test_launch_after_a_violation_starts_clean(checked):
    for _ in range(2):
        with pytest.raises(RuleBroken):
            checked.run("never_waited")
        checked.run("well_ordered")


def test_order_of_cores_follows_the_seed(checked):
    def order(seed):
        checked.library.avsg_cpu_shuffle(seed)
        return tuple(checked.run("order_of_cores", num_cores=7, before=0)[8:64].view(np.int64))

    orders = {order(seed) for seed in range(1, 20)}
    assert len(orders) > 10 and all(sorted(o) == list(range(7)) for o in orders)
    assert order(5) == order(5)
