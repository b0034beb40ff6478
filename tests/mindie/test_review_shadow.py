# SPDX-License-Identifier: Apache-2.0
"""The shadow check blames no request for what the row's owner before it left there."""

from __future__ import annotations

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is missing: run these tests in .venv-torch (scripts/test.sh)"
)

from test_shadow import Served  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_row_that_its_new_owner_has_not_used_yet_is_not_compared() -> None:
    """Rows are given out when a step is prepared, so the state may still be the last owner's."""
    served = Served()
    served.rows.finish(["sequence"])
    assert served.rows.admit("newcomer").row == 1
    served.block_table[2] = torch.arange(8)
    served.take("newcomer")
    assert served.shadow.verify() is None
    assert served.metrics.snapshot()["shadow_rows_wrong"] == 0
