#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds AVSG, installs it into .venv and runs all tests, those of MindSpore in .venv-ms and those of torch in .venv-torch;
# arguments go to pytest: bash scripts/test.sh [-k NAME]
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up test
set_up_mindspore &  # downloads while other tests run
mindspore=$!

# run VENV ARGUMENT...: pytest, where it is no failure that -k leaves no test
run() {
  local venv=$1 status=0
  shift
  "$venv/bin/python" -m pytest -q "$@" || status=$?
  [ "$status" = 5 ] || return "$status"
}

run_torch() {
  local status=0
  set_up_torch || status=$?
  case $status in
    0) run .venv-torch -m torch tests/st tests/mindie "$@" ;;
    3) ;;  # no torch for this machine, as said above
    *) return 1 ;;
  esac
}

failed=0
run .venv -m "not mindspore and not torch" "$@" || failed=1
status=0
wait "$mindspore" || status=$?
run_torch "$@" >build/torch_tests.log 2>&1 &  # only now: MindSpore's set-up builds in build/ too
torch=$!
case $status in
  0) # a process for each file: MindSpore's launch mode can only be chosen before its first operator
    for file in tests/st/test_mindspore_*.py; do
      run .venv-ms "$file" "$@" || failed=1
    done ;;
  3) ;;  # no MindSpore for this Python, as said above
  *) failed=1 ;;
esac
wait "$torch" || failed=1
cat build/torch_tests.log
exit "$failed"
