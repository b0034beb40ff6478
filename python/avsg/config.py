# SPDX-License-Identifier: Apache-2.0
"""PoolConfig: the five numbers that fix a pool, refused in full sentences where SPEC.md says so."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from . import layout
from .errors import sentence

_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True)
class PoolConfig:
    """Sizes of a pool (SPEC.md "Constants"; immutable).

    num_rows: rows of the state, 1 or more; one per request and group of layers that share their top-k.
    num_slots: S, slots of the device buffer per row; a multiple of 64 up to 65,408.
    top_k: K, tokens selected for one query; a multiple of 8.
    num_queries: most queries of one step (1 + speculative tokens); num_queries * top_k <= num_slots.
    max_life: L, steps after which an unused slot may be reclaimed; 1 to 2,000.
    Errors: TypeError for anything but whole numbers, ValueError for a number outside these limits.
    """

    num_rows: int
    num_slots: int
    top_k: int
    num_queries: int = 1
    max_life: int = layout.MAX_LIFE

    def __post_init__(self) -> None:
        for name in ("num_rows", "num_slots", "top_k", "num_queries", "max_life"):
            object.__setattr__(self, name, _whole_number(name, getattr(self, name)))
        _between("num_rows", self.num_rows, 1, _MAX_INT32, "give one row to each request of each layer group")
        _between("num_slots", self.num_slots, 1, layout.MAX_SLOTS, "choose fewer slots per row")
        _multiple("num_slots", self.num_slots, layout.SLOT_MULTIPLE)
        _between("top_k", self.top_k, 1, layout.MAX_SLOTS, "pass the K of the model's indexer")
        _multiple("top_k", self.top_k, layout.TOP_K_MULTIPLE)
        _between(
            "num_queries",
            self.num_queries,
            1,
            _MAX_INT32,
            "count the step's token and its speculative tokens",
        )
        _between(
            "max_life",
            self.max_life,
            1,
            layout.MAX_LIFE,
            "leave it at its default unless slots must age faster",
        )
        if self.num_queries * self.top_k > self.num_slots:
            raise ValueError(
                sentence(
                    "num_queries * top_k",
                    f"{self.num_queries} * {self.top_k} = {self.num_queries * self.top_k}",
                    f"at most num_slots = {self.num_slots}",
                    "raise num_slots or lower num_queries",
                )
            )


def _whole_number(name: str, value: object) -> int:
    if isinstance(value, bool):
        raise TypeError(sentence(name, repr(value), "a whole number", "pass an int"))
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            sentence(name, f"{value!r} ({type(value).__name__})", "a whole number", "pass an int")
        ) from None


def _between(name: str, value: int, low: int, high: int, remedy: str) -> None:
    if not low <= value <= high:
        raise ValueError(sentence(name, value, f"{low} to {high}", remedy))


def _multiple(name: str, value: int, factor: int) -> None:
    if value % factor:
        up = (value + factor - 1) // factor * factor
        raise ValueError(sentence(name, value, f"a multiple of {factor}", f"round it up to {up}"))
