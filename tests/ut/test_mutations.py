# SPDX-License-Identifier: Apache-2.0
"""The table of scripts/mutate.py fits the present sources and tests, so that it cannot rot unseen."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from mutations import ALL  # noqa: E402


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_mutation_applies_to_the_present_source(mutation) -> None:
    """Its old text occurs exactly once, and the new text differs."""
    text = (ROOT / mutation.file).read_text()
    assert mutation.apply(text) != text


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_tests_of_a_mutation_exist(mutation) -> None:
    for node in mutation.tests.nodes:
        file, _, rest = node.partition("::")
        text = (ROOT / file).read_text()
        name = re.match(r"\w*", rest)[0]
        assert not name or re.search(rf"^(def {name}\(|class {name}\b|{name} = )", text, re.M), node


def test_a_mutation_that_no_longer_applies_says_so() -> None:
    mutation = ALL[0]
    for text, count in (("", 0), (2 * mutation.old, 2)):
        with pytest.raises(ValueError, match=f"{mutation.name} no longer applies: .* occurs {count} times"):
            mutation.apply(text)


def test_names_are_unique_and_every_room_is_mutated() -> None:
    names = [mutation.name for mutation in ALL]
    assert len(set(names)) == len(names) >= 20
    assert {mutation.room for mutation in ALL} == {"kernel", "host", "cpu", "python"}
