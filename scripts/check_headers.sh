#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the kernels against the Ascend C headers of a CANN 8.1 toolkit and runs them on the CPU, with the rig's model of
# the vector core in place of the chip, against libavsg_cpu.so: CANN=<toolkit> [RIG=<rig>] bash scripts/check_headers.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
RIG=${RIG:-../shared/rig}
skip() {
  printf 'The kernels were not checked against the real Ascend C headers: %s.\n' "$*"
  exit 0
}
[ -n "${CANN:-}" ] || skip "CANN is not set; set it to a CANN 8.1 toolkit directory"
[ -d "$CANN/tools/tikicpulib" ] || skip "CANN names $CANN, which has no tools/tikicpulib"
[ -f "$RIG/ascemu.cpp" ] || skip "there is no rig at $RIG; set RIG to the directory that holds ascemu.cpp"

. scripts/setup.sh
set_up test
. "$RIG/env.sh"
out=build/headers
mkdir -p "$out"
cpu=framework/cpu api=framework/c_api
include="-I$api -Iop_kernel -Iop_host -I$RIG -idirafter $cpu"
flags="-std=c++17 -fPIC -w -ffp-contract=off -DAVSG_CPU_CHECKED=0 -DAVSG_LIBRARY_NAME=\"headers\" $DEFS"

$CXX $flags -O1 $INC_81 $include -DAVSG_CPU_LEVEL=headers -include tests/headers/scalar_shadow.h \
  -include "$RIG/rig_prelude.h" -c -o "$out/kernels.o" "$cpu/kernels.cpp" &
kernels=$!
$CXX $flags -O2 $INC_81 $include -c -o "$out/launch.o" tests/headers/rig_launch.cpp
for source in $api/check.cpp $api/check_calls.cpp $api/last_error.cpp $cpu/arguments.cpp $cpu/avsg_cpu.cpp $cpu/calls.cpp \
  $cpu/host_memory.cpp op_host/tiling.cpp; do
  $CXX $flags -O1 $include -c -o "$out/$(basename "$source" .cpp).o" "$source"
done
wait $kernels
$CXX -shared -o "$out/libavsg_headers.so" "$out"/*.o -static-libstdc++ -static-libgcc -Wl,--no-undefined \
  -Wl,--version-script=$cpu/exports.map -lpthread

# HZ: the rig also looks for missing events and barriers between the pipes.
HZ=1 AVSG_LIBRARY=$out/libavsg_headers.so exec .venv/bin/python -m pytest -q tests/headers "$@"
