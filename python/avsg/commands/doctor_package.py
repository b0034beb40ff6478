# SPDX-License-Identifier: Apache-2.0
"""avsg doctor on operator packages: where CANN finds them, in which order, and does ours fit this machine."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import _abi
from .doctor_cann import compiler_version, family_of, source_line
from .doctor_finding import Finding, info_value, is_closed, run_python, text_of

OPERATORS = ("AvsgMatch", "AvsgLoad", "AvsgStore", "Avsg")
SYMBOLS = tuple(f"aclnn{name}{half}" for name in OPERATORS for half in ("GetWorkspaceSize", ""))
TRY_SYMBOLS = """
import ctypes, sys
try:
    library = ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(print(error))
missing = [name for name in sys.argv[2:] if not hasattr(library, name)]
print("no " + ", ".join(missing) if missing else "ok")
"""


@dataclass(frozen=True)
class Vendor:
    """A vendor directory, in the order in which CANN looks."""

    path: Path
    source: str  # what names it

    @property
    def library(self) -> Path:
        return self.path / "op_api" / "lib" / "libcust_opapi.so"

    def has_our_operators(self) -> bool:
        """Whether it offers operators with our names, whoever made them."""
        pattern = "op_impl/ai_core/tbe/config/*/aic-*-ops-info.json"
        files = glob.glob(os.path.join(glob.escape(str(self.path)), pattern))
        if any('"AvsgMatch"' in text_of(file) for file in files):
            return True
        return os.path.isfile(self.path / "op_api" / "include" / "aclnn_avsg_match.h")


def vendors_of(environment: Mapping[str, str]) -> list[Vendor]:
    """Vendors of ASCEND_CUSTOM_OPP_PATH, then those of ASCEND_OPP_PATH/vendors by load_priority."""
    found = [
        Vendor(Path(entry), "ASCEND_CUSTOM_OPP_PATH")
        for entry in environment.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")
        if entry.strip()
    ]
    opp = environment.get("ASCEND_OPP_PATH")
    if opp:
        config = Path(opp) / "vendors" / "config.ini"
        priority = info_value([config], "load_priority") or ""
        names = [name.strip() for name in priority.split(",")]
        found += [Vendor(config.parent / name, "load_priority") for name in names if name]
    return found


def installed_here() -> Path | None:
    """The vendors/avsg that this Python package lies in, None for a source tree or a wheel."""
    home = Path(_abi.__file__).resolve().parents[2]
    return home if home.parent.name == "vendors" and (home / "version.info").is_file() else None


def check_paths(environment: Mapping[str, str], here: Path | None) -> list[Finding]:
    """The OPP paths, and whether another vendor hides our operators."""
    name = "OPP paths"
    vendors = vendors_of(environment)
    ours = [vendor for vendor in vendors if vendor.has_our_operators()]
    reachable = {vendor.path.resolve() for vendor in vendors}
    if here is not None and here.resolve() not in reachable and (here / "op_impl").is_dir():
        text = f"{here} is installed, but neither ASCEND_CUSTOM_OPP_PATH nor load_priority names it"
        advice = f"Before Python or any framework starts: source {here}/bin/set_env.bash"
        return [Finding(name, "problem", text, advice)]
    if not vendors:
        advice = "Only needed on an NPU: install the .run of AVSG and source its set_env.bash."
        return [Finding(name, "absent", "no vendor in ASCEND_CUSTOM_OPP_PATH or load_priority", advice)]
    text = "; ".join(f"{vendor.path} ({vendor.source})" for vendor in vendors)
    closed = next((vendor.path for vendor in vendors if is_closed(vendor.path)), None)
    if closed is not None:
        advice = f"Run as its owner: chmod -R a+rX {closed}, and a+x on the folders above."
        return [Finding(name, "problem", f"{closed} cannot be read by this user; {text}", advice)]
    lost = [vendor for vendor in vendors if not os.path.isdir(vendor.path)]
    if lost:
        advice = f"Take {lost[0].path.name} out of load_priority in {lost[0].path.parent / 'config.ini'}."
        if lost[0].source == "ASCEND_CUSTOM_OPP_PATH":
            kept = [str(v.path) for v in vendors if v.source == lost[0].source and os.path.isdir(v.path)]
            advice = f"Run: export ASCEND_CUSTOM_OPP_PATH={':'.join(kept)}"
        return [Finding(name, "problem", f"{lost[0].path} does not exist; {text}", advice)]
    if len(ours) > 1:
        first, second = ours[:2]
        if first.path.name != "avsg" and second.path.name == "avsg":
            fix = "sh avsg-*.run --priority=first" if second.source == "load_priority" else ""
            advice = f"AVSG comes second: {fix or f'source {second.path}/bin/set_env.bash last'}"
            found = f"{first.path} ({first.source}) has our operators as well; {text}"
            return [Finding(name, "problem", found, advice)]
    return [Finding(name, "ok", text)]


def check_operators(vendor: Vendor, home: str | None) -> Finding:
    """Both functions of each operator in libcust_opapi.so, opened by its absolute path as frameworks do."""
    name = "operators"
    if not os.path.isfile(vendor.library):
        advice = "Install the .run of AVSG again, built for an NPU: bash scripts/build.sh"
        return Finding(name, "problem", f"no {vendor.library}", advice)
    answer = run_python(TRY_SYMBOLS, str(vendor.library.resolve()), *SYMBOLS)
    if answer == "ok":
        return Finding(name, "ok", f"{vendor.library}: {', '.join(OPERATORS)}")
    if answer.startswith("no "):
        advice = "Its AVSG is another version: install the .run that belongs to this Python package."
        return Finding(name, "problem", f"{vendor.library} has {answer}", advice)
    line = source_line(home) if home else None
    advice = f"Run: {line}" if line else "Source the set_env.sh of the CANN toolkit it was built for."
    return Finding(name, "problem", answer, advice)


def check_package(vendor: Vendor, home: str | None, chip: str | None) -> Finding:
    """version.info of our package: its toolkit is this one, and it has kernels for this chip."""
    name = "package"
    info = [vendor.path / "version.info"]
    version = info_value(info, "version") or "unknown version"
    built_with = info_value(info, "custom_opp_compiler_version")
    kernels = info_value(info, "kernels") or ""
    by = f"built by CANN's compiler {built_with}" if built_with else "built by an unknown compiler"
    text = f"{version} in {vendor.path}, kernels for {kernels or 'none'}" + (f", {by}" if kernels else "")
    compiler = compiler_version(home) if home else None
    if compiler is not None and built_with is not None and compiler != built_with:
        advice = f"This toolkit's compiler is {compiler}; build with it and install: bash scripts/build.sh"
        return Finding(name, "problem", text, advice)
    family = family_of(chip) if chip else None
    if family is not None and family not in kernels.split(","):
        advice = f"The device is {chip}; build for it and install: bash scripts/build.sh --soc {family}"
        return Finding(name, "problem", text, advice)
    return Finding(name, "ok", text)


def check_order(started_with: Mapping[str, str], maps: str, environment: Mapping[str, str]) -> list[Finding]:
    """Whether the OPP path came after CANN was loaded: CANN reads it once, at its start.

    started_with: the environment of the process at its start; maps: its /proc/self/maps.
    """
    path = "ASCEND_CUSTOM_OPP_PATH"
    late = environment.get(path, "") != started_with.get(path, "")
    if not late or not any(name in maps for name in ("libascendcl.so", "libnnopbase.so")):
        return []
    text = f"{path} changed after this process had started, and CANN is loaded in it"
    return [Finding("environment", "problem", text, "Source set_env.bash in the shell that starts Python.")]


def started_with() -> dict[str, str]:
    """The environment that this process started with."""
    try:
        fields = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return dict(os.environ)
    return dict(os.fsdecode(field).partition("=")[::2] for field in fields if field)
