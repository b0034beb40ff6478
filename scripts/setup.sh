# SPDX-License-Identifier: Apache-2.0
# Sourced by demo.sh, test.sh and check.sh: enters the source tree and defines set_up, which makes .venv with AVSG built and
# installed there. A second run only rebuilds what changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# set_up [EXTRAS]: extras of pyproject.toml, separated by commas
set_up() {
  local extras=${1:-} tool stamp
  local done=.venv/avsg-setup-${extras:-plain}
  for tool in python3 g++ cmake; do
    command -v "$tool" >/dev/null || fail "$tool is missing: install Python 3.9 or later, g++ and cmake, then try again."
  done
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || fail "$(python3 -V) is too old: install Python 3.9 or later."
  if [ -f .venv/avsg-source ] && [ "$(cat .venv/avsg-source)" != "$PWD" ]; then
    rm -rf .venv build  # made before the source tree moved; both hold its old path
  fi
  stamp=$(cksum pyproject.toml setup.py CMakeLists.txt VERSION)
  if [ "$(cat "$done" 2>/dev/null)" = "$stamp" ]; then
    cmake --build build -j 2 >.venv/build.log 2>&1 ||
      fail "$(cat .venv/build.log)" $'\nThe build failed: see the lines above.'
    return
  fi
  printf 'Setting up .venv and building the CPU libraries: a minute or two, once.\n' >&2
  [ -x .venv/bin/python ] || python3 -m venv .venv || fail "python3 -m venv failed: install its module (Debian: python3-venv)."
  printf '%s\n' "$PWD" >.venv/avsg-source
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}" ||
    fail "pip could not build or install AVSG: see the lines above."
  printf '%s\n' "$stamp" >"$done"
}

# set_up_mindspore: makes .venv-ms with MindSpore (0.75 GB to fetch, once) beside the AVSG that set_up has built. Returns 3
# and says why where MindSpore has no wheel.
set_up_mindspore() {
  local stamp done=.venv-ms/avsg-setup
  stamp=$(cksum pyproject.toml setup.py CMakeLists.txt VERSION; pwd)
  [ "$(cat "$done" 2>/dev/null)" != "$stamp" ] || return 0
  if ! python3 -c 'import platform, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))'; then
    printf 'MindSpore has no wheel for %s: its tests are skipped; use Python 3.10 to 3.12.\n' "$(python3 -V)" >&2
    return 3
  fi
  [ -x .venv-ms/bin/python ] || python3 -m venv .venv-ms
  .venv-ms/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[mindspore,test]" || {
    printf 'pip could not install MindSpore, so its tests did not run: see the lines above.\n' >&2
    return 1
  }
  printf '%s\n' "$stamp" >"$done"
}
