# SPDX-License-Identifier: Apache-2.0
"""The planted faults of scripts/mutate.py, a file for each part of the source."""

from . import copies, cpu, match, reference

ALL = (*match.MUTATIONS, *copies.MUTATIONS, *cpu.MUTATIONS, *reference.MUTATIONS)
