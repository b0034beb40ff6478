# SPDX-License-Identifier: Apache-2.0
"""What test_torch_npu.py runs in a process of its own: the NPU operators over a stand-in of torch_npu.

Arguments: the folder of the extension and the stand-in of libavsg_npu.so. Prints JSON: {name of check: error
or ""}.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import pytest
import torch

from avsg.torch_ops import extension

extension._directory = lambda: Path(sys.argv[1])

from torch_case import Arguments, Steps  # noqa: E402

from avsg import torch_ops  # noqa: E402

torch_ops.load(sys.argv[2])
standin = torch.ops.standin
OPERATORS = ("match", "load", "step", "store")


def on_device(value: object) -> object:
    if isinstance(value, list):
        return [on_device(item) for item in value]
    return standin.on_device(value) if isinstance(value, torch.Tensor) else value


def in_host_memory(host_kv: list[torch.Tensor]) -> list[torch.Tensor]:
    made = [torch_ops.host_zeros(host.shape, host.dtype, device="npu:0") for host in host_kv]
    for host, values in zip(made, host_kv):
        host.copy_(values)
    return made


class NpuArguments(Arguments):
    """Arguments on the stand-in's device; `cpu` has their memory."""

    def __init__(self) -> None:
        super().__init__()
        self["workspace"] = torch.zeros(65536, dtype=torch.uint8)
        self["host_kv"] = in_host_memory(self["host_kv"])
        self.cpu = dict(self)
        for name, value in self.cpu.items():
            if name != "host_kv":
                self[name] = on_device(value)

    def memory(self) -> list[torch.Tensor]:
        values = [v if isinstance(v, list) else [v] for name, v in self.cpu.items() if name != "workspace"]
        return [t for value in values for t in value if isinstance(t, torch.Tensor)]


def equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right))


def refused(arguments: NpuArguments, name: str, error: type, sentence: str) -> None:
    before = [t.clone() for t in arguments.memory()]
    with pytest.raises(error, match=sentence):
        arguments.call(name)
    assert standin.num_queued() == 0 and equal(arguments.memory(), before)


def check_calls_run_in_the_order_of_the_queue() -> None:
    """Nothing is written before the queue runs, then all is as on the CPU; the queue is never drained."""
    arguments, expected = NpuArguments(), Arguments()
    before = [t.clone() for t in arguments.memory()]
    for name in OPERATORS:
        arguments.call(name)
        expected.call(name)
    assert standin.num_queued() == len(OPERATORS) and equal(arguments.memory(), before)
    assert standin.run_queue() == len(OPERATORS) and standin.num_drains() == 0
    del expected["workspace"]
    assert equal(arguments.memory(), expected.tensors()) and not equal(arguments.memory(), before)


def check_what_the_library_refuses_is_refused_before_the_queue() -> None:
    arguments = NpuArguments()
    arguments["miss_slots"] = arguments["miss_tokens"]
    refused(arguments, "match", ValueError, "miss_tokens .* and miss_slots .* overlap")
    arguments = NpuArguments()
    arguments["max_life"] = 2001
    refused(arguments, "step", ValueError, "max_life is 2001")
    arguments = NpuArguments()
    arguments["workspace"] = on_device(torch.zeros(32768, dtype=torch.uint8))
    refused(arguments, "match", ValueError, "workspace is 32768 bytes, but 36864 bytes or more is allowed")


def check_tensors_of_two_devices_are_refused() -> None:
    for name in ("topk_tokens", "state", "slots", "workspace"):
        arguments = NpuArguments()
        arguments[name] = arguments.cpu[name]
        refused(arguments, "match", ValueError, rf"{name}.device is cpu, but npu(:0)? is allowed")
    arguments = NpuArguments()
    arguments["device_kv"] = arguments.cpu["device_kv"]
    refused(arguments, "load", ValueError, r"device_kv\[0\].device is cpu, but npu:0 is allowed")


def check_host_memory_needs_a_device_address() -> None:
    arguments = NpuArguments()
    arguments["host_kv"] = Steps(7).host_kv
    for name in ("load", "store"):
        refused(arguments, name, ValueError, r"host_kv\[0\] is CPU memory without a device address, but only")


def loaded(arguments: NpuArguments) -> torch.Tensor:
    arguments.call("load")
    standin.run_queue()
    return arguments.cpu["device_kv"][0].clone()


def check_host_memory_is_read_at_its_device_address() -> None:
    """Registered under the address of other memory, it is that memory which a load copies."""
    expected = loaded(NpuArguments())
    arguments, hosts = NpuArguments(), Steps(7).host_kv
    decoys = [torch.zeros_like(host) for host in hosts]
    for decoy, host in zip(decoys, hosts):
        torch_ops.register_host(decoy, host.data_ptr())
    arguments["host_kv"] = decoys
    assert torch.equal(loaded(arguments), expected) and expected.any()
    for decoy in decoys:
        torch_ops.unregister_host(decoy)
    refused(arguments, "load", ValueError, "CPU memory without a device address")


def check_a_part_of_host_memory_has_its_own_address() -> None:
    """A layer of a larger block, as an engine cuts it."""
    expected = loaded(NpuArguments())
    arguments, hosts = NpuArguments(), Steps(7).host_kv
    blocks = [torch_ops.host_zeros((3, *host.shape), device="npu:0") for host in hosts]
    for block, host in zip(blocks, hosts):
        block[1].copy_(host)
    arguments["host_kv"] = [block[1] for block in blocks]
    assert torch.equal(loaded(arguments), expected)


def check_memory_past_a_registered_block_is_refused() -> None:
    arguments, host = NpuArguments(), Steps(7).host_kv[0]
    torch.ops.avsg.register_host(host.data_ptr(), host.data_ptr(), host.nbytes - 16)
    arguments["host_kv"] = [host, arguments["host_kv"][1]]
    refused(arguments, "load", ValueError, r"host_kv\[0\] is CPU memory without a device address, but only")
    torch_ops.unregister_host(host)


def check_memory_of_the_device_serves_as_host_memory() -> None:
    """Swapped memory: an NPU tensor that lies in the host's memory."""
    expected = loaded(NpuArguments())
    arguments = NpuArguments()
    arguments["host_kv"] = on_device(Steps(7).host_kv)
    assert torch.equal(loaded(arguments), expected)


def main() -> None:
    checks = {name: check for name, check in globals().items() if name.startswith("check_")}
    results = {}
    for name, check in checks.items():
        try:
            check()
            results[name] = ""
        except BaseException:  # pytest's failures are no Exceptions
            results[name] = traceback.format_exc()
        standin.run_queue()
    print(json.dumps(results))


main()
