// SPDX-License-Identifier: Apache-2.0
// Stands in for libtorch_npu.so: an NPU whose memory is the CPU's, and a queue that runs only when a test
// says so.
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <deque>

#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1>)

namespace {

std::deque<std::function<int()>> g_queue;
int64_t g_drains = 0;
int g_stream = 0;

int64_t RunQueue() {
  int64_t count = 0;
  for (; !g_queue.empty(); ++count) {
    const auto task = g_queue.front();
    g_queue.pop_front();
    task();
  }
  return count;
}

at::Tensor OnDevice(const at::Tensor& host) {
  const at::Device npu(c10::DeviceType::PrivateUse1, 0);
  return at::for_blob(host.data_ptr(), host.sizes())
      .strides(host.strides())
      .deleter([host](void*) {})
      .options(host.options().device(npu))
      .target_device(npu)
      .make_tensor();
}

}  // namespace

namespace c10_npu {

aclrtStream NPUStream::stream(bool drain) const {
  g_drains += drain ? 1 : 0;
  return &g_stream;
}

NPUStream getCurrentNPUStream(c10::DeviceIndex) { return {}; }

}  // namespace c10_npu

namespace at_npu::native {

void OpCommand::RunOpApiV2(const std::string&, const std::function<int()>& func, bool) {
  g_queue.push_back(func);
}

}  // namespace at_npu::native

TORCH_LIBRARY(standin, m) {
  m.def("on_device(Tensor host) -> Tensor", &OnDevice);
  m.def("run_queue() -> int", &RunQueue);
  m.def("num_queued() -> int", [] { return static_cast<int64_t>(g_queue.size()); });
  m.def("num_drains() -> int", [] { return g_drains; });
}
