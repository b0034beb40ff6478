# SPDX-License-Identifier: Apache-2.0
"""The MindSpore primitives of AVSG on a CPU: ops.Custom on the functions of
framework/mindspore/cpu_entries.cpp."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import ops

try:
    from mindspore.graph.jit_context import jit_context, set_jit_context
except ImportError:  # before 2.9
    from mindspore.common.jit_context import jit_context, set_jit_context

from .. import _abi, layout
from ..arrays import aligned_zeros
from ..config import PoolConfig
from ..errors import LibraryNotFoundError, sentence
from .infer import CONFIG_FIELDS, Signature, signatures
from .memory import host_parameter

_ENTRIES = {
    "match": "AvsgMindSporeMatch",
    "load": "AvsgMindSporeLoad",
    "load_fresh": "AvsgMindSporeLoadFresh",
    "step": "AvsgMindSporeStep",
    "step_fresh": "AvsgMindSporeStepFresh",
    "store": "AvsgMindSporeStore",
}
# MindSpore hands the arguments of an AOT function over in memory that threads share, and compiles in one
# thread only.
LOCK = threading.RLock()


def refusal_in(error: BaseException) -> str | None:
    """The sentence that a primitive threw, out of MindSpore's text around it; None for any other error."""
    found = re.search(r"Error message is (.*?)\s*(?:\n\s*-{10}|$)", str(error), re.S)
    return found[1] if found else None


def wait_for(outputs: object) -> None:
    """Returns when the launches behind the outputs have ended; raises what they raised."""
    if isinstance(outputs, ms.Tensor):
        outputs.asnumpy()  # no copy on a CPU, where ms.runtime.synchronize is not supported
    elif isinstance(outputs, (tuple, list)):
        for output in outputs:
            wait_for(output)


class AotPrimitive(ops.Custom):
    """One primitive of AVSG. Its __call__ runs in PyNative mode only; a graph takes the primitive itself."""

    def __init__(self, library: Path, entry: str, signature: Signature, wait: bool) -> None:
        super().__init__(f"{library}:{entry}", signature.out_shape, signature.out_dtype, func_type="aot")
        # Without it a graph merges equal calls and drops those whose outputs nobody reads.
        self.add_prim_attr("side_effect_mem", True)
        self._names = signature.names
        self._written = [
            i
            for i, name in enumerate(signature.names)
            if name == "state"
            or name.startswith("device_kv")
            or (signature.kind == "store" and name.startswith("host_kv"))
        ]
        self._wait = wait

    def __call__(self, *arguments: ms.Tensor) -> object:
        if jit_context():
            set_jit_context(
                None
            )  # MindSpore leaves it set when a trace fails, and every later call would be traced
            raise ValueError(
                sentence(
                    "capture_mode",
                    '"trace"',
                    'only "ast"',
                    'a trace replays the outputs of the first call, so use ms.jit(capture_mode="ast")',
                )
            )
        for name, argument in zip(self._names, arguments):
            if not isinstance(argument, ms.Tensor):
                raise TypeError(
                    sentence(
                        name, f"a {type(argument).__name__}", "only a mindspore.Tensor", "convert it first"
                    )
                )
        for i in self._written:
            if not isinstance(arguments[i], ms.Parameter):
                refuse_copy(self._names[i])
        with LOCK:
            if not self._wait:
                return super().__call__(*arguments)
            try:
                outputs = super().__call__(*arguments)
                wait_for(outputs)
            except RuntimeError as error:
                text = refusal_in(error)
                if text is None:
                    raise
                raise ValueError(text) from None
            return outputs


def refuse_copy(name: str) -> None:
    """Refuses a view or a plain tensor where a primitive writes: its update would be lost without a word."""
    raise TypeError(
        sentence(
            name,
            "a view or a plain tensor",
            "only a whole Parameter",
            "pass the Parameter that owns the memory",
        )
    )


def glue_library(library: str | os.PathLike[str] | None) -> Path:
    """Path of the glue over the C ABI library that `library` names: "cpu" (None) or "cpu-checked"; or its
    path."""
    text = "cpu" if library is None else os.fspath(library)
    if text not in ("cpu", "cpu-checked"):
        path = Path(text)
        if path.is_file():
            return path.resolve()
        raise LibraryNotFoundError(
            f"library {text!r} is neither a file nor cpu or cpu-checked: pass one of these, or the path of a "
            "libavsg_mindspore_*.so."
        )
    beside = _abi.resolve(text)
    # Loading it here keeps its threads alive: MindSpore unloads what it loaded when a primitive goes.
    _abi.load(beside)
    path = beside.with_name(_abi.file_name(f"mindspore_{text}"))
    if not path.exists():
        raise LibraryNotFoundError(
            f"{path.name} is not built beside {beside}: run `pip install .` in the source tree."
        )
    return path


@ms.jit_class
class Primitives:
    """The primitives for one pool configuration and number of payloads; make them outside of jit.

    config: the sizes. num_payloads: pairs of host_kv and device_kv, 1 to 4. library: "cpu" (None),
    "cpu-checked", or the path of a libavsg_mindspore_*.so. num_cores: cores of a launch, 0 = all. check:
    refuse values as `Pool.match(check=True)` does, which on a CPU is possible in graph mode too; PyNative
    calls then wait for their end, so that the exception is raised by the call that caused it. Attributes:
    match, load, load_fresh, step, step_fresh, store (MindSpore primitives; the first argument of each is
    `tensor(...)`).
    """

    def __init__(
        self,
        config: PoolConfig,
        num_payloads: int = 1,
        library: str | os.PathLike[str] | None = None,
        num_cores: int = 0,
        check: bool = True,
    ) -> None:
        if not 1 <= num_payloads <= layout.MAX_PAYLOADS:
            raise ValueError(
                sentence(
                    "num_payloads", num_payloads, f"1 to {layout.MAX_PAYLOADS}", "join rows into one payload"
                )
            )
        target = ms.get_context("device_target")
        self.config = config
        self.num_payloads = num_payloads
        self.num_cores = num_cores
        self.check = check
        if target == "CPU":
            path = glue_library(library)
            made = {
                name: AotPrimitive(path, _ENTRIES[name], signature, check)
                for name, signature in signatures(config, num_payloads).items()
            }
        elif target == "Ascend":
            from .ascend_ops import ascend_primitives

            made = ascend_primitives(config, num_payloads)
        else:
            raise ValueError(
                sentence(
                    "device_target", target, "CPU or Ascend", "call ms.set_device with one of them first"
                )
            )
        self.match = made["match"]
        self.load = made["load"]
        self.load_fresh = made["load_fresh"]
        self.step = made["step"]
        self.step_fresh = made["step_fresh"]
        self.store = made["store"]
        self.unregistered = self.tensor()

    def tensor(
        self,
        state: ms.Parameter | None = None,
        device_kv: tuple[ms.Parameter, ...] = (),
        host_kv: tuple[ms.Parameter, ...] = (),
    ) -> ms.Parameter:
        """The int64 tensor that every primitive gets first: sizes, and the addresses that it shall accept.

        A tensor given here is accepted only where it lies now, so that a copy or a view made by a graph is
        refused instead of being updated in vain.
        """
        config = self.config
        numbers = [config.num_rows, config.num_slots, config.top_k, config.num_queries, config.max_life]
        numbers += [
            self.num_cores,
            int(self.check),
            self.num_payloads,
            state.data_ptr() if state is not None else 0,
        ]
        for group in (device_kv, host_kv):
            addresses = [tensor.data_ptr() for tensor in group]
            numbers += addresses + [0] * (layout.MAX_PAYLOADS - len(addresses))
        fields = aligned_zeros((len(CONFIG_FIELDS),), np.int64)
        fields[:] = numbers
        return host_parameter(fields, "avsg_config")
