# SPDX-License-Identifier: Apache-2.0
"""Tests named test_mindspore_* and test_torch_* run where that framework is installed: in .venv-ms and
.venv-torch of scripts/test.sh."""

from __future__ import annotations

import importlib.util

import pytest

FRAMEWORKS = {"mindspore": ("MindSpore", ".venv-ms"), "torch": ("torch", ".venv-torch")}


def framework_of(path) -> str | None:
    """ "mindspore" or "torch", as the name of a test file says."""
    return next((name for name in FRAMEWORKS if path.name.startswith(f"test_{name}_")), None)


def pytest_pycollect_makemodule(module_path, parent):
    name = framework_of(module_path)
    if name is None or importlib.util.find_spec(name) is not None:
        return None
    return SkippedModule.from_parent(parent, path=module_path)


class SkippedModule(pytest.Module):
    """Says why, instead of importing a module that needs a framework."""

    def collect(self):
        title, venv = FRAMEWORKS[framework_of(self.path)]
        pytest.skip(
            f"{title} is not installed here: bash scripts/test.sh runs it in {venv}", allow_module_level=True
        )


def pytest_itemcollected(item):
    name = framework_of(item.path)
    if name is not None:
        item.add_marker(name)


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
