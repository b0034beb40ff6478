# SPDX-License-Identifier: Apache-2.0
"""Tests of the CPU backend: framework/cpu with kernels of their own."""
