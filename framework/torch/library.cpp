// SPDX-License-Identifier: Apache-2.0
// Opening a library of the C ABI, and its errors as exceptions of torch.
#include "library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <memory>

namespace sparse_gather {
namespace {

std::atomic<const Library*> g_cpu{nullptr};
std::atomic<const Library*> g_npu{nullptr};

std::atomic<const Library*>& Slot(bool is_npu) { return is_npu ? g_npu : g_cpu; }

template <typename Function>
void Resolve(void* handle, const std::string& path, const char* symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, symbol));
  TORCH_CHECK_VALUE(*function != nullptr, path, " has no ", symbol,
                    ", so it is not a library of AVSG: pass a libavsg_*.so.");
}

}  // namespace

void Bind(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    TORCH_CHECK_VALUE(false, path, " cannot be opened (", reason == nullptr ? "no reason given" : reason,
                      "): pass the path of a libavsg_*.so.");
  }
  auto library = std::make_unique<Library>();
  Resolve(handle, path, "avsg_abi_version", &library->abi_version);
  Resolve(handle, path, "avsg_library_name", &library->name);
  Resolve(handle, path, "avsg_last_error", &library->last_error);
  Resolve(handle, path, "avsg_sizes", &library->sizes);
  Resolve(handle, path, "avsg_match", &library->match);
  Resolve(handle, path, "avsg_load", &library->load);
  Resolve(handle, path, "avsg_step_fused", &library->step_fused);
  Resolve(handle, path, "avsg_store", &library->store);
  Resolve(handle, path, "avsg_host_alloc", &library->host_alloc);
  Resolve(handle, path, "avsg_host_free", &library->host_free);
  const uint32_t version = library->abi_version();
  TORCH_CHECK_VALUE(version == AVSG_ABI_VERSION, path, " speaks version ", version,
                    " of the AVSG C ABI, but the torch operators speak ", AVSG_ABI_VERSION,
                    ": build both from the same source.");
  const bool is_npu = std::string(library->name()) == "npu";
  Slot(is_npu).store(library.release());
}

const Library& Bound(c10::DeviceType device_type) {
  const bool is_npu = device_type == c10::DeviceType::PrivateUse1;
  const Library* library = Slot(is_npu).load();
  TORCH_CHECK_VALUE(library != nullptr, "No library of AVSG is bound to ", is_npu ? "the NPU" : "the CPU",
                    ": call avsg.torch_ops.load(", is_npu ? "\"npu\"" : "\"cpu\"", ") first.");
  return *library;
}

void Finish(const Library& library, int code) {
  if (code == AVSG_OK) return;
  const std::string sentence = library.last_error();
  TORCH_CHECK_VALUE(code != AVSG_INVALID_ARGUMENT && code != AVSG_UNSUPPORTED, sentence);
  TORCH_CHECK(false, sentence);
}

}  // namespace sparse_gather
