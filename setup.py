# SPDX-License-Identifier: Apache-2.0
"""Builds the CPU libraries with CMake and ships them inside the wheel; all else is in pyproject.toml."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
TARGETS = ["avsg_cpu", "avsg_cpu_checked", "avsg_mindspore_cpu", "avsg_mindspore_cpu_checked"]
if os.environ.get("AVSG_BUILD_NPU"):  # scripts/build.sh sets it: without an NPU the library has no use
    TARGETS.append("avsg_npu")
# What `python -m avsg.torch_ops` compiles for the torch of the user.
TORCH_SOURCES = ("framework/torch/*", "framework/c_api/*.h", "framework/c_api/check*.cpp", "op_host/tiling.*")
TORCH_SOURCES += ("op_kernel/avsg_layout.h",)


class BuildWithLibraries(build_py):
    """Adds avsg/lib/*.so and avsg/sources to the package; an editable install uses the source tree's."""

    def run(self) -> None:
        # A file deleted from the sources must not stay in the wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        build_dir = ROOT / "build"
        jobs = str(min(os.cpu_count() or 1, 4))
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(build_dir)], check=True)
        subprocess.run(["cmake", "--build", str(build_dir), "-j", jobs, "--target", *TARGETS], check=True)
        if self.editable_mode:
            return
        destination = Path(self.build_lib) / "avsg" / "lib"
        destination.mkdir(parents=True, exist_ok=True)
        for target in TARGETS:
            folder = build_dir / "npu" if target == "avsg_npu" else build_dir
            shutil.copy2(folder / f"lib{target}.so", destination)
        for source in (path for pattern in TORCH_SOURCES for path in ROOT.glob(pattern)):
            copy = Path(self.build_lib) / "avsg" / "sources" / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


class PlatformWheel(bdist_wheel):
    """The libraries are called through ctypes: bound to the machine, not to a Python version."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class WithLibraries(Distribution):
    """Makes setuptools install into platlib."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=WithLibraries,
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": "build/python"}},
    setup_requires=[] if shutil.which("cmake") else ["cmake>=3.18"],
)
