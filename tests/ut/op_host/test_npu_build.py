# SPDX-License-Identifier: Apache-2.0
"""The NPU build without CANN: a stand-in for the toolkit's npu_op_* functions records every call."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STUB = Path(__file__).parent / "asc" / "asc-config.cmake"
HOST_SOURCES = [
    f"<root>/op_host/{name}.cpp"
    for name in ("avsg_op", "avsg_match_op", "avsg_load_op", "avsg_store_op", "tiling", "tiling_call")
]
ACLNN_SOURCES = [
    f"<build>/autogen/aclnn_{name}.cpp" for name in ("avsg", "avsg_load", "avsg_match", "avsg_store")
]
KERNELS = {"Avsg": "avsg", "AvsgMatch": "avsg_match", "AvsgLoad": "avsg_load", "AvsgStore": "avsg_store"}

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is missing: pip install cmake")


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A folder that find_package(ASC) takes for a CANN toolkit."""
    folder = tmp_path / "toolkit" / "compiler" / "tikcpp" / "ascendc_kernel_cmake"
    folder.mkdir(parents=True)
    shutil.copy(STUB, folder)
    return tmp_path / "toolkit"


def configure(build: Path, home: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CMAKE_GENERATOR"}
    environment["ASCEND_HOME_PATH"] = "" if home is None else str(home)
    source = build.parent / "source"  # a path without spaces, wherever the tree is
    if not source.exists():
        source.symlink_to(ROOT)
    command = ["cmake", "-S", str(source / "op_host"), "-B", str(build), f"-DAVSG_RECORD={build / 'calls'}"]
    return subprocess.run([*command, *options], capture_output=True, text=True, env=environment)


def refusal(run: subprocess.CompletedProcess[str]) -> str:
    """The sentence of a failed configure, as one line."""
    assert run.returncode == 1
    text = run.stderr.split("(message):", 1)[1].split("CMake Error", 1)[0].split("Call Stack", 1)[0]
    return " ".join(text.split())


def calls(build: Path) -> list[list[str]]:
    text = (build / "calls").read_text()
    text = text.replace(str(build), "<build>").replace(str(build.parent / "source"), "<root>")
    return [line.split("|") for line in text.splitlines()]


def test_every_call_of_the_toolkit_has_its_arguments_in_order(toolkit: Path, tmp_path: Path) -> None:
    run = configure(tmp_path / "build", toolkit)
    assert run.returncode == 0, run.stderr
    assert calls(tmp_path / "build") == [
        ["find_package", "ascend910b", "ascend910_93"],
        ["npu_op_package", "avsg", "TYPE", "RUN", "CONFIG", "INSTALL_PATH", "<build>"],
        ["npu_op_code_gen", "SRC", *HOST_SOURCES, "PACKAGE", "avsg", "OUT_DIR", "<build>/autogen"]
        + ["COMPILE_OPTIONS", "-I<root>/op_kernel"],
        ["npu_op_library", "cust_opapi", "ACLNN", *ACLNN_SOURCES],
        ["npu_op_library", "cust_op_proto", "GRAPH", *HOST_SOURCES, "<build>/autogen/op_proto.cc"],
        ["npu_op_library", "cust_optiling", "TILING", *HOST_SOURCES],
        *(
            [
                "npu_op_kernel_sources",
                "ascendc_kernels",
                "OP_TYPE",
                op,
                "KERNEL_DIR",
                ".",
                "KERNEL_FILE",
                f"{file}.cpp",
            ]
            for op, file in KERNELS.items()
        ),
        ["npu_op_kernel_library", "ascendc_kernels", "SRC_BASE", "<root>/op_kernel"]
        + ["TILING_LIBRARY", "cust_optiling"],
        [
            "npu_op_package_add",
            "avsg",
            "LIBRARY",
            "cust_optiling",
            "cust_opapi",
            "cust_op_proto",
            "ascendc_kernels",
        ],
    ]


def test_host_and_kernel_sources_exist_and_none_is_left_out() -> None:
    named = {source.replace("<root>", str(ROOT)) for source in HOST_SOURCES}
    assert named == {str(path) for path in (ROOT / "op_host").glob("*.cpp")}
    assert {f"{file}.cpp" for file in KERNELS.values()} == {
        path.name for path in (ROOT / "op_kernel").glob("*.cpp")
    }


def test_one_chip_family_can_be_chosen(toolkit: Path, tmp_path: Path) -> None:
    assert configure(tmp_path / "build", toolkit, "-DAVSG_SOC=ascend910_93").returncode == 0
    assert calls(tmp_path / "build")[0] == ["find_package", "ascend910_93"]


@pytest.mark.parametrize("soc", ["ascend910b1", "ascend910b;ascend310p", "Ascend910B"])
def test_a_chip_instead_of_a_family_is_refused(toolkit: Path, tmp_path: Path, soc: str) -> None:
    wrong = soc.split(";")[-1]
    assert refusal(configure(tmp_path / "build", toolkit, f"-DAVSG_SOC={soc}")) == (
        f"AVSG_SOC names {wrong}, allowed are the chip families ascend910b (Atlas A2) and "
        "ascend910_93 (Atlas A3)."
    )
    assert not (tmp_path / "build" / "calls").exists()


def test_no_chip_family_is_refused(toolkit: Path, tmp_path: Path) -> None:
    sentence = refusal(configure(tmp_path / "build", toolkit, "-DAVSG_SOC="))
    assert sentence.startswith("AVSG_SOC names no chip family: allowed are ascend910b")


def test_another_generator_is_refused(toolkit: Path, tmp_path: Path) -> None:
    sentence = refusal(configure(tmp_path / "build", toolkit, "-G", "Ninja"))
    assert sentence == (
        "The generator is Ninja, but CANN's functions write makefiles: configure a new folder with "
        '-G "Unix Makefiles".'
    )


def test_a_toolkit_without_the_functions_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    assert refusal(configure(tmp_path / "build", old)) == (
        f"The CANN toolkit at {old} has no npu_op_package: CANN 8.3.RC1 or later is needed; install it and "
        "source its set_env.sh."
    )


@pytest.mark.parametrize("home", [None, Path("/nowhere")])
def test_no_toolkit_is_refused(tmp_path: Path, home: Path | None) -> None:
    assert refusal(configure(tmp_path / "build", home)) == (
        f'ASCEND_HOME_PATH is "{home or ""}", which is no folder: source set_env.sh of a CANN toolkit.'
    )


def test_a_path_with_a_space_is_refused(toolkit: Path, tmp_path: Path) -> None:
    assert "has a space in its path, which CANN's makefiles split" in refusal(
        configure(tmp_path / "my build", toolkit)
    )


def test_an_old_cmake_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "old.cmake"
    script.write_text(f'set(CMAKE_VERSION 3.16.3)\ninclude("{ROOT}/op_host/check_tools.cmake")\n')
    run = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)
    assert refusal(run) == "cmake 3.16.3 is too old, 3.18 or later is needed: pip install cmake."
