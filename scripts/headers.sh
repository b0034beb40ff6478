# SPDX-License-Identifier: Apache-2.0
# Sourced by the check_*_headers.sh: enters the source tree and defines what they share. `unchecked` says what is left undone.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
  # shellcheck disable=SC2154  # set by the script that sources this
  printf '%s: %s.\n' "$unchecked" "$*"
  exit 0
}

# find_toolkit: sets toolkit to the headers' folder of the toolkit at CANN
find_toolkit() {
  [ -n "${CANN:-}" ] || skip "CANN is not set; set it to a CANN toolkit directory"
  toolkit=$CANN/$(uname -m)-linux
  [ -d "$toolkit/include" ] || toolkit=$CANN/aarch64-linux
  [ -f "$toolkit/include/aclnn/acl_meta.h" ] || skip "CANN is $CANN, which has no include/aclnn/acl_meta.h"
}
