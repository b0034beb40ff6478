#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the installable package, for NPUs where a CANN toolkit is there and for CPUs elsewhere: bash scripts/build.sh --help
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/package/tools.sh
. scripts/package/toolkit.sh

usage() {
  printf '%s\n' "bash scripts/build.sh [OPTION...]: builds avsg-VERSION-TARGET-ARCH.run, an installer (its --help says more)." \
    "  --soc FAMILY[,FAMILY]  chip families: ascend910b (Atlas A2), ascend910_93 (Atlas A3); both when not given" \
    "  --cpu                  the CPU package, even where there is a toolkit" \
    "  --clean                removes what earlier runs have built, then builds" \
    "  --output DIR           where the package goes; build/package when not given" \
    "  --help                 this text" "" \
    "Target: npu where ASCEND_HOME_PATH names a CANN toolkit of $OLDEST_CANN or later, else cpu." \
    "Exit status: 0 built; 1 something is missing or failed; 2 wrong options."
}

wrong() {
  printf '%s\n' "$*" >&2
  exit 2
}

read_options() {
  soc="" cpu="" clean="" output=build/package
  while [ $# -gt 0 ]; do
    case $1 in
      --soc=* | --output=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      --soc | --output)
        [ -n "${2-}" ] || wrong "$1 has no value: see bash scripts/build.sh --help."
        case $1=$2 in
          --soc=*) soc=$2 ;;
          --output=/*) output=$2 ;;
          *) output=$caller/$2 ;;
        esac
        shift 2
        ;;
      --cpu) cpu=1 && shift ;;
      --clean) clean=1 && shift ;;
      --help | -h) usage && exit 0 ;;
      *) wrong "$1 is no option: see bash scripts/build.sh --help." ;;
    esac
  done
  [ -z "$cpu" ] || [ -z "$soc" ] || wrong "--cpu and --soc exclude each other: a CPU package has no kernels for NPUs."
  soc_given=${soc:+1}
  check_families "${soc:=ascend910b,ascend910_93}"
}

# The time that all files of the package get: SOURCE_DATE_EPOCH, else that of the commit, else a constant.
export_epoch() {
  if [ -z "${SOURCE_DATE_EPOCH:-}" ] && [ -e .git ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || true
  fi
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315619200} # 1980-01-02, the first day that zip knows in every zone
}

build_operators() {
  local build=$PWD/$work/cann-$cann_version-${soc//,/-} log=$work/cann.log
  drop_if_changed "$build" "$ASCEND_HOME_PATH $cann_version $soc $PWD $(cmake --version)"
  say "Building the operators for $soc with CANN $cann_version (log: $log)."
  run_logged "$log" cmake -S "$source/op_host" -B "$build" -G "Unix Makefiles" "-DAVSG_SOC=${soc//,/;}"
  run_logged "$log" cmake --build "$build" -j "$(nproc)" --target binary
  run_logged "$log" cmake --build "$build" -j "$(nproc)"
  rm -rf "$work/install"
  run_logged "$log" cmake --install "$build" --prefix "$PWD/$work/install"
  operators=$work/install/packages/vendors/avsg
  if ! [ -d "$operators/op_api" ] || ! [ -d "$operators/op_impl" ]; then
    fail "The toolkit has built no operators: $operators lacks op_api or op_impl; see $log."
  fi
}

build_wheel() {
  drop_if_changed "$source/build" "$PWD $(cmake --version) ${CXX-} ${CXXFLAGS-} ${LDFLAGS-}"
  rm -rf "$work/wheel"
  say "Building the libraries and the wheel (log: $work/wheel.log)."
  [ "$target" = cpu ] || export AVSG_BUILD_NPU=1 # read by setup.py
  run_logged "$work/wheel.log" "$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --no-index --wheel-dir "$work/wheel" "$source"
}

read_options "$@"
umask 022
unset AVSG_BUILD_NPU
export CMAKE_GENERATOR="Unix Makefiles" # CANN's functions write makefiles; a preset of the environment does not count
unset CMAKE_BUILD_TYPE CMAKE_GENERATOR_INSTANCE CMAKE_GENERATOR_PLATFORM CMAKE_GENERATOR_TOOLSET
work=build/packing
source=$work/source
operators=
check_tools
choose_target
[ -z "$clean" ] || rm -rf build/packing build/package
rm -f "$work"/*.log
find_python
export_epoch
python3 scripts/package/mirror.py "$source"
[ "$target" = cpu ] || build_operators
build_wheel
python3 scripts/package/stage.py "$work/avsg" "$work"/wheel/avsg-*.whl ${operators:+--operators "$operators"}
kernels=
[ "$target" = cpu ] || kernels=$soc
package=$(python3 scripts/package/pack.py "$work/avsg" "$output" --version "$(cat VERSION)" --target "$target" \
  --arch "$(uname -m)" --kernels "$kernels") || fail "The package could not be written to $output: see the lines above."
say "$package"
