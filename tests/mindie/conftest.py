# SPDX-License-Identifier: Apache-2.0
"""Set-up of the MindIE adapter's tests: the fixture that provides MindIE-LLM's classes on a CPU."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def mindie():
    """The torch module, with mindie_llm importable (mindie_env.set_up)."""
    import mindie_env

    return mindie_env.set_up()
