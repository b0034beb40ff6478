# SPDX-License-Identifier: Apache-2.0
"""Imported before torch by test modules of the MindIE adapter: without torch the module is skipped."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
