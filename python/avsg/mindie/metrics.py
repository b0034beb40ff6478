# SPDX-License-Identifier: Apache-2.0
"""Metrics: what the pools of a rank did, added up on the device; a dictionary or Prometheus text."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from .. import layout

_MATCH = (
    "valid_tokens",
    "hits",
    "misses",
    "bad_tokens",
    "invalidated",
    "unlinked",
    "floor_advance",
    "resets",
)
_LOAD, _STORE = ("rows_copied", "bad_blocks"), ("rows_stored", "rows_skipped")
DEVICE_COUNTERS = (*_MATCH, *_LOAD, *_STORE)
HOST_COUNTERS = (
    "shadow_rows_compared",
    "shadow_rows_wrong",
    "shadow_rows_discarded",
    "rows_taken",
    "mode_switches",
)
HOST_GAUGES = ("rows", "rows_in_use", "full_offload")
_HELP = {
    "steps": "Decode steps.",
    "valid_tokens": "Selected tokens that the pool looked up.",
    "hits": "Selected tokens whose row was on the device.",
    "misses": "Selected tokens whose row was copied from the host.",
    "bad_tokens": "Selected tokens at or past the sequence's end; anything but 0 is an error of the engine.",
    "invalidated": "Rows dropped because rejected drafts had written their tokens.",
    "unlinked": "Copied rows that no later step can find; a few are normal.",
    "floor_advance": "Steps by which the bound of reclaimable age moved: pressure on the slots.",
    "resets": "Steps of a request that started from an empty row.",
    "rows_copied": "Rows copied from host to device, every layer counted.",
    "bytes_copied": "Bytes copied from host to device.",
    "bad_blocks": "Rows without a host block, filled with zeros; anything but 0 is an error of the engine.",
    "rows_stored": "New rows written to the host, every layer counted.",
    "rows_skipped": "New rows not written to the host (padding).",
    "shadow_rows_compared": "Device rows that the shadow check compared with the host's.",
    "shadow_rows_wrong": "Device rows that differed from the host's; anything but 0 is an error.",
    "shadow_rows_discarded": "Sampled rows not compared, because their request ended or changed meanwhile.",
    "rows_taken": "Rows taken from requests that were absent from steps.",
    "mode_switches": "Switches between pool and full offload.",
    "rows": "Rows of each pool.",
    "rows_in_use": "Rows that a request owns.",
    "full_offload": "1 while every selected row is copied at every step.",
}


class Metrics:
    """Counters of one rank since it began to serve.

    groups: the layers of each layer group. row_bytes: bytes of a token's KV in one layer. rank: the label in
    Prometheus text. record_* queue a few small operators on `device` and wait for nothing, so they may be
    captured in a graph; reading copies once to the host, and belongs outside the step. totals: int64 [groups,
    12] in the order of DEVICE_COUNTERS; it never moves.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[int]],
        device: torch.device | str = "cpu",
        *,
        row_bytes: int,
        rank: int = 0,
    ) -> None:
        self._groups = [list(layers) for layers in groups]
        self._row_bytes, self._rank = row_bytes, rank
        self._steps_and_totals = torch.zeros(
            1 + len(self._groups) * len(DEVICE_COUNTERS), dtype=torch.int64, device=device
        )
        self._steps = self._steps_and_totals[:1]
        self.totals = self._steps_and_totals[1:].view(len(self._groups), len(DEVICE_COUNTERS))
        masks = [-1] * layout.NUM_COUNTERS
        masks[layout.COUNTER_FLAGS] = layout.FLAG_RESET
        self._masks = torch.tensor(masks, dtype=torch.int32, device=device)
        self._host = dict.fromkeys((*HOST_COUNTERS, *HOST_GAUGES), 0)
        self._lock = threading.Lock()

    def record_match(self, group: int, counters: torch.Tensor) -> None:
        """Adds a plan's counters, int32 [B, 8] (SPEC.md "Counters"); group 0 counts the steps."""
        if group == 0:
            self._steps.add_(1)
        self.totals[group, : len(_MATCH)].add_((counters & self._masks).sum(dim=0))

    def record_load(self, group: int, load_counters: torch.Tensor) -> None:
        """Adds the counters of one load or of several, int32 [2] or [n, 2]."""
        self._add(group, len(_MATCH), load_counters)

    def record_store(self, group: int, store_counters: torch.Tensor) -> None:
        """Adds the counters of one store or of several, int32 [2] or [n, 2]."""
        self._add(group, len(_MATCH) + len(_LOAD), store_counters)

    def _add(self, group: int, column: int, counters: torch.Tensor) -> None:
        self.totals[group, column : column + 2].add_(counters.view(-1, 2).sum(dim=0))

    def count(self, name: str, n: int = 1) -> None:
        """Adds n to one of HOST_COUNTERS. Any thread. KeyError: another name."""
        _known(name, HOST_COUNTERS)
        with self._lock:
            self._host[name] += n

    def gauge(self, name: str, value: int) -> None:
        """Sets one of HOST_GAUGES. Any thread. KeyError: another name."""
        _known(name, HOST_GAUGES)
        with self._lock:
            self._host[name] = value

    def snapshot(self) -> dict:
        """{"steps": ..., "groups": [a dict each], and a value for each of HOST_COUNTERS and HOST_GAUGES}.

        A group's dict has its layers, DEVICE_COUNTERS, bytes_copied and hit_rate (hits / valid_tokens, 0
        before the first valid token). Copies to the host once and waits for it.
        """
        steps, *flat = self._steps_and_totals.tolist()
        width = len(DEVICE_COUNTERS)
        groups = []
        for number, layers in enumerate(self._groups):
            values = dict(zip(DEVICE_COUNTERS, flat[number * width : (number + 1) * width]))
            rate = values["hits"] / values["valid_tokens"] if values["valid_tokens"] else 0.0
            copied = values["rows_copied"] * self._row_bytes
            groups.append({"layers": layers, **values, "bytes_copied": copied, "hit_rate": rate})
        with self._lock:
            return {"steps": steps, "groups": groups, **self._host}

    def prometheus(self) -> str:
        """The snapshot in Prometheus' text format (0.0.4), a time series a group and rank."""
        snapshot = self.snapshot()
        rank = f'rank="{self._rank}"'
        lines = _family("steps", "counter", [(rank, snapshot["steps"])])
        for name in (*DEVICE_COUNTERS, "bytes_copied"):
            series = [
                (f'{rank},group="{number}",layers="{_span(group["layers"])}"', group[name])
                for number, group in enumerate(snapshot["groups"])
            ]
            lines += _family(name, "counter", series)
        for kind, names in (("counter", HOST_COUNTERS), ("gauge", HOST_GAUGES)):
            for name in names:
                lines += _family(name, kind, [(rank, snapshot[name])])
        return "\n".join(lines) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replaces the file by the Prometheus text, at once for a reader; {rank} in path is the rank."""
        target = Path(str(path).replace("{rank}", str(self._rank)))
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.write_text(self.prometheus())
        draft.replace(target)

    def reset(self) -> None:
        """All counters to 0 (after warm-up); gauges stay."""
        self._steps_and_totals.zero_()
        with self._lock:
            self._host.update(dict.fromkeys(HOST_COUNTERS, 0))


def _known(name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise KeyError(f"no metric is called {name!r}; use one of {', '.join(names)}.")


def _family(name: str, kind: str, series: list[tuple[str, int]]) -> list[str]:
    full = f"avsg_{name}_total" if kind == "counter" else f"avsg_{name}"
    lines = [f"# HELP {full} {_HELP[name]}", f"# TYPE {full} {kind}"]
    return lines + [f"{full}{{{labels}}} {value}" for labels, value in series]


def _span(layers: list[int]) -> str:
    return str(layers[0]) if len(layers) == 1 else f"{layers[0]}-{layers[-1]}"
