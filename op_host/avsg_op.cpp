// SPDX-License-Identifier: Apache-2.0
// Avsg: match and load in one launch.
#include "op_adapter.h"

namespace sparse_gather {
namespace {

using C = FusedCall;

ge::graphStatus TileFused(gert::TilingContext* context) { return Tile<C, 1>(context, "Avsg", TileFusedCall); }

ge::graphStatus InferFusedShapes(gert::InferShapeContext* context) {
  const gert::Shape* topk_tokens = context->GetDynamicInputShape(C::kTopkTokens, 0);
  if (topk_tokens == nullptr) return Fail("Avsg", "topk_tokens is missing: it is needed.");
  Outputs outputs(context);
  outputs.AddInput(C::kDeviceKv);
  outputs.AddInput(C::kState);
  for (const Dims& dims : PlanDims(DimsOf(*topk_tokens))) outputs.Add(dims);
  outputs.Add({kNumLoadCounters});
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferFusedTypes(gert::InferDataTypeContext* context) {
  return InferTypes(context, {C::kDeviceKv, C::kState});
}

}  // namespace
}  // namespace sparse_gather

namespace ops {

class Avsg : public OpDef {
 public:
  explicit Avsg(const char* name) : OpDef(name) {
    const sparse_gather::Parameters parameters(sparse_gather::KvTypes().size());
    parameters.Int32(Input("topk_tokens"));
    parameters.Int32(Input("verified_lens"));
    parameters.Int32(Input("seq_lens"));
    parameters.Int32(Input("leases"));
    parameters.Int32(Input("rows"));
    parameters.Int32(Input("block_table"));
    parameters.Kv(Input("host_kv")).IgnoreContiguous();
    parameters.Kv(Input("fresh")).IgnoreContiguous();
    parameters.Kv(Input("device_kv")).IgnoreContiguous();
    parameters.State(Input("state")).IgnoreContiguous();
    parameters.Kv(Output("device_kv"));
    parameters.State(Output("state"));
    parameters.Int32(Output("slots"));
    parameters.Int32(Output("miss_tokens"));
    parameters.Int32(Output("miss_slots"));
    parameters.Int32(Output("num_misses"));
    parameters.Int32(Output("counters"));
    parameters.Int32(Output("plan_rows"));
    parameters.Int32(Output("plan_verified_lens"));
    parameters.Int32(Output("load_counters"));
    Attr("num_slots").AttrType(REQUIRED).Int();
    Attr("num_queries").AttrType(REQUIRED).Int();
    Attr("max_life").AttrType(REQUIRED).Int();
    Attr("has_fresh").AttrType(REQUIRED).Bool();  // as in avsg_load_op.cpp
    SetInferShape(sparse_gather::InferFusedShapes).SetInferDataType(sparse_gather::InferFusedTypes);
    AICore().SetTiling(sparse_gather::TileFused);
    sparse_gather::AddChips(*this);
  }
};

OP_ADD(Avsg);

}  // namespace ops
