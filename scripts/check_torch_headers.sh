#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the NPU operators for torch against the headers of an unzipped torch_npu wheel and of the torch in .venv-torch,
# without linking: TORCH_NPU=DIRECTORY bash scripts/check_torch_headers.sh
unchecked="The NPU operators for torch were not compiled"
. "$(dirname "${BASH_SOURCE[0]}")/headers.sh"
[ -n "${TORCH_NPU:-}" ] || skip "TORCH_NPU is not set; set it to the directory of an unzipped torch_npu wheel"
headers=$TORCH_NPU/torch_npu/include
[ -d "$headers/third_party/acl/inc" ] || skip "TORCH_NPU is $TORCH_NPU, which has no torch_npu/include/third_party/acl/inc"
[ -x .venv-torch/bin/python ] || skip "there is no .venv-torch; run bash scripts/test.sh first"
torch=$(.venv-torch/bin/python -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])') ||
  skip "torch is not installed in .venv-torch"

mkdir -p build/torch_npu
for source in framework/torch/*_npu.cpp; do
  "${CXX:-g++}" -std=c++20 -fPIC -O0 -Wall -Wextra -Iframework/torch -Iframework/c_api -Iop_kernel -Iop_host \
    -isystem "$headers" -isystem "$headers/third_party/acl/inc" -isystem "$torch/include" \
    -isystem "$torch/include/torch/csrc/api/include" -c -o "build/torch_npu/$(basename "$source" .cpp).o" "$source"
  printf 'compiled %s\n' "$source"
done
