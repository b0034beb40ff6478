#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds AVSG, installs it into .venv and replays a shipped trace: bash scripts/demo.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up
exec .venv/bin/avsg demo "$@"
