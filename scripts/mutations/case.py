# SPDX-License-Identifier: Apache-2.0
"""One planted fault: a text of a source file, what replaces it, and the tests that must fail then."""

from __future__ import annotations

from dataclasses import dataclass

ROOMS = {
    "op_kernel": "kernel",
    "op_host": "host",
    "framework/c_api": "host",
    "framework/cpu": "cpu",
    "python": "python",
}


@dataclass(frozen=True)
class Tests:
    """Arguments for pytest, and the CMake targets of the libraries that these tests load."""

    nodes: tuple[str, ...]
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mutation:
    """`old` occurs exactly once in `file`; `rule` says what of SPEC.md or DESIGN.md the fault breaks."""

    name: str
    rule: str
    file: str
    old: str
    new: str
    tests: Tests

    @property
    def room(self) -> str:
        return next(room for folder, room in ROOMS.items() if self.file.startswith(f"{folder}/"))

    def apply(self, text: str) -> str:
        """The faulty text of the file. ValueError when the mutation no longer applies."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(
                f"mutation {self.name} no longer applies: its old text occurs {count} times in {self.file}, "
                "and exactly once is needed; bring scripts/mutations up to date with the source."
            )
        return text.replace(self.old, self.new)


def checked(*nodes: str) -> Tests:
    """Tests of the checked library."""
    return Tests(nodes, ("avsg_cpu_checked",))


def fast(*nodes: str) -> Tests:
    """Tests of the fast library."""
    return Tests(nodes, ("avsg_cpu",))


def python(*nodes: str) -> Tests:
    """Tests that load no library, or build their own."""
    return Tests(nodes)


def vector(library: str, *names: str) -> tuple[str, ...]:
    """The tests that hold a library to conformance vectors."""
    return tuple(f"tests/st/test_conformance.py::test_match_equals_the_vector[{library}-{n}]" for n in names)
