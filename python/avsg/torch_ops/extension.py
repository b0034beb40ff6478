# SPDX-License-Identifier: Apache-2.0
"""Compiling the torch extension: one call of the C++ compiler, for the torch that is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import torch

from ..errors import LibraryError, LibraryNotFoundError

_PACKAGE_DIR = Path(__file__).resolve().parents[1]  # avsg
COMMAND = "python -m avsg.torch_ops"
_CXX20_SINCE = (2, 10)  # older torch is written in C++17, and so may the compiler beside it be
_OTHER_SOURCES = ("framework/c_api/check.cpp", "framework/c_api/check_calls.cpp", "op_host/tiling.cpp")
_HEADERS = (
    "framework/c_api/avsg.h",
    "framework/c_api/check.h",
    "op_kernel/avsg_layout.h",
    "op_host/tiling.h",
)
_INCLUDES = ("framework/torch", "framework/c_api", "op_kernel", "op_host")


def source_root() -> Path:
    """Where framework/torch is: the source tree, else the sources that the wheel carries."""
    for root in (_PACKAGE_DIR.parents[1], _PACKAGE_DIR / "sources"):
        if (root / "framework" / "torch" / "ops.cpp").exists():
            return root
    raise LibraryNotFoundError(
        f"The sources of the torch extension are not in {_PACKAGE_DIR / 'sources'}: install the whole wheel "
        "of AVSG again."
    )


def _directory() -> Path:
    """Where the extension is: build/torch of a source tree, else avsg/lib."""
    root = _PACKAGE_DIR.parents[1]
    in_tree = (root / "CMakeLists.txt").exists() and (root / "framework" / "torch").exists()
    return root / "build" / "torch" if in_tree else _PACKAGE_DIR / "lib"


def torch_npu() -> Distribution | None:
    """The installed torch_npu, None where there is none."""
    try:
        return distribution("torch_npu")
    except PackageNotFoundError:
        return None


def extension_path() -> Path:
    """File of the extension for the installed torch and torch_npu, whose versions are in its name."""
    tag = torch.__version__
    npu = torch_npu()
    if npu is not None:
        tag += f"-npu{npu.version}"
    return _directory() / f"libavsg_torch-{tag}.so"


def built_extension() -> Path:
    """The extension for this torch; LibraryNotFoundError with the command that builds it otherwise."""
    path = extension_path()
    if path.exists():
        return path
    others = sorted(other.name for other in path.parent.glob("libavsg_torch-*.so"))
    found = f"only {', '.join(others)}, for another torch" if others else "none"
    raise LibraryNotFoundError(
        f"The torch extension of AVSG for torch {torch.__version__} is {path.name}, but {path.parent} has "
        f"{found}: run `{COMMAND}` to build it (once for each version of torch)."
    )


def command(output: Path) -> list[str]:
    """The compiler's command line for the installed torch, and torch_npu if present."""
    from torch.utils.cpp_extension import include_paths, library_paths

    root, npu = source_root(), torch_npu()
    sources = sorted((root / "framework" / "torch").glob("*.cpp"))
    if npu is None:
        sources = [path for path in sources if not path.stem.endswith("_npu")]
    else:
        sources += [root / name for name in _OTHER_SOURCES]
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    includes, libraries, names = include_paths(), library_paths(), ["torch", "torch_cpu", "c10"]
    if npu is not None:
        package = Path(npu.locate_file("torch_npu"))
        includes += [str(package / "include"), str(package / "include" / "third_party" / "acl" / "inc")]
        libraries, names = [*libraries, str(package / "lib")], [*names, "torch_npu"]
    return [
        *shlex.split(os.environ.get("CXX", "g++")),
        "-std=c++20" if release >= _CXX20_SINCE else "-std=c++17",
        *("-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-I{root / folder}" for folder in _INCLUDES),
        *(flag for folder in includes for flag in ("-isystem", folder)),
        *(str(path) for path in sources),
        *(f"-L{folder}" for folder in libraries),
        *(f"-l{name}" for name in names),
        *("-o", str(output)),
    ]


def build() -> Path:
    """Compiles the extension for the installed torch unless it is newer than its sources; returns its path.

    Needs a C++ compiler ($CXX, else g++) and nothing else. Errors: LibraryNotFoundError without sources,
    LibraryError when the compiler is missing or fails, or where the folder cannot be written.
    """
    path, root = extension_path(), source_root()
    inputs = [root / name for name in (*_OTHER_SOURCES, *_HEADERS)]
    inputs += (root / "framework" / "torch").iterdir()
    if path.exists() and path.stat().st_mtime >= max(file.stat().st_mtime for file in inputs):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            _compile(command(made))
            os.replace(made, path)  # a process that has the old one open keeps it
    except OSError as error:
        raise LibraryError(
            f"{path.parent} cannot be written ({error}): run `{COMMAND}` as the user who installed AVSG."
        ) from None
    return path


def _compile(line: list[str]) -> None:
    if shutil.which(line[0]) is None:
        raise LibraryError(
            f"{line[0]} is missing: install g++ or set CXX to a C++ compiler, then `{COMMAND}`."
        )
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise LibraryError(
            f"The torch extension did not compile with torch {torch.__version__}, see the compiler's lines; "
            f"the command was\n{shlex.join(line)}\n{done.stderr}"
        )
