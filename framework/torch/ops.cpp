// SPDX-License-Identifier: Apache-2.0
// The operators avsg::match, load, step and store: schemas, and their kernels for CPU and Meta tensors.
#include <torch/library.h>

#include "host_memory.h"
#include "library.h"
#include "op_call.h"

#define AVSG_STEP_INPUTS \
  "Tensor topk_tokens, Tensor verified_lens, Tensor seq_lens, Tensor leases, Tensor rows, "
#define AVSG_WRITTEN_PLAN                                                                    \
  "Tensor(b!) slots, Tensor(c!) miss_tokens, Tensor(d!) miss_slots, Tensor(e!) num_misses, " \
  "Tensor(f!) counters, Tensor(g!) plan_rows, Tensor(h!) plan_verified_lens, "
#define AVSG_COPIES \
  "Tensor block_table, Tensor[] host_kv, Tensor[] fresh, Tensor(i!)[] device_kv, Tensor(a!) state, "
#define AVSG_POOL_INTS "int num_slots, int num_queries, int max_life) -> ()"

namespace sparse_gather {
namespace {

constexpr const char* kSchemas[] = {
    "match(" AVSG_STEP_INPUTS "Tensor(a!) state, " AVSG_WRITTEN_PLAN "Tensor(j!) workspace, " AVSG_POOL_INTS,
    "load(Tensor miss_tokens, Tensor miss_slots, Tensor num_misses, Tensor plan_rows, "
    "Tensor plan_verified_lens, " AVSG_COPIES
    "Tensor(b!) load_counters, Tensor(c!) workspace, int num_slots, int top_k) -> ()",
    "step(" AVSG_STEP_INPUTS AVSG_COPIES AVSG_WRITTEN_PLAN
    "Tensor(j!) load_counters, Tensor(k!) workspace, " AVSG_POOL_INTS,
    "store(Tensor positions, Tensor entries, Tensor block_table, Tensor[] new_rows, "
    "Tensor(a!)[] host_kv, Tensor(b!) store_counters, Tensor(c!) workspace) -> ()"};

template <const Operator& op>
void OnCpu(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Library& library = Bound(c10::DeviceType::CPU);
  Arguments arguments(handle, *stack, c10::DeviceType::CPU);
  OpCall call = op.read(&arguments);
  Finish(library, op.run(library, &call, nullptr));
  torch::jit::drop(*stack, handle.schema().arguments().size());
}

// The shapes only, for FakeTensor and torch.compile.
template <const Operator& op>
void OnMeta(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  Arguments arguments(handle, *stack, c10::DeviceType::Meta);
  op.read(&arguments);
  torch::jit::drop(*stack, handle.schema().arguments().size());
}

}  // namespace
}  // namespace sparse_gather

TORCH_LIBRARY(avsg, m) {
  for (const char* schema : sparse_gather::kSchemas)
    m.def(torch::schema(schema), {at::Tag::pt2_compliant_tag});
  m.def("bind(str path) -> ()", &sparse_gather::Bind);
  m.def("host_zeros(int[] size, ScalarType dtype, Device device, bool huge_pages) -> Tensor",
        &sparse_gather::HostZeros);
  m.def("register_host(int host, int device_alias, int bytes) -> ()", &sparse_gather::RegisterHost);
  m.def("unregister_host(int host) -> ()", &sparse_gather::UnregisterHost);
}

TORCH_LIBRARY_IMPL(avsg, CPU, m) {
  m.impl("match", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnCpu<sparse_gather::kMatch>>());
  m.impl("load", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnCpu<sparse_gather::kLoad>>());
  m.impl("step", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnCpu<sparse_gather::kStep>>());
  m.impl("store", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnCpu<sparse_gather::kStore>>());
}

TORCH_LIBRARY_IMPL(avsg, Meta, m) {
  m.impl("match", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnMeta<sparse_gather::kMatch>>());
  m.impl("load", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnMeta<sparse_gather::kLoad>>());
  m.impl("step", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnMeta<sparse_gather::kStep>>());
  m.impl("store", torch::CppFunction::makeFromBoxedFunction<&sparse_gather::OnMeta<sparse_gather::kStore>>());
}
