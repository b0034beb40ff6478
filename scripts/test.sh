#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds AVSG, installs it into .venv and runs all tests, those of MindSpore in .venv-ms and those of torch in .venv-torch;
# arguments go to pytest: bash scripts/test.sh [-k NAME]
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up test
set_up_mindspore &  # downloads while other tests run
mindspore=$!

failed=0
# run VENV ARGUMENT...: pytest, where it is no failure that -k leaves no test
run() {
  local venv=$1 status=0
  shift
  "$venv/bin/python" -m pytest -q "$@" || status=$?
  [ "$status" = 0 ] || [ "$status" = 5 ] || failed=1
}

# is_ready JOB: waits for a set-up; false where its tests cannot run
is_ready() {
  local status=0
  wait "$1" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || failed=1  # 3: not for this machine, as it has said
  [ "$status" = 0 ]
}

run .venv -m "not mindspore and not torch" "$@"
mindspore_ready=0
is_ready "$mindspore" && mindspore_ready=1
set_up_torch &  # after MindSpore's: both build in build/
torch=$!
if [ "$mindspore_ready" = 1 ]; then
  for file in tests/st/test_mindspore_*.py; do
    # a process for each file: MindSpore's launch mode can only be chosen before its first operator
    run .venv-ms "$file" "$@"
  done
fi
if is_ready "$torch"; then
  run .venv-torch -m torch tests/st tests/mindie "$@"
fi
exit "$failed"
