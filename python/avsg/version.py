# SPDX-License-Identifier: Apache-2.0
"""The version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    __version__ = version("avsg")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = (Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()
