// SPDX-License-Identifier: Apache-2.0
// avsg_host_alloc and avsg_host_free: their checks, the blocks that were given out, and mappings for them. A
// block is one range with one alias, so a library never splits it.
#include "host_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "avsg.h"
#include "calls.h"
#include "check.h"
#include "last_error.h"

namespace sparse_gather {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)  // Linux ABI; older C libraries lack the name
#endif

struct Blocks {
  std::mutex mutex;
  std::map<void*, HostBlock> by_host;
};

Blocks* NewBlocks();

// Never destroyed: a caller may free while the process ends.
Blocks& TheBlocks() {
  static Blocks* blocks = NewBlocks();
  return *blocks;
}

void LockBlocks() { TheBlocks().mutex.lock(); }
void UnlockBlocks() { TheBlocks().mutex.unlock(); }

// A fork waits until no other thread is inside, so that the child can go on.
Blocks* NewBlocks() {
  pthread_atfork(LockBlocks, UnlockBlocks, UnlockBlocks);
  return new Blocks;
}

uint64_t RoundUp(uint64_t bytes, uint64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

void* Map(uint64_t bytes, int flags) {
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

// Reserved huge pages first (without MAP_NORESERVE, so that a shortage shows here and not as a fault at first
// touch), then transparent ones on a mapping cut to their alignment.
void* MapHuge(uint64_t bytes, uint64_t* mapped_bytes) {
  *mapped_bytes = RoundUp(bytes, kHugePageBytes);
  if (void* start = Map(*mapped_bytes, MAP_HUGETLB | MAP_HUGE_2MB)) return start;
  char* wide = static_cast<char*>(Map(*mapped_bytes + kHugePageBytes, MAP_NORESERVE));
  if (wide == nullptr) return nullptr;
  const uint64_t head =
      RoundUp(reinterpret_cast<uintptr_t>(wide), kHugePageBytes) - reinterpret_cast<uintptr_t>(wide);
  if (head != 0) munmap(wide, head);
  if (head != kHugePageBytes) munmap(wide + head + *mapped_bytes, kHugePageBytes - head);
  madvise(wide + head, *mapped_bytes, MADV_HUGEPAGE);  // advice: a kernel without huge pages ignores it
  return wide + head;
}

std::string CheckHostAlloc(int64_t bytes, const avsg_host_options* options, void** host,
                           void** device_alias) {
  Check check;
  check.InRange("bytes", bytes, 1, INT64_MAX - 2 * static_cast<int64_t>(kHugePageBytes));
  if (check.Known("avsg_host_options", options)) check.InRange("huge_pages", options->huge_pages, 0, 1);
  if (host == nullptr) check.Refuse("host is NULL; pass where to put the address.");
  if (device_alias == nullptr) check.Refuse("device_alias is NULL; pass where to put the address.");
  return check.Error();
}

int HostAlloc(int64_t bytes, const avsg_host_options& options, void** host, void** device_alias) {
  HostBlock block;
  const int code = AllocateHost(bytes, options.huge_pages == 1, &block);
  if (code != AVSG_OK) return code;
  Blocks& blocks = TheBlocks();
  std::lock_guard<std::mutex> lock(blocks.mutex);
  blocks.by_host[block.host] = block;
  *host = block.host;
  *device_alias = block.device_alias;
  return Succeed();
}

int HostFree(void* host) {
  Blocks& blocks = TheBlocks();
  std::lock_guard<std::mutex> lock(blocks.mutex);
  const auto found = blocks.by_host.find(host);
  if (found == blocks.by_host.end()) {
    Check check;
    check.Refuse(
        "host is %p, which avsg_host_alloc of this library did not return or which was freed already; free "
        "each address once.",
        host);
    return Fail(AVSG_INVALID_ARGUMENT, check.Error());
  }
  const int code = FreeHost(found->second);
  if (code != AVSG_OK) return code;
  blocks.by_host.erase(found);
  return Succeed();
}

}  // namespace

bool MapPages(int64_t bytes, bool huge_pages, HostBlock* block) {
  block->bytes = RoundUp(bytes, sysconf(_SC_PAGESIZE));
  block->base = huge_pages ? MapHuge(bytes, &block->bytes) : Map(block->bytes, MAP_NORESERVE);
  block->host = block->base;
  block->mapped = true;
  return block->base != nullptr;
}

void UnmapPages(const HostBlock& block) { munmap(block.base, block.bytes); }

int RefuseHostMemory(int64_t bytes) {
  return Fail(AVSG_OUT_OF_MEMORY, "The system refuses to map " + std::to_string(bytes) +
                                      " bytes of host memory; ask for less or raise its limits (ulimit -v, "
                                      "vm.overcommit_memory).");
}

}  // namespace sparse_gather

extern "C" int avsg_host_alloc(int64_t bytes, const avsg_host_options* options, void** host,
                               void** device_alias) {
  return sparse_gather::WhenReady([&] {
    const std::string error = sparse_gather::CheckHostAlloc(bytes, options, host, device_alias);
    if (!error.empty()) return sparse_gather::Fail(AVSG_INVALID_ARGUMENT, error);
    return sparse_gather::HostAlloc(bytes, *options, host, device_alias);
  });
}

extern "C" int avsg_host_free(void* host) {
  return sparse_gather::WhenReady([&] { return sparse_gather::HostFree(host); });
}
