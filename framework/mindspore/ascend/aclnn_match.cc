// SPDX-License-Identifier: Apache-2.0
// avsg_match on Ascend: aclnnAvsgMatch in graph and PyNative mode.
#include "aclnn_ops.h"

namespace sparse_gather {

// topk_tokens, verified_lens, seq_lens, leases, rows, state; then num_slots, num_queries, max_life
enum MatchInput : size_t {
  kTopkTokens,
  kVerifiedLens,
  kSeqLens,
  kLeases,
  kRows,
  kState,
  kNumSlots,
  kNumQueries,
  kMaxLife
};

class AvsgMatchOpFuncImpl : public Int32OpFuncImpl {
 public:
  ShapeArray InferShape(const PrimitivePtr&, const InferInfoPtrList& inputs) const override {
    for (size_t i = kTopkTokens; i <= kRows; ++i)
      RequireInt32("avsg_match's index tensor", inputs[i]->GetType());
    return PlanShapes(inputs[kTopkTokens]->GetShape());
  }
};

class AvsgMatchAscend : public mindspore::kernel::AclnnKernelMod {
 public:
  AvsgMatchAscend() : AclnnKernelMod("aclnnAvsgMatch") {}

  bool Launch(const KernelTensors& inputs, const KernelTensors& workspace, const KernelTensors& outputs,
              void* stream) override {
    RunOp(stream, workspace, inputs[kTopkTokens], inputs[kVerifiedLens], inputs[kSeqLens], inputs[kLeases],
          inputs[kRows], inputs[kState], num_slots_, num_queries_, max_life_, outputs[0], outputs[1],
          outputs[2], outputs[3], outputs[4], outputs[5], outputs[6]);
    return true;
  }

  void GetWorkSpaceInfo(const KernelTensors& inputs, const KernelTensors& outputs) override {
    num_slots_ = inputs[kNumSlots]->GetValueWithCheck<int64_t>();
    num_queries_ = inputs[kNumQueries]->GetValueWithCheck<int64_t>();
    max_life_ = inputs[kMaxLife]->GetValueWithCheck<int64_t>();
    GetWorkspaceForResize(inputs[kTopkTokens], inputs[kVerifiedLens], inputs[kSeqLens], inputs[kLeases],
                          inputs[kRows], inputs[kState], num_slots_, num_queries_, max_life_, outputs[0],
                          outputs[1], outputs[2], outputs[3], outputs[4], outputs[5], outputs[6]);
  }

 private:
  DEFINE_GET_WORKSPACE_FOR_RESIZE()
  int64_t num_slots_ = 0;
  int64_t num_queries_ = 0;
  int64_t max_life_ = 0;
};

namespace {

TensorList Match(const ms::Tensor& topk_tokens, const ms::Tensor& verified_lens, const ms::Tensor& seq_lens,
                 const ms::Tensor& leases, const ms::Tensor& rows, const ms::Tensor& state, int64_t num_slots,
                 int64_t num_queries, int64_t max_life) {
  RequireInt32("topk_tokens", topk_tokens.data_type());
  TensorList plan;
  for (const ShapeVector& shape : PlanShapes(topk_tokens.shape()))
    plan.emplace_back(mindspore::kNumberTypeInt32, shape);
  auto runner = std::make_shared<ms::pynative::AclnnOpRunner>("AvsgMatch");
  runner->SetLaunchFunc(LAUNCH_ACLNN_FUNC(aclnnAvsgMatch, topk_tokens, verified_lens, seq_lens, leases, rows,
                                          state, num_slots, num_queries, max_life, plan[0], plan[1], plan[2],
                                          plan[3], plan[4], plan[5], plan[6]));
  runner->Run({topk_tokens, verified_lens, seq_lens, leases, rows, state}, plan);
  return plan;
}

}  // namespace

void RegisterMatch(pybind11::module_* m) { m->def("match", &Match); }

}  // namespace sparse_gather

MS_CUSTOM_OPS_REGISTER(avsg_match, sparse_gather::AvsgMatchOpFuncImpl, sparse_gather::AvsgMatchAscend)
