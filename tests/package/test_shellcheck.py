# SPDX-License-Identifier: Apache-2.0
"""The shell scripts of the package say nothing to shellcheck."""

from __future__ import annotations

import shutil

import pytest
from package_case import ROOT, run

pytestmark = pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="no shellcheck on this machine: apt-get install shellcheck"
)


@pytest.mark.parametrize("name", ["scripts/build.sh", "scripts/package/set_env.bash"])
def test_scripts_are_clean(name):
    """With the files that they source."""
    run(["shellcheck", "--external-sources", "--shell=bash", name], cwd=ROOT)


def test_installer_is_clean_as_a_posix_script(new, tmp_path):
    """All of it but the payload; shellcheck takes the dialect from its first line."""
    script = new.read_bytes().split(b'exit "$?"\n')[0] + b'exit "$?"\n'
    (tmp_path / "install.sh").write_bytes(script)
    assert script.startswith(b"#!/bin/sh\n")
    run(["shellcheck", tmp_path / "install.sh"])
