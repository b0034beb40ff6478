// SPDX-License-Identifier: Apache-2.0
// Stands in for torch_npu's header: the part of its streams that AVSG uses.
#pragma once
#include <c10/core/DeviceGuard.h>

using aclrtStream = void*;

namespace c10_npu {

struct NPUStream {
  // drain: whether the queue is emptied first.
  aclrtStream stream(bool drain) const;
};

NPUStream getCurrentNPUStream(c10::DeviceIndex device_index = -1);

}  // namespace c10_npu
