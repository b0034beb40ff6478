#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Before a commit: lint, format, build, quick tests; under a minute when warm: bash scripts/check.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up test,dev
.venv/bin/ruff check python tests scripts setup.py
git ls-files -z '*.h' '*.cpp' | xargs -0 .venv/bin/clang-format --dry-run -Werror
exec .venv/bin/python -m pytest -q -x -m "not slow" tests/ut "$@"
