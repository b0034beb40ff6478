// SPDX-License-Identifier: Apache-2.0
// AvsgStore: writes a step's new rows to host_kv.
#include "op_adapter.h"

namespace sparse_gather {
namespace {

using C = StoreCall;

ge::graphStatus TileStore(gert::TilingContext* context) {
  return Tile<C, 0>(context, "AvsgStore", TileStoreCall);
}

ge::graphStatus InferStoreShapes(gert::InferShapeContext* context) {
  Outputs outputs(context);
  outputs.AddInput(C::kHostKv);
  outputs.Add({kNumStoreCounters});
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus InferStoreTypes(gert::InferDataTypeContext* context) {
  return InferTypes(context, {C::kHostKv});
}

}  // namespace
}  // namespace sparse_gather

namespace ops {

class AvsgStore : public OpDef {
 public:
  explicit AvsgStore(const char* name) : OpDef(name) {
    const sparse_gather::Parameters parameters(sparse_gather::KvTypes().size());
    parameters.Int32(Input("positions"));
    parameters.Int32(Input("entries"));
    parameters.Int32(Input("block_table"));
    parameters.Kv(Input("new_rows")).IgnoreContiguous();
    parameters.Kv(Input("host_kv")).IgnoreContiguous();
    parameters.Kv(Output("host_kv"));
    parameters.Int32(Output("store_counters"));
    SetInferShape(sparse_gather::InferStoreShapes).SetInferDataType(sparse_gather::InferStoreTypes);
    AICore().SetTiling(sparse_gather::TileStore);
    sparse_gather::AddChips(*this);
  }
};

OP_ADD(AvsgStore);

}  // namespace ops
