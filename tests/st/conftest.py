# SPDX-License-Identifier: Apache-2.0
"""Tests named test_mindspore_* run where MindSpore is installed, in .venv-ms of scripts/test.sh."""

from __future__ import annotations

import importlib.util

import pytest

HAS_MINDSPORE = importlib.util.find_spec("mindspore") is not None


def pytest_pycollect_makemodule(module_path, parent):
    if not module_path.name.startswith("test_mindspore_") or HAS_MINDSPORE:
        return None
    return SkippedModule.from_parent(parent, path=module_path)


class SkippedModule(pytest.Module):
    """Says why, instead of importing a module that needs MindSpore."""

    def collect(self):
        pytest.skip(
            "MindSpore is not installed here: bash scripts/test.sh runs it in .venv-ms",
            allow_module_level=True,
        )


def pytest_itemcollected(item):
    if item.path.name.startswith("test_mindspore_"):
        item.add_marker(pytest.mark.mindspore)


@pytest.fixture(autouse=True)
def _mindspore_mode(request, tmp_path, monkeypatch):
    """Each MindSpore test starts in PyNative mode, in a folder where MindSpore may write its reports."""
    if request.node.get_closest_marker("mindspore") is None:
        yield
        return
    import mindspore as ms

    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
