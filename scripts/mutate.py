# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a copy of the source tree and sees that the tests catch it.

A mutation that survives shows a law that no test holds.
Usage: .venv/bin/python scripts/mutate.py [--list] [--room ROOM] [--only NAME]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mutations import ALL
from mutations.case import Mutation, Tests

ROOT = Path(__file__).resolve().parents[1]
FILES = ("CMakeLists.txt", "VERSION", "pyproject.toml")
TREE = (*FILES, "framework", "op_host", "op_kernel", "python", "scripts", "tests")
TIME_LIMIT_S = 120  # of one mutation's tests; twenty times as long for all tests together


class Defect(Exception):
    """The script or its table is wrong, which says nothing about the tests."""


@dataclass(frozen=True)
class Outcome:
    """The first test that failed, None if all passed."""

    failed: str | None


class Copy:
    """A copy of the tree in a temporary folder, built as its files change; the working tree is only read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configured = False
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *TREE]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)

    def build(self, targets: tuple[str, ...]) -> None:
        """Builds the libraries; -O1 halves the time, and the tests are exact at every level."""
        if not targets:
            return
        if not self.configured:
            self._cmake("-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1")
            self.configured = True
        self._cmake("--build", "build", "-j2", "--target", *targets)

    def _cmake(self, *arguments: str) -> None:
        done = subprocess.run(["cmake", *arguments], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise Defect(f"cmake {' '.join(arguments)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")

    def test(self, nodes: tuple[str, ...], time_limit_s: int = TIME_LIMIT_S) -> Outcome:
        """Runs tests until one fails. Only a test's own failure counts; anything else is a Defect."""
        options = ["-x", "-q", "-rf", "-p", "no:cacheprovider", "--tb=short"]
        environment = {k: v for k, v in os.environ.items() if k != "AVSG_LIBRARY"}
        environment |= {
            "PYTHONPATH": str(self.folder / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "400",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *nodes],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Defect(f"the tests took more than {time_limit_s} s") from None
        failed = re.search(r"^FAILED (.+?)(?: - .*)?$", output, re.M)
        if process.returncode == 0:
            return Outcome(None)
        if process.returncode != 1 or failed is None:
            raise Defect(
                f"pytest ended with {process.returncode} and without a failed test:\n{output[-3000:]}"
            )
        return Outcome(failed[1])

    def plant(self, mutation: Mutation) -> Outcome:
        """The outcome of a mutation's tests while its fault is in the copy."""
        path = self.folder / mutation.file
        sound = path.read_text()
        path.write_text(mutation.apply(sound))
        try:
            self.build(mutation.tests.targets)
            return self.test(mutation.tests.nodes)
        finally:
            path.write_text(sound)


def together(mutations: list[Mutation]) -> Tests:
    """All tests of the mutations, each once."""
    nodes = dict.fromkeys(node for mutation in mutations for node in mutation.tests.nodes)
    targets = dict.fromkeys(target for mutation in mutations for target in mutation.tests.targets)
    return Tests(tuple(nodes), tuple(targets))


def run(mutations: list[Mutation], folder: Path) -> int:
    """Prints a line for each mutation; returns how many were not caught."""
    for mutation in mutations:
        mutation.apply((ROOT / mutation.file).read_text())
    copy, tests = Copy(folder), together(mutations)
    copy.build(tests.targets)
    outcome = copy.test(tests.nodes, 20 * TIME_LIMIT_S)
    if outcome.failed:
        raise Defect(f"{outcome.failed} fails without any mutation: repair that first")
    width = max(len(mutation.name) for mutation in mutations)
    print(f"{'mutation':{width}}  room    seconds  caught by", flush=True)
    missed = 0
    for mutation in mutations:
        start = time.monotonic()
        try:
            caught = copy.plant(mutation).failed
        except Defect as defect:
            caught, text = None, f"DEFECT: {defect}"
        else:
            text = caught or f"SURVIVED: {mutation.rule}"
        missed += caught is None
        print(
            f"{mutation.name:{width}}  {mutation.room:6}  {time.monotonic() - start:7.1f}  {text}", flush=True
        )
    print(f"{len(mutations) - missed} of {len(mutations)} mutations are caught.")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--list", action="store_true", help="print the mutations and the rules that they break"
    )
    parser.add_argument("--room", choices=sorted({mutation.room for mutation in ALL}), help="this room only")
    parser.add_argument("--only", action="append", metavar="NAME", help="this mutation only; may be repeated")
    arguments = parser.parse_args()
    unknown = set(arguments.only or ()) - {mutation.name for mutation in ALL}
    if unknown:
        parser.error(f"no mutation is called {', '.join(sorted(unknown))}; --list names them all")
    chosen = [
        mutation
        for mutation in ALL
        if arguments.room in (None, mutation.room) and (not arguments.only or mutation.name in arguments.only)
    ]
    if not chosen:
        parser.error("no mutation is left: --only names none of that room")
    if arguments.list:
        for mutation in chosen:
            print(f"{mutation.room:6}  {mutation.name}\n        {mutation.rule}")
        return 0
    with tempfile.TemporaryDirectory(prefix="avsg-mutate-") as folder:
        try:
            return 1 if run(chosen, Path(folder)) else 0
        except (Defect, ValueError) as error:
            print(error, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
