# SPDX-License-Identifier: Apache-2.0
"""The decode loop: greedy, plain or with drafts that one step of several queries verifies."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .model import STEP_LINES, Decoder, RowSource, Selector

DRAFT_NGRAMS = (3, 2)  # a draft continues the latest earlier place of the last 3, else 2 tokens
NUM_DRAFTS = STEP_LINES - 1


@dataclass
class Decoded:
    """What a run produced. drafted, accepted: draft tokens; logits_crc32: one entry for each token."""

    tokens: list[int] = field(default_factory=list)
    logits_crc32: list[int] = field(default_factory=list)
    steps: int = 0
    drafted: int = 0
    accepted: int = 0


class NgramDrafter:
    """Drafts by looking up the last n-gram in the text so far (prompt look-up); it needs no second model."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # n-gram -> position after its latest place
        self.extend(tokens)

    def extend(self, tokens: list[int]) -> None:
        """Adds accepted tokens. An n-gram is found only once a token follows it."""
        for token in tokens:
            end = len(self._tokens)
            for n in DRAFT_NGRAMS:
                if end >= n:
                    self._after[tuple(self._tokens[end - n :])] = end
            self._tokens.append(token)

    def draft(self, count: int) -> list[int]:
        """At most count tokens that followed the last n-gram at its latest earlier place."""
        for n in DRAFT_NGRAMS:
            found = self._after.get(tuple(self._tokens[-n:]))
            if found is not None:
                return self._tokens[found : found + count]
        return []


def decode(
    model: Decoder,
    selector: Selector,
    storage: RowSource,
    prompt: list[int],
    num_tokens: int,
    *,
    drafts: int = 0,
    progress: Callable[[int], None] = lambda count: None,
) -> Decoded:
    """Greedy decoding of num_tokens tokens; selector and storage hold the KV of prompt but its last token.

    drafts: draft tokens a step, 0..NUM_DRAFTS. A step runs the last accepted token and its drafts as its
    queries, and keeps the drafts that equal the model's own choice and one token more. The rejected ones are
    rolled back by not advancing: the next step stores its rows over theirs, and the pool has dropped them
    already, because only the first query of a step is below verified_len (SPEC.md "CLOSE").
    """
    if not 0 <= drafts <= NUM_DRAFTS:
        raise ValueError(
            f"drafts is {drafts}, but 0 to {NUM_DRAFTS} is allowed: a step has {STEP_LINES} queries."
        )
    result, position, last = Decoded(), len(prompt) - 1, prompt[-1]
    drafter = NgramDrafter(prompt) if drafts else None
    while len(result.tokens) < num_tokens:
        room = num_tokens - len(result.tokens)
        drafted = drafter.draft(min(drafts, room - 1)) if drafter else []
        logits = model.step([last, *drafted], position, selector, storage)
        chosen = logits.argmax(axis=1).tolist()
        accepted = next((i for i, token in enumerate(drafted) if token != chosen[i]), len(drafted))
        new = chosen[: accepted + 1]
        if drafter:
            drafter.extend(new)
        result.tokens += new
        result.logits_crc32 += [zlib.crc32(np.ascontiguousarray(line)) for line in logits[: len(new)]]
        result.steps += 1
        result.drafted += len(drafted)
        result.accepted += accepted
        position, last = position + len(new), new[-1]
        progress(len(new))
    return result
