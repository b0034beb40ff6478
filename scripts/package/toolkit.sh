# SPDX-License-Identifier: Apache-2.0
# Part of build.sh: the CANN toolkit, the chip families, and what the toolkit's kernel compiler needs of Python.
# shellcheck shell=bash
OLDEST_CANN=8.3.RC1

check_families() { # FAMILY,FAMILY
  local name
  [ -n "${1//,/}" ] || wrong "--soc names no family: use --soc ascend910b (Atlas A2) or ascend910_93 (Atlas A3)."
  for name in ${1//,/ }; do
    case $name in
      ascend910b | ascend910_93) ;;
      [Aa]scend910[Bb][1-9]*)
        wrong "$name is a chip, not a family: use --soc ascend910b (Atlas A2)." ;;
      [Aa]scend910_93[0-9]*)
        wrong "$name is a chip, not a family: use --soc ascend910_93 (Atlas A3)." ;;
      *) wrong "$name is no family that AVSG has kernels for: use --soc ascend910b (Atlas A2) or ascend910_93 (Atlas A3)." ;;
    esac
  done
}

# Sets target to npu or cpu, and cann_version for npu. A toolkit that cannot be used is refused, not passed over.
choose_target() {
  target=cpu
  if [ -n "$cpu" ]; then
    return
  fi
  local home=${ASCEND_HOME_PATH:-} folder found=
  if [ -z "$home" ]; then
    [ -z "$soc_given" ] || fail "--soc needs a CANN toolkit and ASCEND_HOME_PATH is not set: source the set_env.sh of one."
    say "CANN: not found (ASCEND_HOME_PATH is not set), so this builds the CPU package$(unsourced_toolkit)."
    return
  fi
  read_cann_version "$home"
  [ -n "$cann_version" ] ||
    fail "ASCEND_HOME_PATH=$home is not a CANN toolkit: source the set_env.sh of one, or use --cpu."
  for folder in compiler tools "$(uname -m)-linux"; do
    ! grep -qs npu_op_package -r "$home/$folder/tikcpp/ascendc_kernel_cmake/" || found=1
  done
  [ -n "$found" ] || fail "CANN $cann_version found, $OLDEST_CANN or later is needed (it has no npu_op_package): install a" \
    "newer toolkit and source its set_env.sh, or use --cpu."
  case $PWD in
    *[[:space:]]*) fail "The path $PWD has a space, which CANN's makefiles split: move the tree, or use --cpu." ;;
  esac
  check_kernel_compiler
  target=npu
}

unsourced_toolkit() {
  local script folder
  for script in "${HOME-}"/Ascend/*/set_env.sh /usr/local/Ascend/*/set_env.sh; do
    folder=${script%/*}
    [ -f "$script" ] || continue
    # MindIE and others have a set_env.sh there too, but no compiler
    [ ! -d "$folder/compiler" ] && [ ! -d "$folder/latest/compiler" ] ||
      { printf '; for NPUs run: source %s' "$script" && return; }
  done
}

read_cann_version() { # TOOLKIT: sets cann_version, empty if it is none
  cann_version=$(first_value '[Vv]ersion' "$1"/*-linux/ascend_toolkit_install.info)
  # The compiler counts its own versions, version_dir is the release.
  [ -n "$cann_version" ] || cann_version=$(first_value version_dir "$1/compiler/version.info")
}

first_value() { # KEY FILE: the value of KEY in the file, nothing without either
  sed -n "s/^$1 *= *\([0-9A-Za-z.]*\).*/\1/p" "${@:2}" 2>/dev/null | head -n 1 || true
}

check_kernel_compiler() {
  local missing
  missing=$(python3 - <<'PYTHON'
import importlib.util

names = {"attr": "attrs", "decorator": "decorator", "numpy": "numpy<2", "psutil": "psutil"}
print(*(f"'{package}'" for module, package in names.items() if importlib.util.find_spec(module) is None))
PYTHON
)
  [ -z "$missing" ] || fail "CANN's kernel compiler needs Python modules that $(command -v python3) does not have: run" \
    "python3 -m pip install $missing."
  python3 -c 'import numpy, sys; sys.exit(int(numpy.__version__.split(".")[0]) >= 2)' ||
    say "python3 has numpy 2, which kernel compilers up to CANN 8.2 could not use: if kernels fail to compile, run" \
      "python3 -m pip install 'numpy<2'."
}
