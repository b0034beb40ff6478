#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the Ascend glue for MindSpore against the headers of a CANN toolkit and of the MindSpore in .venv-ms, without
# linking: CANN=TOOLKIT bash scripts/check_mindspore_headers.sh
unchecked="The Ascend glue for MindSpore was not compiled"
. "$(dirname "${BASH_SOURCE[0]}")/headers.sh"
find_toolkit
[ -x .venv-ms/bin/python ] || skip "there is no .venv-ms; run bash scripts/test.sh first"
package=$(.venv-ms/bin/python -c 'import importlib.util as u; print(u.find_spec("mindspore").submodule_search_locations[0])') ||
  skip "MindSpore is not installed in .venv-ms"

inner=$package/include/mindspore
includes=(-I"$package" -I"$package/include")
for folder in third_party third_party/robin_hood_hashing third_party/securec/include; do
  includes+=(-I"$package/include/$folder")
done
for folder in include core/include core/mindrt/include core/mindrt ops ops/include ops/kernel/include ccsrc ccsrc/include; do
  includes+=(-I"$inner/$folder")
done
includes+=(-I"$toolkit/include" -I"$toolkit/include/external" -I"$(python3-config --includes | sed 's/^-I//; s/ .*//')")
mkdir -p build/mindspore_glue
for source in framework/mindspore/ascend/*.cc; do
  "${CXX:-g++}" -std=c++17 -fPIC -O0 -w -D_GLIBCXX_USE_CXX11_ABI=0 -DENABLE_FAST_HASH_TABLE=1 -DCUSTOM_ASCEND_OP \
    -DMS_EXTENSION_NAME=avsg_mindspore "${includes[@]}" -c -o "build/mindspore_glue/$(basename "$source" .cc).o" "$source"
  printf 'compiled %s\n' "$source"
done
