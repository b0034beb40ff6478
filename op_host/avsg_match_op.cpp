// SPDX-License-Identifier: Apache-2.0
// AvsgMatch: resolves the top_k of every batch entry to slots and writes the plan.
#include "op_adapter.h"

namespace sparse_gather {
namespace {

using C = MatchCall;

ge::graphStatus TileMatch(gert::TilingContext* context) {
  return Tile<C, 0>(context, "AvsgMatch", TileMatchCall);
}

ge::graphStatus InferMatchShapes(gert::InferShapeContext* context) {
  const gert::Shape* topk_tokens = context->GetDynamicInputShape(C::kTopkTokens, 0);
  if (topk_tokens == nullptr) return Fail("AvsgMatch", "topk_tokens is missing: it is needed.");
  Outputs outputs(context);
  outputs.AddInput(C::kState);
  for (const Dims& dims : PlanDims(DimsOf(*topk_tokens))) outputs.Add(dims);
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferMatchTypes(gert::InferDataTypeContext* context) {
  return InferTypes(context, {C::kState});
}

}  // namespace
}  // namespace sparse_gather

namespace ops {

class AvsgMatch : public OpDef {
 public:
  explicit AvsgMatch(const char* name) : OpDef(name) {
    const sparse_gather::Parameters parameters(1);
    parameters.Int32(Input("topk_tokens"));
    parameters.Int32(Input("verified_lens"));
    parameters.Int32(Input("seq_lens"));
    parameters.Int32(Input("leases"));
    parameters.Int32(Input("rows"));
    parameters.State(Input("state")).IgnoreContiguous();
    parameters.State(Output("state"));
    parameters.Int32(Output("slots"));
    parameters.Int32(Output("miss_tokens"));
    parameters.Int32(Output("miss_slots"));
    parameters.Int32(Output("num_misses"));
    parameters.Int32(Output("counters"));
    parameters.Int32(Output("plan_rows"));
    parameters.Int32(Output("plan_verified_lens"));
    Attr("num_slots").AttrType(REQUIRED).Int();
    Attr("num_queries").AttrType(REQUIRED).Int();
    Attr("max_life").AttrType(REQUIRED).Int();
    SetInferShape(sparse_gather::InferMatchShapes).SetInferDataType(sparse_gather::InferMatchTypes);
    AICore().SetTiling(sparse_gather::TileMatch);
    sparse_gather::AddChips(*this);
  }
};

OP_ADD(AvsgMatch);

}  // namespace ops
