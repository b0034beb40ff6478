#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the kernels against the Ascend C headers of a CANN 8.1 toolkit, runs them on the CPU with the rig's model of
# the vector core, and compares with libavsg_cpu.so; compiles the glue and runs the operator
# definitions too: CANN=TOOLKIT [RIG=DIRECTORY] bash scripts/check_headers.sh
unchecked="The kernels were not checked against the real Ascend C headers"
. "$(dirname "${BASH_SOURCE[0]}")/headers.sh"
RIG=${RIG:-../shared/rig}
bash scripts/check_mindspore_headers.sh
bash scripts/check_torch_headers.sh
bash scripts/check_npu_headers.sh

[ -n "${CANN:-}" ] || skip "CANN is not set; set it to a CANN 8.1 toolkit directory"
. scripts/setup.sh
set_up test
.venv/bin/python -m pytest -q tests/headers/test_op_host.py

[ -d "$CANN/tools/tikicpulib" ] || skip "CANN is $CANN, which has no tools/tikicpulib"
[ -f "$RIG/ascemu.cpp" ] || skip "there is no rig at $RIG; set RIG to the directory that holds ascemu.cpp"
. "$RIG/env.sh"
cpu=framework/cpu
api=framework/c_api
out=build/headers
mkdir -p "$out"
rm -f "$out"/*

# compile SOURCE OPTION...: the toolkit's kernel_operator.h comes before the CPU backend's.
compile() {
  local source=$1
  shift
  $CXX -std=c++17 -fPIC -w $DEFS -DAVSG_CPU_CHECKED=1 -DAVSG_LIBRARY_NAME='"headers"' "$@" \
    -I$api -Iop_kernel -Iop_host -I"$RIG" -idirafter $cpu -c -o "$out/$(basename "$source" .cpp).o" "$source"
}
compile $cpu/kernels.cpp -O1 $INC_81 -DAVSG_CPU_LEVEL=headers -include tests/headers/scalar_shadow.h \
  -include "$RIG/rig_prelude.h" &
kernels=$!
compile tests/headers/rig_launch.cpp -O2 $INC_81
for source in $api/{check,check_calls,entries,host_memory,last_error}.cpp $cpu/{arguments,calls,mapped_memory}.cpp \
  op_host/tiling.cpp; do
  compile "$source" -O1
done
wait $kernels
$CXX -shared -o "$out/libavsg_headers.so" "$out"/*.o -static-libstdc++ -static-libgcc -Wl,--no-undefined \
  -Wl,--version-script=$api/exports.map -lpthread

# HZ: the rig also looks for missing events and barriers.
HZ=1 AVSG_LIBRARY=$out/libavsg_headers.so exec .venv/bin/python -m pytest -q tests/headers/test_headers.py "$@"
