// SPDX-License-Identifier: Apache-2.0
// Host memory of the CPU libraries: a mapping is its own device alias.
#include "host_memory.h"
#include "last_error.h"

namespace sparse_gather {

int AllocateHost(int64_t bytes, bool huge_pages, HostBlock* block) {
  if (!MapPages(bytes, huge_pages, block)) return RefuseHostMemory(bytes);
  block->device_alias = block->host;
  return Succeed();
}

int FreeHost(const HostBlock& block) {
  UnmapPages(block);
  return Succeed();
}

}  // namespace sparse_gather
