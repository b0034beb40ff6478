# SPDX-License-Identifier: Apache-2.0
"""One prompt, prefilled once, decoded in each storage mode; and a run recorded as a trace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ... import Pool, PoolConfig
from ..custom_ops import Primitives
from .decode import Decoded, decode
from .model import STEP_LINES, Decoder, Selector
from .package import WEIGHTS_LICENCE, WEIGHTS_PACKAGE, weights_path
from .storage import Offload, Pooled, Resident, Traffic
from .text import Prompt, long_prompt
from .tokenizer import Tokenizer
from .weights import WeightsFile

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Settings:
    """Sizes of a run, in tokens; num_slots per layer. library: as for avsg.Pool. text: a file, or None."""

    prompt_tokens: int = 4000
    num_tokens: int = 64
    top_k: int = 256
    num_slots: int = 1024
    library: str | os.PathLike[str] | None = None
    text: Path | None = None


@dataclass(frozen=True)
class ModeResult:
    """What one mode produced and moved. device_bytes: KV rows held on the device, with the pool's state."""

    mode: str
    drafts: int
    decoded: Decoded
    traffic: Traffic
    device_bytes: int


def use_cpu() -> None:
    """The CPU target with blocking launches, for the whole process.

    MindSpore's default asynchronous launch costs several times more for many small operations, and it would
    read the arrays that storage.py shares with tensors after they have changed.
    """
    ms.set_device("CPU")
    ms.runtime.launch_blocking()


class ModelRun:
    """A loaded model and a prefilled prompt. ValueError: sizes that do not fit."""

    def __init__(self, settings: Settings) -> None:
        use_cpu()
        self.settings = settings
        weights = WeightsFile(weights_path())
        self.tokenizer = Tokenizer(weights)
        self.shape = weights.shape
        self.prompt: Prompt = long_prompt(self.tokenizer, settings.prompt_tokens, settings.text)
        # STEP_LINES more: the unused lines of the last step have positions too
        self.max_tokens = len(self.prompt.tokens) + settings.num_tokens + STEP_LINES
        if self.max_tokens > self.shape.max_tokens:
            raise ValueError(
                f"The prompt and {settings.num_tokens} tokens take {self.max_tokens} positions, but the "
                f"model was trained for {self.shape.max_tokens}: ask for fewer."
            )
        queries = min(STEP_LINES, max(settings.num_slots // settings.top_k, 1))
        self.config = PoolConfig(1, settings.num_slots, settings.top_k, queries)
        self.model = Decoder(weights)
        self._kv: tuple[np.ndarray, np.ndarray] | None = None

    def prefill(self, progress: Progress = lambda count: None) -> None:
        """Computes the KV of all tokens but the last, once for all modes."""
        if self._kv is None:
            self._kv = self.model.prefill(self.prompt.tokens[:-1], progress)

    @property
    def selector_bytes(self) -> int:
        """Device bytes of the selector's keys."""
        return self.shape.num_layers * self.max_tokens * self.shape.row_size * 4

    def storage(self, mode: str) -> Resident | Offload | Pooled:
        """A storage of the mode that holds the prompt's KV."""
        settings = self.settings
        self.prefill()
        if mode == "resident":
            return Resident(self.shape, self._kv, self.max_tokens)
        if mode == "offload":
            return Offload(self.shape, self._kv, self.max_tokens, settings.top_k, settings.library)
        return Pooled(self.shape, self._kv, self.max_tokens, self.config, settings.library)

    def selector(self, record_layer: int | None = None) -> Recorder:
        """A selector that holds the prompt's keys, and remembers the selections of one layer."""
        self.prefill()
        selector = Recorder(self.model, self.settings.top_k, self.max_tokens, record_layer)
        for layer, keys in enumerate(self._kv[0]):
            selector.append(layer, 0, keys)
        return selector

    def run(self, mode: str, drafts: int = 0, progress: Progress = lambda count: None) -> ModeResult:
        """Decodes num_tokens in a mode, with that many drafts a step."""
        storage = self.storage(mode)
        decoded = decode(
            self.model,
            self.selector(),
            storage,
            self.prompt.tokens,
            self.settings.num_tokens,
            drafts=drafts,
            progress=progress,
        )
        return ModeResult(mode, drafts, decoded, storage.traffic, storage.device_bytes)

    def check_pool(self) -> None:
        """ValueError or LibraryNotFoundError when the library cannot run a pool of these sizes."""
        Pool(self.config, library=self.settings.library)
        Primitives(self.config, num_payloads=2, library=self.settings.library)

    def check_record(self, layer: int) -> None:
        """ValueError when the run cannot give a trace of the layer."""
        if not 0 <= layer < self.shape.num_layers:
            raise ValueError(
                f"layer is {layer}, but 0 to {self.shape.num_layers - 1} is allowed: choose a layer."
            )
        num_tokens, top_k = len(self.prompt.tokens), self.settings.top_k
        if num_tokens < top_k:
            raise ValueError(
                f"The prompt has {num_tokens} tokens, but a trace of top_k {top_k} begins where a query sees "
                "at least that many: give a longer prompt."
            )

    def record(self, layer: int, progress: Progress = lambda count: None) -> tuple[np.ndarray, dict]:
        """topk uint16 [num_tokens, top_k] and meta of a layer of a plain run (see avsg/data/README.md)."""
        self.check_record(layer)
        selector, storage = self.selector(layer), self.storage("resident")
        decode(
            self.model,
            selector,
            storage,
            self.prompt.tokens,
            self.settings.num_tokens,
            progress=progress,
        )
        meta = {
            "model": f"SmolLM2-135M-Instruct ({WEIGHTS_LICENCE}), Q4_1 file of {WEIGHTS_PACKAGE}, float32",
            "layer": layer,
            "text": f"prompt: {self.prompt.source}; the steps are the model's own greedy answer, which "
            "repeats itself more than real text, so reuse is on the high side",
            "K": self.settings.top_k,
            "context_start": len(self.prompt.tokens) - 1,
            "steps": self.settings.num_tokens,
            "rope_extension": None,
            "rule": "exact top-K of attention probability summed over heads; decode reads the selection only",
        }
        return np.stack(selector.recorded).astype(np.uint16), meta


class Recorder(Selector):
    """A selector that keeps the selections of one layer, best first."""

    def __init__(self, model: Decoder, top_k: int, max_tokens: int, layer: int | None) -> None:
        super().__init__(model.shape, top_k, max_tokens)
        self.recorded: list[np.ndarray] = []
        self._layer = layer

    def select(self, layer: int, spread_query: Tensor, num_tokens: int) -> np.ndarray:
        selected = super().select(layer, spread_query, num_tokens)
        if layer == self._layer:
            self.recorded.append(selected)
        return selected


def write_trace(path: Path, topk: np.ndarray, meta: dict) -> None:
    """Writes a trace file for `avsg replay`."""
    np.savez_compressed(path, topk=topk, meta=np.array(json.dumps(meta)))
