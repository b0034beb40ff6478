// SPDX-License-Identifier: Apache-2.0
// Loads CANN at the first call that finds it, and asks it what the other calls need to know.
#include "runtime.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "acl_error.h"
#include "calls.h"
#include "last_error.h"

namespace sparse_gather {
namespace {

// Never destroyed: a caller may free memory while the process ends.
std::atomic<const Runtime*> the_runtime{nullptr};

struct Family {
  const char* soc_prefix;
  const char* platform;
};
constexpr Family kFamilies[] = {{"Ascend910B", "ascend910b"}, {"Ascend910_93", "ascend910_93"}};

const Platform* PlatformOf(const char* soc_name) {
  for (const Family& family : kFamilies) {
    if (std::strncmp(soc_name, family.soc_prefix, std::strlen(family.soc_prefix)) == 0)
      return FindPlatform(family.platform);
  }
  return nullptr;
}

int ReadDevice(const AclApi& acl, Platform* platform) {
  int32_t device = 0;
  const int32_t code = acl.get_device(&device);
  if (code != 0) return FailAcl(acl, "aclrtGetDevice", code);
  const char* soc_name = acl.soc_name();
  const Platform* known = soc_name == nullptr ? nullptr : PlatformOf(soc_name);
  if (known == nullptr) {
    return Fail(AVSG_UNSUPPORTED, "The device is " + std::string(soc_name == nullptr ? "unknown" : soc_name) +
                                      ", but AVSG has kernels for Ascend910B (Atlas A2) and Ascend910_93 "
                                      "(Atlas A3) only; use the CPU library.");
  }
  *platform = *known;
  int64_t num_cores = 0;
  if (acl.device_capability != nullptr &&
      acl.device_capability(static_cast<uint32_t>(device), kAclVectorCores, &num_cores) == 0 && num_cores > 0)
    platform->num_cores = static_cast<int32_t>(num_cores);
  return AVSG_OK;
}

int Make(Runtime* runtime) {
  const std::string error = LoadCann(&runtime->cann);
  if (!error.empty()) return Fail(AVSG_UNSUPPORTED, error);
  const int code = ReadDevice(runtime->cann.acl, &runtime->platform);
  return code != AVSG_OK ? code : AskWorkspaceBytes(runtime->cann, &runtime->workspace_bytes);
}

}  // namespace

// A failure is not kept: the caller may set the device, or its paths, and call again.
int Ready() {
  if (the_runtime.load(std::memory_order_acquire) != nullptr) return AVSG_OK;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (the_runtime.load(std::memory_order_relaxed) != nullptr) return AVSG_OK;
  auto runtime = std::make_unique<Runtime>();
  const int code = Make(runtime.get());
  if (code == AVSG_OK) the_runtime.store(runtime.release(), std::memory_order_release);
  return code;
}

const Runtime& TheRuntime() { return *the_runtime.load(std::memory_order_acquire); }

const Platform& Device() { return TheRuntime().platform; }

int32_t NumCores(const avsg_config&) { return Device().num_cores; }

int64_t WorkspaceBytes() { return TheRuntime().workspace_bytes; }

}  // namespace sparse_gather
