// SPDX-License-Identifier: Apache-2.0
// Host memory that a device can address: what the shared entry points ask of a library, and the mappings they
// offer it.
#ifndef AVSG_HOST_MEMORY_H
#define AVSG_HOST_MEMORY_H

#include <cstdint>

namespace sparse_gather {

struct HostBlock {
  void* host = nullptr;          // page-aligned
  void* device_alias = nullptr;  // the same memory for the device
  void* base = nullptr;          // what the library has to free, not always page-aligned
  uint64_t bytes = 0;            // of whole pages from `host` on
  bool mapped = false;           // `base` is a mapping of MapPages
};

// Anonymous zeroed pages that cost memory only where they are touched, huge ones if asked and there are some.
// False when the system refuses.
bool MapPages(int64_t bytes, bool huge_pages, HostBlock* block);
void UnmapPages(const HostBlock& block);

// Provided by each library: a block of at least `bytes` with its device alias; a code and its sentence.
int AllocateHost(int64_t bytes, bool huge_pages, HostBlock* block);
int FreeHost(const HostBlock& block);

// AVSG_OUT_OF_MEMORY and its sentence.
int RefuseHostMemory(int64_t bytes);

}  // namespace sparse_gather

#endif  // AVSG_HOST_MEMORY_H
