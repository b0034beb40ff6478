// SPDX-License-Identifier: Apache-2.0
// Host memory that the NPU can address: whole pages registered with aclrtHostRegister. Kernels of Linux up to
// 5.10 can register pinned memory of aclrtMallocHost only, newer ones any pages; huge pages need the latter.
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "acl_error.h"
#include "host_memory.h"
#include "last_error.h"
#include "runtime.h"

namespace sparse_gather {
namespace {

// CANN documents pages of 4 KiB; the driver asks for those of the kernel, 64 KiB on some ARM systems.
uint64_t PageBytes() { return static_cast<uint64_t>(std::max(sysconf(_SC_PAGESIZE), 4096L)); }

bool RegistersAnyPages() {
  utsname system = {};
  int major = 0;
  int minor = 0;
  if (uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor > 10);
}

// aclrtMallocHost promises less than a page of alignment and no zeros.
int AllocatePinned(const AclApi& acl, int64_t bytes, HostBlock* block) {
  const uint64_t page = PageBytes();
  block->bytes = (static_cast<uint64_t>(bytes) + page - 1) / page * page;
  const int32_t code = acl.malloc_host(&block->base, block->bytes + page);
  if (code != 0) return FailAcl(acl, "aclrtMallocHost", code);
  const uint64_t past = reinterpret_cast<uintptr_t>(block->base) % page;
  block->host = static_cast<char*>(block->base) + (past == 0 ? 0 : page - past);
  std::memset(block->host, 0, block->bytes);
  return AVSG_OK;
}

// A fork would make the pages copy on write: the next write of this process could then move it to pages that
// the NPU does not see. A child goes without the memory, as with that of aclrtMallocHost.
bool MapUnforked(int64_t bytes, bool huge_pages, HostBlock* block) {
  if (!MapPages(bytes, huge_pages, block)) return false;
  if (madvise(block->base, block->bytes, MADV_DONTFORK) == 0) return true;
  UnmapPages(*block);
  return false;
}

int32_t Release(const AclApi& acl, const HostBlock& block) {
  if (!block.mapped) return acl.free_host(block.base);
  UnmapPages(block);
  return 0;
}

}  // namespace

int AllocateHost(int64_t bytes, bool huge_pages, HostBlock* block) {
  const AclApi& acl = TheRuntime().cann.acl;
  if (acl.host_register == nullptr || acl.host_unregister == nullptr) {
    return Fail(
        AVSG_UNSUPPORTED,
        "This CANN has no aclrtHostRegister, so the NPU cannot address host memory; install CANN 8.3.RC1 "
        "or later and the driver that belongs to it.");
  }
  if (RegistersAnyPages()) {
    if (!MapUnforked(bytes, huge_pages, block)) return RefuseHostMemory(bytes);
  } else {
    const int code = AllocatePinned(acl, bytes, block);
    if (code != AVSG_OK) return code;
  }
  const int32_t code =
      acl.host_register(block->host, block->bytes, kAclHostRegisterMapped, &block->device_alias);
  if (code == 0) return Succeed();
  Release(acl, *block);
  return FailAcl(acl, ("aclrtHostRegister of " + std::to_string(block->bytes) + " bytes").c_str(), code);
}

int FreeHost(const HostBlock& block) {
  const AclApi& acl = TheRuntime().cann.acl;
  const int32_t code = acl.host_unregister(block.host);
  if (code != 0) return FailAcl(acl, "aclrtHostUnregister", code);
  const int32_t freed = Release(acl, block);
  return freed == 0 ? Succeed() : FailAcl(acl, "aclrtFreeHost", freed);
}

}  // namespace sparse_gather
