// SPDX-License-Identifier: Apache-2.0
// The registry of host memory, and tensors from avsg_host_alloc.
#include "host_memory.h"

#include <ATen/ops/from_blob.h>

#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "library.h"

namespace sparse_gather {
namespace {

struct Block {
  uintptr_t end;
  uintptr_t device_alias;
};

std::shared_mutex g_mutex;

// Leaked, because tensors may be freed after the end of main.
std::map<uintptr_t, Block>& Blocks() {
  static auto* blocks = new std::map<uintptr_t, Block>();
  return *blocks;
}

}  // namespace

void RegisterHost(int64_t host, int64_t device_alias, int64_t bytes) {
  const auto begin = static_cast<uintptr_t>(host);
  const uintptr_t end = begin + static_cast<uintptr_t>(bytes);
  TORCH_CHECK_VALUE(host != 0 && device_alias != 0 && bytes > 0, "The host memory at ", host,
                    " with device address ", device_alias, " has ", bytes,
                    " bytes, but only memory of one byte or more is allowed: pass a tensor that holds data.");
  const std::unique_lock lock(g_mutex);
  const auto next = Blocks().lower_bound(begin);
  const bool overlaps = (next != Blocks().end() && next->first < end) ||
                        (next != Blocks().begin() && std::prev(next)->second.end > begin);
  TORCH_CHECK_VALUE(!overlaps, "The host memory at ", host, " of ", bytes,
                    " bytes overlaps a registered block, but each byte has one device address: unregister "
                    "that block first.");
  Blocks()[begin] = Block{end, static_cast<uintptr_t>(device_alias)};
}

void UnregisterHost(int64_t host) {
  const std::unique_lock lock(g_mutex);
  const bool erased = Blocks().erase(static_cast<uintptr_t>(host)) != 0;
  TORCH_CHECK_VALUE(erased, "No registered block starts at ", host,
                    ", but only a tensor that was registered is allowed: pass that tensor itself.");
}

void* DeviceAlias(const void* host, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(host);
  const std::shared_lock lock(g_mutex);
  auto block = Blocks().upper_bound(begin);
  if (block == Blocks().begin()) return nullptr;
  --block;
  if (begin + static_cast<uintptr_t>(bytes) > block->second.end) return nullptr;
  return reinterpret_cast<void*>(block->second.device_alias + (begin - block->first));
}

at::Tensor HostZeros(at::IntArrayRef size, at::ScalarType dtype, at::Device device, bool huge_pages) {
  const Library& library = Bound(device.type());
  int64_t bytes = static_cast<int64_t>(at::elementSize(dtype));
  for (const int64_t extent : size) {
    TORCH_CHECK_VALUE(extent > 0 && !__builtin_mul_overflow(bytes, extent, &bytes), "size is ", size,
                      ", but one item or more in every dimension, in 2^63 bytes, is allowed: pass positive "
                      "extents.");
  }
  const avsg_host_options options{sizeof(avsg_host_options), huge_pages ? 1 : 0};
  void* host = nullptr;
  void* device_alias = nullptr;
  Finish(library, library.host_alloc(bytes, &options, &host, &device_alias));
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(host));
  const bool is_registered = device.type() == c10::DeviceType::PrivateUse1;
  if (is_registered)
    RegisterHost(address, static_cast<int64_t>(reinterpret_cast<uintptr_t>(device_alias)), bytes);
  const auto free_host = library.host_free;
  const auto release = [address, is_registered, free_host](void* memory) {
    if (is_registered) UnregisterHost(address);
    free_host(memory);
  };
  return at::from_blob(host, size, release, at::TensorOptions().dtype(dtype).device(at::kCPU));
}

}  // namespace sparse_gather
