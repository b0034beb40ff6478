#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Accepts AVSG on a machine with an Atlas A2 or A3: golden data bit for bit, what the design assumes of the silicon, times,
# and a report. With a package it installs that first; other options go to scripts/acceptance/main.py:
# bash scripts/npu_acceptance.sh [--package FILE.run] [--install-path DIR] [--library npu|cpu|PATH] [--device N] [--output DIR]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  printf '%s\n' "$*" >&2
  exit 2
}

package='' install_path=$PWD/avsg-acceptance options=()
while [ $# -gt 0 ]; do
  case $1 in
    --package | --install-path)
      [ -n "${2-}" ] || fail "$1 has no value: give $1 PATH."
      if [ "$1" = --package ]; then package=$2; else install_path=$2; fi
      shift 2 ;;
    --package=*) package=${1#*=}; shift ;;
    --install-path=*) install_path=${1#*=}; shift ;;
    *) options+=("$1"); shift ;;
  esac
done

if [ -n "$package" ]; then
  [ -f "$package" ] || fail "$package is no file: give the avsg-*.run that scripts/build.sh made."
  sh "$package" --quiet --install-path="$install_path" || fail "$package was not installed: see the lines above."
  environment=$install_path/vendors/avsg/bin/set_env.bash
  [ -f "$environment" ] || fail "$package installed no $environment: build it anew with scripts/build.sh."
  set +u
  # shellcheck disable=SC1090
  . "$environment"
  set -u
fi

# The Python of the source tree if it is set up and nothing was installed; else the one in PATH with what was installed.
python=python3
if [ -z "$package" ] && [ -x "$root/.venv/bin/python" ]; then python=$root/.venv/bin/python; fi
"$python" -c 'import avsg, click, numpy, rich' 2>/dev/null || PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH=${PYTHONPATH-}
missing=$("$python" -c 'import importlib.util as u; print(*[n for n in ("click", "numpy", "rich") if not u.find_spec(n)])') ||
  fail "$python does not run: install Python 3.9 or later."
[ -z "$missing" ] || fail "$python has no $missing: run $python -m pip install $missing."
exec "$python" "$root/scripts/acceptance/main.py" ${options[@]+"${options[@]}"} # bash 4.2 takes an empty list for unset
