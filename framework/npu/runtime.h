// SPDX-License-Identifier: Apache-2.0
// What this process has found of CANN and of its device, once it has.
#ifndef AVSG_NPU_RUNTIME_H
#define AVSG_NPU_RUNTIME_H

#include <cstdint>

#include "avsg.h"
#include "cann.h"
#include "tiling.h"

namespace sparse_gather {

struct Runtime {
  Cann cann;
  Platform platform = {};
  int64_t workspace_bytes = 0;
};

// Valid after Ready.
const Runtime& TheRuntime();

// The first half of aclnnAvsgMatch for the smallest pool, on no memory: its workspace is that of every
// operator and shape, CANN's own part and kWorkspaceBytes. A code and its sentence.
int AskWorkspaceBytes(const Cann& cann, int64_t* bytes);

}  // namespace sparse_gather

#endif  // AVSG_NPU_RUNTIME_H
