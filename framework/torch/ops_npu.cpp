// SPDX-License-Identifier: Apache-2.0
// The operators on NPU tensors: queued in the order of torch's other operators on the current stream.
// Compiled only where torch_npu is installed; compiled against its headers, never run.
#include <torch/library.h>

#include <string>

#include "check.h"
#include "op_call.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace sparse_gather {
namespace {

Call ArgumentsOf(const OpCall& op_call, const Platform* platform) {
  Call call;
  call.platform = platform;
  call.config = &op_call.config;
  call.step = &op_call.step;
  call.plan = &op_call.plan;
  call.blocks = &op_call.blocks;
  call.payloads = op_call.payloads;
  call.store_payloads = op_call.store_payloads;
  call.num_payloads = op_call.num_payloads;
  call.positions = op_call.positions;
  call.entries = op_call.entries;
  call.num_new_rows = op_call.num_new_rows;
  call.state = op_call.state;
  call.counters = op_call.counters;
  call.workspace = op_call.workspace;
  return call;
}

// What the library would refuse: once the call is queued, an error would surface at some later operator. The
// sizes are those of the library, which knows the chip.
template <std::string (*check)(const Call&)>
void CheckBeforeQueue(const Library& library, const OpCall& call) {
  avsg_size_report report{};
  report.struct_bytes = sizeof(report);
  Finish(library, library.sizes(&call.config, &report));
  if (call.workspace_bytes < report.workspace_bytes) {
    RefuseValue("workspace", std::to_string(call.workspace_bytes) + " bytes",
                std::to_string(report.workspace_bytes) + " bytes or more",
                "pass the workspace of the TorchPool");
  }
  const std::string error = check(ArgumentsOf(call, FindPlatform("cpu")));
  TORCH_CHECK_VALUE(error.empty(), error);
}

template <const Operator& op, std::string (*check)(const Call&)>
void OnNpu(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Library& library = Bound(c10::DeviceType::PrivateUse1);
  Arguments arguments(handle, *stack, c10::DeviceType::PrivateUse1);
  OpCall call = op.read(&arguments);
  CheckBeforeQueue<check>(library, call);
  const c10::DeviceGuard guard(arguments.device());
  // false: the queue is not drained, because the call takes its own place in it.
  aclrtStream stream = c10_npu::getCurrentNPUStream().stream(false);
  // Addresses only: torch reuses a tensor's memory in the order of the queue, and host memory is the
  // caller's.
  const auto task = [&library, call, stream]() mutable -> int {
    const int code = op.run(library, &call, stream);
    TORCH_CHECK(code == AVSG_OK, library.last_error());
    return code;
  };
  at_npu::native::OpCommand::RunOpApiV2(op.name, task);
  torch::jit::drop(*stack, handle.schema().arguments().size());
}

}  // namespace
}  // namespace sparse_gather

#define AVSG_ON_NPU(op, check) \
  torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnNpu<sparse_gather::op, sparse_gather::check>>()

TORCH_LIBRARY_IMPL(avsg, PrivateUse1, m) {
  m.impl("match", AVSG_ON_NPU(kMatch, CheckMatch));
  m.impl("load", AVSG_ON_NPU(kLoad, CheckLoad));
  m.impl("step", AVSG_ON_NPU(kStep, CheckStepFused));
  m.impl("store", AVSG_ON_NPU(kStore, CheckStore));
}
