// SPDX-License-Identifier: Apache-2.0
// avsg_load on Ascend: aclnnAvsgLoad in graph and PyNative mode.
#include "aclnn_ops.h"

namespace sparse_gather {

// miss_tokens, miss_slots, num_misses, plan_rows, plan_verified_lens, block_table
constexpr size_t kNumTensorsBefore = 6;
// state, num_slots, top_k, num_queries, max_life, num_payloads; between them host_kv, fresh (or none) and
// device_kv. aclnnAvsgLoad takes no empty list: without fresh it is given host_kv again, and has_fresh false.
constexpr size_t kNumAfterLists = 6;

class AvsgLoadOpFuncImpl : public Int32OpFuncImpl {
 public:
  ShapeArray InferShape(const PrimitivePtr&, const InferInfoPtrList& inputs) const override {
    for (size_t i = 0; i < kNumTensorsBefore; ++i)
      RequireInt32("avsg_load's index tensor", inputs[i]->GetType());
    return {{kNumCopyCounters}};
  }
};

class AvsgLoadAscend : public mindspore::kernel::AclnnKernelMod {
 public:
  AvsgLoadAscend() : AclnnKernelMod("aclnnAvsgLoad") {}

  bool Launch(const KernelTensors& inputs, const KernelTensors& workspace, const KernelTensors& outputs,
              void* stream) override {
    Split(inputs);
    RunOp(stream, workspace, inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5], host_kv_,
          fresh_, device_kv_, state_, num_slots_, top_k_, num_queries_, max_life_, has_fresh_, outputs[0]);
    return true;
  }

  void GetWorkSpaceInfo(const KernelTensors& inputs, const KernelTensors& outputs) override {
    const size_t first = inputs.size() - kNumAfterLists + 1;
    num_payloads_ = static_cast<size_t>(inputs[first + 4]->GetValueWithCheck<int64_t>());
    Split(inputs);
    num_slots_ = inputs[first]->GetValueWithCheck<int64_t>();
    top_k_ = inputs[first + 1]->GetValueWithCheck<int64_t>();
    num_queries_ = inputs[first + 2]->GetValueWithCheck<int64_t>();
    max_life_ = inputs[first + 3]->GetValueWithCheck<int64_t>();
    GetWorkspaceForResize(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5], host_kv_, fresh_,
                          device_kv_, state_, num_slots_, top_k_, num_queries_, max_life_, has_fresh_,
                          outputs[0]);
  }

 private:
  void Split(const KernelTensors& inputs) {
    const size_t listed = inputs.size() - kNumTensorsBefore - kNumAfterLists;
    host_kv_ = Run(inputs, kNumTensorsBefore, num_payloads_);
    has_fresh_ = listed > 2 * num_payloads_;
    fresh_ = has_fresh_ ? Run(inputs, kNumTensorsBefore + num_payloads_, num_payloads_) : host_kv_;
    device_kv_ = Run(inputs, kNumTensorsBefore + listed - num_payloads_, num_payloads_);
    state_ = inputs[kNumTensorsBefore + listed];
  }

  DEFINE_GET_WORKSPACE_FOR_RESIZE()
  KernelTensors host_kv_;
  KernelTensors fresh_;
  KernelTensors device_kv_;
  KernelTensor* state_ = nullptr;
  size_t num_payloads_ = 0;
  int64_t num_slots_ = 0;
  int64_t top_k_ = 0;
  int64_t num_queries_ = 0;
  int64_t max_life_ = 0;
  bool has_fresh_ = false;
};

namespace {

ms::Tensor Load(const TensorList& misses, const ms::Tensor& block_table, const TensorList& host_kv,
                const TensorList& fresh, const TensorList& device_kv, const ms::Tensor& state,
                int64_t num_slots, int64_t top_k, int64_t num_queries, int64_t max_life) {
  RequireInt32("block_table", block_table.data_type());
  ms::Tensor load_counters(mindspore::kNumberTypeInt32, {kNumCopyCounters});
  const bool has_fresh = !fresh.empty();
  const TensorList& listed_fresh = has_fresh ? fresh : host_kv;
  auto runner = std::make_shared<ms::pynative::AclnnOpRunner>("AvsgLoad");
  runner->SetLaunchFunc(LAUNCH_ACLNN_FUNC(aclnnAvsgLoad, misses[0], misses[1], misses[2], misses[3],
                                          misses[4], block_table, host_kv, listed_fresh, device_kv, state,
                                          num_slots, top_k, num_queries, max_life, has_fresh, load_counters));
  TensorList inputs = misses;
  inputs.push_back(block_table);
  for (const TensorList* list : {&host_kv, &fresh, &device_kv})
    inputs.insert(inputs.end(), list->begin(), list->end());
  inputs.push_back(state);
  runner->Run(inputs, {load_counters});
  return load_counters;
}

}  // namespace

void RegisterLoad(pybind11::module_* m) { m->def("load", &Load); }

}  // namespace sparse_gather

MS_CUSTOM_OPS_REGISTER(avsg_load, sparse_gather::AvsgLoadOpFuncImpl, sparse_gather::AvsgLoadAscend)
