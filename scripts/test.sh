#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds AVSG, installs it into .venv and runs all tests; arguments go to pytest: bash scripts/test.sh [-k NAME]
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up test
exec .venv/bin/python -m pytest -q "$@"
