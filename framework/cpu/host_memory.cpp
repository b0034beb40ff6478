// SPDX-License-Identifier: Apache-2.0
// avsg_host_alloc and avsg_host_free of the CPU libraries: anonymous mappings that cost memory only where
// they are touched. One mapping per call: splitting it into chunks is a matter of registering memory with a
// device, which a CPU never does.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "avsg.h"
#include "check.h"
#include "last_error.h"

namespace sparse_gather {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)  // Linux ABI; older C libraries lack the name
#endif

struct Mappings {
  std::mutex mutex;
  std::map<void*, uint64_t> bytes;  // by start
};

Mappings* NewMappings();

// Never destroyed: a caller may free while the process ends.
Mappings& TheMappings() {
  static Mappings* mappings = NewMappings();
  return *mappings;
}

void LockMappings() { TheMappings().mutex.lock(); }
void UnlockMappings() { TheMappings().mutex.unlock(); }

// A fork waits until no other thread is inside, so that the child can go on.
Mappings* NewMappings() {
  pthread_atfork(LockMappings, UnlockMappings, UnlockMappings);
  return new Mappings;
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
  uint64_t mapped_bytes = RoundUp(bytes, sysconf(_SC_PAGESIZE));
  void* start = options.huge_pages == 1 ? MapHuge(bytes, &mapped_bytes) : Map(mapped_bytes, MAP_NORESERVE);
  if (start == nullptr) {
    return Fail(AVSG_OUT_OF_MEMORY, "The system refuses to map " + std::to_string(bytes) +
                                        " bytes of host memory; ask for less or raise its limits (ulimit -v, "
                                        "vm.overcommit_memory).");
  }
  Mappings& mappings = TheMappings();
  std::lock_guard<std::mutex> lock(mappings.mutex);
  mappings.bytes[start] = mapped_bytes;
  *host = start;
  *device_alias = start;
  return Succeed();
}

int HostFree(void* host) {
  Mappings& mappings = TheMappings();
  std::lock_guard<std::mutex> lock(mappings.mutex);
  const auto found = mappings.bytes.find(host);
  if (found == mappings.bytes.end()) {
    Check check;
    check.Refuse(
        "host is %p, which avsg_host_alloc of this library did not return or which was freed already; free "
        "each "
        "address once.",
        host);
    return Fail(AVSG_INVALID_ARGUMENT, check.Error());
  }
  munmap(host, found->second);
  mappings.bytes.erase(found);
  return Succeed();
}

}  // namespace
}  // namespace sparse_gather

extern "C" int avsg_host_alloc(int64_t bytes, const avsg_host_options* options, void** host,
                               void** device_alias) {
  return sparse_gather::Guarded([&] {
    const std::string error = sparse_gather::CheckHostAlloc(bytes, options, host, device_alias);
    if (!error.empty()) return sparse_gather::Fail(AVSG_INVALID_ARGUMENT, error);
    return sparse_gather::HostAlloc(bytes, *options, host, device_alias);
  });
}

extern "C" int avsg_host_free(void* host) {
  return sparse_gather::Guarded([&] { return sparse_gather::HostFree(host); });
}
