# SPDX-License-Identifier: Apache-2.0
"""A long prompt of real text that every Python installation has: the Python Language Reference."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from .package import RequirementError
from .tokenizer import Tokenizer

# Chapters as pydoc names them, in reading order; pydoc prints them on help("with") and the like.
CHAPTERS = (
    "execmodel",
    "compound",
    "objects",
    "types",
    "specialnames",
    "formatstrings",
    "typesseq",
    "string-methods",
)
QUESTION = "Explain in a few sentences what the text above is about, and give a short example in Python."


@dataclass(frozen=True)
class Prompt:
    """Token ids of one user's turn, and one sentence that says what text it is made of."""

    tokens: list[int]
    source: str


def reference_text(tokenizer: Tokenizer, num_tokens: int) -> tuple[list[int], str]:
    """Tokens from the beginning of CHAPTERS and where they come from; RequirementError without pydoc data."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        topics = {}
    tokens: list[int] = []
    used = []
    for name in (name for name in CHAPTERS if name in topics and len(tokens) < num_tokens):
        tokens += tokenizer.encode(topics[name] + "\n")
        used.append(name)
    if not used:
        raise RequirementError(
            "This Python lacks pydoc_data, whose text is the prompt: install the rest of its standard "
            "library, or pass a text of your own with --text FILE."
        )
    source = (
        f"the Python {platform.python_version()} Language Reference in this interpreter's pydoc (PSF licence)"
    )
    return tokens[:num_tokens], f"{source}, chapters {', '.join(used)}"


def long_prompt(tokenizer: Tokenizer, num_tokens: int, path: Path | None = None) -> Prompt:
    """A prompt of about num_tokens tokens: the beginning of the text, then a question about it.

    path: a text file to use instead. ValueError when there is no text or no room for it.
    """
    around = len(tokenizer.chat(f"\n\n{QUESTION}"))
    room = num_tokens - around
    if room < 1:
        raise ValueError(
            f"The prompt has {num_tokens} tokens, but the question alone takes {around}: allow more."
        )
    if path is None:
        body, source = reference_text(tokenizer, room)
    else:
        body, source = tokenizer.encode(path.read_text(errors="replace"))[:room], str(path)
    if not body:
        raise ValueError(f"{path} is empty, but the model reads a text: give another file.")
    tokens = tokenizer.chat(f"{tokenizer.decode(body)}\n\n{QUESTION}")
    return Prompt(tokens, f"the first {len(body):,} tokens of {source}")
