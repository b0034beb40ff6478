# SPDX-License-Identifier: Apache-2.0
# Part of build.sh: sentences, logs, the tools of every build, and the Python that makes the wheel.
# shellcheck shell=bash
OLDEST_CMAKE=3.18
OLDEST_SETUPTOOLS=77

say() {
  printf '%s\n' "$*"
}

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

run_logged() { # LOG COMMAND...
  local log=$1
  shift
  printf '+ %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1 || fail "$(tail -n 30 "$log")" $'\n'"This failed: $*. The lines above are the end of $log."
}

check_tools() {
  local tool version
  for tool in cmake g++ make python3; do
    command -v "$tool" >/dev/null || fail "$tool is missing: install Python 3.9 or later, g++, make and cmake, then try again."
  done
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    fail "$(python3 -V) is too old: put Python 3.9 or later first in PATH as python3."
  version=$(cmake --version | sed -n 's/^cmake version //p')
  at_least "$version" "$OLDEST_CMAKE" || fail "cmake $version is too old, $OLDEST_CMAKE or later is needed: pip install cmake."
}

at_least() { # VERSION OLDEST, both by their first two numbers
  local numbers oldest
  IFS=. read -r -a numbers <<<"$1.0"
  IFS=. read -r -a oldest <<<"$2.0"
  ((10#${numbers[0]%%[!0-9]*} * 1000 + 10#${numbers[1]%%[!0-9]*} >= 10#${oldest[0]} * 1000 + 10#${oldest[1]}))
}

# drop_if_changed DIRECTORY KEY: a build of another tree, tool or toolkit would keep paths of the old one in its cache.
drop_if_changed() {
  local key=${1%/*}/.${1##*/}.key
  if [ -d "$1" ] && [ "$(cat "$key" 2>/dev/null)" != "$2" ]; then
    say "The source tree or its tools have changed since $1 was made: configuring afresh."
    rm -rf "$1"
  fi
  mkdir -p "${1%/*}"
  printf '%s\n' "$2" >"$key"
}

makes_wheels() { # PYTHON
  "$1" -c "import setuptools, pip, sys; sys.exit(int(setuptools.__version__.split('.')[0]) < $OLDEST_SETUPTOOLS)" 2>/dev/null
}

# Sets python: the user's if it can make the wheel, else one in a folder of its own, which needs a package index once.
find_python() {
  python=python3
  ! makes_wheels "$python" || return 0
  python=$PWD/$work/venv/bin/python
  ! makes_wheels "$python" || return 0
  mkdir -p "$work"
  say "python3 has no setuptools $OLDEST_SETUPTOOLS: fetching it into $work/venv, once."
  if ! { python3 -m venv --clear "$work/venv" &&
    "$python" -m pip install --quiet --disable-pip-version-check "setuptools>=$OLDEST_SETUPTOOLS"; } >"$work/venv.log" 2>&1; then
    fail "setuptools $OLDEST_SETUPTOOLS is missing and could not be fetched (log: $work/venv.log): run" \
      "python3 -m pip install 'setuptools>=$OLDEST_SETUPTOOLS', then try again."
  fi
}
