// SPDX-License-Identifier: Apache-2.0
// What the operator definitions share: parameters, the way from CANN's contexts to the pure tiling, and the
// log. Needs CANN.
#ifndef AVSG_OP_HOST_OP_ADAPTER_H
#define AVSG_OP_HOST_OP_ADAPTER_H

#include <cstdio>
#include <string>
#include <vector>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling_call.h"

// CANN's log. Declared here, because its header moves between releases, and weak, because only a process that
// runs operators has it.
extern "C" int32_t AlogRecord(uint32_t module, uint32_t log, int32_t level, const char* format, ...)
    __attribute__((weak)) __attribute__((format(printf, 4, 5)));

namespace sparse_gather {

// Dtypes of KV rows. The kernels see bytes, so one binary serves them all (Kv below).
inline const std::vector<ge::DataType>& KvTypes() {
  static const std::vector<ge::DataType> types = {ge::DT_INT8,  ge::DT_UINT8,  ge::DT_BOOL,   ge::DT_FLOAT16,
                                                  ge::DT_BF16,  ge::DT_INT16,  ge::DT_UINT16, ge::DT_FLOAT,
                                                  ge::DT_INT32, ge::DT_UINT32, ge::DT_INT64,  ge::DT_UINT64};
  return types;
}

// An operator's parameters. CANN wants as many dtypes of each as of the others: num_types. Inputs that hold
// KV or the state ignore contiguity, and none asks for AutoContiguous: their addresses may be host memory
// mapped into the device, many gigabytes that nothing may copy, and a copy of what is written in place would
// be lost.
class Parameters {
 public:
  explicit Parameters(size_t num_types) : num_types_(num_types) {}

  ops::OpParamDef& Int32(ops::OpParamDef& parameter) const { return Tensor(parameter, ge::DT_INT32); }
  ops::OpParamDef& State(ops::OpParamDef& parameter) const { return Tensor(parameter, ge::DT_UINT8); }
  // A list of payloads. All payloads of a call have one dtype.
  ops::OpParamDef& Kv(ops::OpParamDef& parameter) const {
    return parameter.ParamType(ops::DYNAMIC)
        .DataType(KvTypes())
        .DataTypeForBinQuery(std::vector<ge::DataType>(num_types_, ge::DT_INT8))
        .Format(std::vector<ge::Format>(num_types_, ge::FORMAT_ND));
  }

 private:
  ops::OpParamDef& Tensor(ops::OpParamDef& parameter, ge::DataType type) const {
    return parameter.ParamType(ops::REQUIRED)
        .DataType(std::vector<ge::DataType>(num_types_, type))
        .Format(std::vector<ge::Format>(num_types_, ge::FORMAT_ND));
  }

  size_t num_types_;
};

// The settings that CANN would take itself but for the last: a graph of mixed precision would cast float KV,
// host memory included, to float16, because the operators take both.
inline void AddChips(ops::OpDef& definition) {
  ops::OpAICoreConfig config;
  config.DynamicCompileStaticFlag(true)
      .DynamicFormatFlag(true)
      .DynamicRankSupportFlag(true)
      .DynamicShapeSupportFlag(true)
      .NeedCheckSupportFlag(false)
      .PrecisionReduceFlag(false);
  definition.AICore().AddConfig("ascend910b", config);    // Atlas A2
  definition.AICore().AddConfig("ascend910_93", config);  // Atlas A3
}

inline ge::graphStatus Fail(const char* op, const std::string& sentence) {
  constexpr uint32_t kOpModule = 63;
  constexpr int32_t kError = 3;
  if (AlogRecord != nullptr) {
    AlogRecord(kOpModule, 0, kError, "%s: %s\n", op, sentence.c_str());
  } else {
    std::fprintf(stderr, "%s: %s\n", op, sentence.c_str());
  }
  return ge::GRAPH_FAILED;
}

inline Dims DimsOf(const gert::Shape& shape) {
  Dims dims(shape.GetDimNum());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = shape.GetDim(i);
  return dims;
}

// Attributes are whole numbers, all but an operator's last of `flags`, which are booleans.
inline OpCall ReadCall(const gert::TilingContext& context, size_t num_inputs, size_t num_attrs,
                       size_t flags) {
  OpCall call;
  call.inputs.resize(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    for (size_t j = 0;; ++j) {
      const gert::StorageShape* shape = context.GetDynamicInputShape(i, j);
      const gert::CompileTimeTensorDesc* desc = context.GetDynamicInputDesc(i, j);
      if (shape == nullptr || desc == nullptr) break;
      call.inputs[i].push_back(
          {DimsOf(shape->GetStorageShape()), ge::GetSizeByDataType(desc->GetDataType())});
    }
  }
  const gert::RuntimeAttrs* attrs = context.GetAttrs();
  for (size_t i = 0; i < num_attrs; ++i) {
    if (i < num_attrs - flags) {
      const int64_t* value = attrs == nullptr ? nullptr : attrs->GetInt(i);
      call.attrs.push_back(value == nullptr ? 0 : *value);
    } else {
      const bool* value = attrs == nullptr ? nullptr : attrs->GetBool(i);
      call.attrs.push_back(value != nullptr && *value ? 1 : 0);
    }
  }
  return call;
}

// The tiling function of an operator whose call is C, over the pure one.
template <typename C, size_t kFlags, typename Tiling>
ge::graphStatus Tile(gert::TilingContext* context, const char* op,
                     std::string (*tile)(const OpCall&, const Platform&, int32_t, Tiling*)) {
  const platform_ascendc::PlatformAscendC chip(context->GetPlatformInfo());
  uint64_t ub_bytes = 0;
  chip.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub_bytes);
  Platform platform = *FindPlatform("ascend910b");  // the numbers of both families
  std::string error = FitPlatform(static_cast<int64_t>(ub_bytes), &platform);
  if (!error.empty()) return Fail(op, error);
  const int32_t num_cores = static_cast<int32_t>(chip.GetCoreNumAiv());
  Tiling tiling = {};
  error = tile(ReadCall(*context, C::kNumInputs, C::kNumAttrs, kFlags), platform, num_cores, &tiling);
  if (!error.empty()) return Fail(op, error);

  Tiling* data = context->GetTilingData<Tiling>();
  size_t* workspace = context->GetWorkspaceSizes(1);
  if (data == nullptr || workspace == nullptr) {
    return Fail(op, "CANN gives no room for " + std::to_string(sizeof(Tiling)) + " bytes of tiling data.");
  }
  *data = tiling;
  // The kernel's own part begins behind the system's: the toolkit hands it a pointer to that.
  workspace[0] = chip.GetLibApiWorkSpaceSize() + static_cast<size_t>(kWorkspaceBytes);
  context->SetTilingKey(0);
  context->SetBlockDim(static_cast<uint32_t>(num_cores));
  // All cores at once or none: two streams whose kernels wait for their own cores would wait forever.
  context->SetScheduleMode(1);
  return ge::GRAPH_SUCCESS;
}

// Output shapes and dtypes. A graph counts the tensors of a list one by one.
class Outputs {
 public:
  explicit Outputs(gert::InferShapeContext* context) : context_(context) {}

  void Add(const Dims& dims) {
    gert::Shape* shape = context_->GetOutputShape(next_++);
    if (shape == nullptr) return;
    shape->SetDimNum(0);
    for (int64_t dim : dims) shape->AppendDim(dim);
  }
  // An input that is also an output.
  void AddInput(size_t input) {
    for (size_t j = 0; const gert::Shape* shape = context_->GetDynamicInputShape(input, j); ++j) {
      Add(DimsOf(*shape));
    }
  }

 private:
  gert::InferShapeContext* context_;
  size_t next_ = 0;
};

// Dtypes: the inputs `kept` are outputs too and keep theirs; all others are int32.
inline ge::graphStatus InferTypes(gert::InferDataTypeContext* context, const std::vector<size_t>& kept) {
  size_t next = 0;
  for (size_t input : kept) {
    for (size_t j = 0;; ++j) {
      const ge::DataType type = context->GetDynamicInputDataType(input, j);
      if (type == ge::DT_UNDEFINED) break;
      context->SetOutputDataType(next++, type);
    }
  }
  while (next < context->GetComputeNodeOutputNum()) context->SetOutputDataType(next++, ge::DT_INT32);
  return ge::GRAPH_SUCCESS;
}

}  // namespace sparse_gather

#endif  // AVSG_OP_HOST_OP_ADAPTER_H
