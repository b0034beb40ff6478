#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles framework/npu with CANN's headers in view, and compares the prototypes and codes that it repeats with theirs; links
# nothing: CANN=TOOLKIT bash scripts/check_npu_headers.sh
unchecked="The NPU library was not compared with CANN"
. "$(dirname "${BASH_SOURCE[0]}")/headers.sh"
find_toolkit
for source in tests/headers/npu_prototypes.cpp framework/npu/*.cpp; do
  "${CXX:-g++}" -std=c++17 -fsyntax-only -Wall -Wextra -Werror -isystem "$toolkit/include" -Iframework/npu -Iframework/c_api \
    -Iop_host -Iop_kernel -include acl/acl.h -include aclnn/acl_meta.h "$source"
  printf 'compiled %s\n' "$source"
done
