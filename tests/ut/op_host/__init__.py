# SPDX-License-Identifier: Apache-2.0
"""Tests of op_host: definitions, tiling of calls, and the NPU build without CANN."""
