// SPDX-License-Identifier: Apache-2.0
// What the Ascend glue of every operator shares: names, kernels on aclnn, infer rules, registration with
// Python.
#ifndef AVSG_MINDSPORE_ACLNN_OPS_H
#define AVSG_MINDSPORE_ACLNN_OPS_H

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "mindspore/include/custom_op_api.h"
#include "mindspore/ops/kernel/ascend/aclnn/kernel_mod_impl/aclnn_kernel_mod.h"

namespace sparse_gather {

// MindSpore's macros below expand to unqualified names of these namespaces.
using namespace mindspore;          // NOLINT
using namespace mindspore::kernel;  // NOLINT
using aclOpExecutor = mindspore::device::ascend::aclOpExecutor;
using CallBackFunc = std::function<void()>;
using ProcessCache = mindspore::device::ascend::ProcessCache;
using CacheTuple = std::tuple<uint64_t, aclOpExecutor*, ProcessCache, size_t>;
using mindspore::ops::InferInfoPtrList;
using TensorList = std::vector<ms::Tensor>;
using KernelTensors = std::vector<KernelTensor*>;

constexpr int64_t kNumCounters = 8;
constexpr int64_t kNumCopyCounters = 2;
constexpr size_t kNumPlanTensors = 7;

// Shapes of a plan for topk_tokens [B, Q, K].
inline ShapeArray PlanShapes(const ShapeVector& topk_tokens) {
  if (topk_tokens.size() != 3)
    MS_LOG(EXCEPTION) << "topk_tokens has " << topk_tokens.size()
                      << " dimensions, but [B, Q, K] is allowed: reshape it.";
  const int64_t entries = topk_tokens[0];
  const int64_t width = topk_tokens[1] * topk_tokens[2];
  return {topk_tokens, {entries, width}, {entries, width}, {entries}, {entries, kNumCounters},
          {entries},   {entries}};
}

// int32 outputs of shapes that depend on the first input only.
class Int32OpFuncImpl : public mindspore::ops::OpFuncImpl {
 public:
  std::vector<TypeId> InferType(const PrimitivePtr& primitive,
                                const InferInfoPtrList& inputs) const override {
    return std::vector<TypeId>(InferShape(primitive, inputs).size(), mindspore::kNumberTypeInt32);
  }
  bool GeneralInferRegistered() const override { return true; }
};

// The only dtype of an index tensor; anything else would be read as other numbers.
inline void RequireInt32(const char* name, TypeId type) {
  if (type == mindspore::kNumberTypeInt32) return;
  MS_LOG(EXCEPTION) << name << " is a tensor of " << mindspore::TypeIdToString(type)
                    << ", but only int32 is allowed: convert it first.";
}

// A run of a tensor list among a kernel's inputs: a graph hands lists over flat.
inline KernelTensors Run(const KernelTensors& inputs, size_t first, size_t count) {
  return KernelTensors(inputs.begin() + static_cast<int64_t>(first),
                       inputs.begin() + static_cast<int64_t>(first + count));
}

void RegisterMatch(pybind11::module_* m);
void RegisterLoad(pybind11::module_* m);
void RegisterStore(pybind11::module_* m);

}  // namespace sparse_gather

#endif  // AVSG_MINDSPORE_ACLNN_OPS_H
