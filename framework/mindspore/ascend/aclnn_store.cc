// SPDX-License-Identifier: Apache-2.0
// avsg_store on Ascend: aclnnAvsgStore in graph and PyNative mode.
#include "aclnn_ops.h"

namespace sparse_gather {

// positions, entries, block_table; then the lists new_rows and host_kv; then num_payloads
constexpr size_t kNumStoreTensors = 3;

class AvsgStoreOpFuncImpl : public Int32OpFuncImpl {
 public:
  ShapeArray InferShape(const PrimitivePtr&, const InferInfoPtrList& inputs) const override {
    for (size_t i = 0; i < kNumStoreTensors; ++i)
      RequireInt32("avsg_store's index tensor", inputs[i]->GetType());
    return {{kNumCopyCounters}};
  }
};

class AvsgStoreAscend : public mindspore::kernel::AclnnKernelMod {
 public:
  AvsgStoreAscend() : AclnnKernelMod("aclnnAvsgStore") {}

  bool Launch(const KernelTensors& inputs, const KernelTensors& workspace, const KernelTensors& outputs,
              void* stream) override {
    Split(inputs);
    RunOp(stream, workspace, inputs[0], inputs[1], inputs[2], new_rows_, host_kv_, outputs[0]);
    return true;
  }

  void GetWorkSpaceInfo(const KernelTensors& inputs, const KernelTensors& outputs) override {
    num_payloads_ = static_cast<size_t>(inputs.back()->GetValueWithCheck<int64_t>());
    Split(inputs);
    GetWorkspaceForResize(inputs[0], inputs[1], inputs[2], new_rows_, host_kv_, outputs[0]);
  }

 private:
  void Split(const KernelTensors& inputs) {
    new_rows_ = Run(inputs, kNumStoreTensors, num_payloads_);
    host_kv_ = Run(inputs, kNumStoreTensors + num_payloads_, num_payloads_);
  }

  DEFINE_GET_WORKSPACE_FOR_RESIZE()
  KernelTensors new_rows_;
  KernelTensors host_kv_;
  size_t num_payloads_ = 0;
};

namespace {

ms::Tensor Store(const ms::Tensor& positions, const ms::Tensor& entries, const ms::Tensor& block_table,
                 const TensorList& new_rows, const TensorList& host_kv) {
  RequireInt32("positions", positions.data_type());
  ms::Tensor store_counters(mindspore::kNumberTypeInt32, {kNumCopyCounters});
  auto runner = std::make_shared<ms::pynative::AclnnOpRunner>("AvsgStore");
  runner->SetLaunchFunc(
      LAUNCH_ACLNN_FUNC(aclnnAvsgStore, positions, entries, block_table, new_rows, host_kv, store_counters));
  TensorList inputs = {positions, entries, block_table};
  for (const TensorList* list : {&new_rows, &host_kv})
    inputs.insert(inputs.end(), list->begin(), list->end());
  runner->Run(inputs, {store_counters});
  return store_counters;
}

}  // namespace

void RegisterStore(pybind11::module_* m) { m->def("store", &Store); }

}  // namespace sparse_gather

MS_CUSTOM_OPS_REGISTER(avsg_store, sparse_gather::AvsgStoreOpFuncImpl, sparse_gather::AvsgStoreAscend)
