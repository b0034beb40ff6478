// SPDX-License-Identifier: Apache-2.0
// AvsgLoad: copies the misses of a plan from host_kv, or from fresh, to device_kv.
#include "op_adapter.h"

namespace sparse_gather {
namespace {

using C = LoadCall;

ge::graphStatus TileLoad(gert::TilingContext* context) {
  return Tile<C, 1>(context, "AvsgLoad", TileLoadCall);
}

ge::graphStatus InferLoadShapes(gert::InferShapeContext* context) {
  Outputs outputs(context);
  outputs.AddInput(C::kDeviceKv);
  outputs.AddInput(C::kState);
  outputs.Add({kNumLoadCounters});
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferLoadTypes(gert::InferDataTypeContext* context) {
  return InferTypes(context, {C::kDeviceKv, C::kState});
}

}  // namespace
}  // namespace sparse_gather

namespace ops {

class AvsgLoad : public OpDef {
 public:
  explicit AvsgLoad(const char* name) : OpDef(name) {
    const sparse_gather::Parameters parameters(sparse_gather::KvTypes().size());
    parameters.Int32(Input("miss_tokens"));
    parameters.Int32(Input("miss_slots"));
    parameters.Int32(Input("num_misses"));
    parameters.Int32(Input("plan_rows"));
    parameters.Int32(Input("plan_verified_lens"));
    parameters.Int32(Input("block_table"));
    parameters.Kv(Input("host_kv")).IgnoreContiguous();
    parameters.Kv(Input("fresh")).IgnoreContiguous();
    parameters.Kv(Input("device_kv")).IgnoreContiguous();
    parameters.State(Input("state")).IgnoreContiguous();
    parameters.Kv(Output("device_kv"));
    parameters.State(Output("state"));
    parameters.Int32(Output("load_counters"));
    Attr("num_slots").AttrType(REQUIRED).Int();
    Attr("top_k").AttrType(REQUIRED).Int();
    Attr("num_queries").AttrType(REQUIRED).Int();
    Attr("max_life").AttrType(REQUIRED).Int();
    // The runtime drops an empty list among the kernel's arguments, so fresh is never empty: without fresh
    // rows it is host_kv again, and this is false.
    Attr("has_fresh").AttrType(REQUIRED).Bool();
    SetInferShape(sparse_gather::InferLoadShapes).SetInferDataType(sparse_gather::InferLoadTypes);
    AICore().SetTiling(sparse_gather::TileLoad);
    sparse_gather::AddChips(*this);
  }
};

OP_ADD(AvsgLoad);

}  // namespace ops
