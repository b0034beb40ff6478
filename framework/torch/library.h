// SPDX-License-Identifier: Apache-2.0
// The libraries of the C ABI that the operators call: one for each kind of device, opened at run time.
#ifndef AVSG_TORCH_LIBRARY_H
#define AVSG_TORCH_LIBRARY_H

#include <c10/core/DeviceType.h>

#include <string>

#include "avsg.h"

namespace sparse_gather {

// The functions of avsg.h in one library.
struct Library {
  decltype(&avsg_abi_version) abi_version;
  decltype(&avsg_library_name) name;
  decltype(&avsg_last_error) last_error;
  decltype(&avsg_sizes) sizes;
  decltype(&avsg_match) match;
  decltype(&avsg_load) load;
  decltype(&avsg_step_fused) step_fused;
  decltype(&avsg_store) store;
  decltype(&avsg_host_alloc) host_alloc;
  decltype(&avsg_host_free) host_free;
};

// Opens the library and binds it to its device: "npu" to the NPU, any other to the CPU. It stays open for the
// life of the process, because host memory that it gave out may live as long.
void Bind(const std::string& path);

// The library of a device; ValueError when none is bound.
const Library& Bound(c10::DeviceType device_type);

// Raises what the library's last call deserves: ValueError for a refusal, RuntimeError for anything else.
void Finish(const Library& library, int code);

}  // namespace sparse_gather

#endif  // AVSG_TORCH_LIBRARY_H
