# SPDX-License-Identifier: Apache-2.0
"""The exceptions of AVSG and the one sentence form of every refusal."""

from __future__ import annotations


class LibraryNotFoundError(OSError):
    """A native library is missing; the sentence says where it was looked for and what to run."""


class LibraryError(RuntimeError):
    """A native library failed for a reason that is not an argument."""


class RuleViolationError(LibraryError):
    """The checked library caught a kernel breaking a rule of the device; the sentence names rule and line."""


class RowTableFull(RuntimeError):
    """Every row has an owner: the engine queues the sequence and admits it after a release."""


def sentence(what: str, got: object, allowed: str, remedy: str) -> str:
    """One sentence for a refusal: what it is about, what it got, what is allowed, what to do."""
    return f"{what} is {got}, but {allowed} is allowed: {remedy}."
