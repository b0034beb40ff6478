# SPDX-License-Identifier: Apache-2.0
# Sourced by demo.sh, test.sh and check.sh: enters the source tree and defines set_up, which makes .venv with AVSG built and
# installed there. A second run only rebuilds what changed.
# shellcheck shell=bash
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

# set_up_beside VENV ARGUMENT...: makes VENV with the AVSG that set_up has built; the arguments are pip's
set_up_beside() {
  local venv=$1 stamp
  stamp=$(cksum pyproject.toml setup.py CMakeLists.txt VERSION; pwd; printf '%s\n' "$@")
  [ "$(cat "$venv/avsg-setup" 2>/dev/null)" != "$stamp" ] || return 0
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || return 1
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}" || return 1
  printf '%s\n' "$stamp" >"$venv/avsg-setup"
}

# set_up_mindspore: makes .venv-ms with MindSpore (0.75 GB to fetch, once). Returns 3 and says why where MindSpore has no
# wheel.
set_up_mindspore() {
  if ! python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))'; then
    printf 'MindSpore has no wheel for %s: its tests are skipped; use Python 3.10 to 3.12.\n' "$(python3 -V)" >&2
    return 3
  fi
  set_up_beside .venv-ms --editable ".[mindspore,test]" || {
    printf 'pip could not install MindSpore, so its tests did not run: see the lines above.\n' >&2
    return 1
  }
}

# set_up_torch: makes .venv-torch with the CPU build of torch, the operators for it, and what MindIE-LLM's classes import if
# MINDIE_LLM_HOME is set. Returns 3 and says why where pip finds no such build: others would fetch gigabytes.
set_up_torch() {
  local python=.venv-torch/bin/python
  [ -x $python ] || python3 -m venv .venv-torch || return 1
  if ! $python -c 'import torch' 2>/dev/null &&
    ! $python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0+cpu' 2>/dev/null; then
    printf 'pip finds no torch 2.13.0+cpu, so the tests of torch are skipped: name a place that has it in PIP_FIND_LINKS.\n' >&2
    return 3
  fi
  # shellcheck disable=SC2086  # two packages or none
  if ! set_up_beside .venv-torch --editable ".[test]" ${MINDIE_LLM_HOME:+transformers psutil} ||
    ! $python -m avsg.torch_ops >/dev/null; then
    printf 'AVSG could not be installed beside torch, so its tests did not run: see the lines above.\n' >&2
    return 1
  fi
}
