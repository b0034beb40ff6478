#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles framework/npu with CANN's headers in view, and compares the prototypes and codes that it repeats with theirs; links
# nothing: CANN=TOOLKIT bash scripts/check_npu_headers.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
  printf 'The NPU library was not compared with CANN: %s.\n' "$*"
  exit 0
}
[ -n "${CANN:-}" ] || skip "CANN is not set; set it to a CANN toolkit directory"
toolkit=$CANN/$(uname -m)-linux
[ -d "$toolkit/include" ] || toolkit=$CANN/aarch64-linux
[ -f "$toolkit/include/aclnn/acl_meta.h" ] || skip "CANN is $CANN, which has no include/aclnn/acl_meta.h"
for source in tests/headers/npu_prototypes.cpp framework/npu/*.cpp; do
  "${CXX:-g++}" -std=c++17 -fsyntax-only -Wall -Wextra -Werror -isystem "$toolkit/include" -Iframework/npu -Iframework/c_api \
    -Iop_host -Iop_kernel -include acl/acl.h -include aclnn/acl_meta.h "$source"
  printf 'compiled %s\n' "$source"
done
