#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds AVSG, installs it into .venv and runs all tests, those of MindSpore in .venv-ms; arguments go to pytest:
# bash scripts/test.sh [-k NAME]
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up test
set_up_mindspore &  # downloads while the other tests run
mindspore=$!

# run VENV ARGUMENT...: pytest, where it is no failure that -k leaves no test
run() {
  local venv=$1 status=0
  shift
  "$venv/bin/python" -m pytest -q "$@" || status=$?
  [ "$status" = 5 ] || return "$status"
}

failed=0
run .venv -m "not mindspore" "$@" || failed=1
status=0
wait "$mindspore" || status=$?
case $status in
  0) # a process for each file: MindSpore's launch mode can only be chosen before its first operator
    for file in tests/st/test_mindspore_*.py; do
      run .venv-ms "$file" "$@" || failed=1
    done ;;
  3) ;;  # no MindSpore for this Python, as said above
  *) failed=1 ;;
esac
exit "$failed"
