// SPDX-License-Identifier: Apache-2.0
// Host memory that a device reads: tensors of it, and the device's addresses of CPU tensors.
#ifndef AVSG_TORCH_HOST_MEMORY_H
#define AVSG_TORCH_HOST_MEMORY_H

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sparse_gather {

// Names the device's address of `bytes` bytes of host memory; the two may be equal.
void RegisterHost(int64_t host, int64_t device_alias, int64_t bytes);
void UnregisterHost(int64_t host);

// The device's address of host memory that lies whole in a registered block; nullptr otherwise.
void* DeviceAlias(const void* host, int64_t bytes);

// A CPU tensor of zeroed memory that `device` can address; the last tensor on it frees it.
at::Tensor HostZeros(at::IntArrayRef size, at::ScalarType dtype, at::Device device, bool huge_pages);

}  // namespace sparse_gather

#endif  // AVSG_TORCH_HOST_MEMORY_H
