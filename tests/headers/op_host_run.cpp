// SPDX-License-Identifier: Apache-2.0
// Runs the operator definitions on contexts of the real headers. `describe` prints what they say; otherwise
// standard input is: OPERATOR ub_bytes num_cores, then a call (read_call.h), and the
// answer is the launch and whether its tiling is the pure one's, the shapes and the dtypes of the outputs.
#include <cstring>
#include <iostream>
#include <memory>

#include "op_host_fake.h"
#include "read_call.h"

namespace {

using sparse_gather::OpCall;

// A context of the given type with room for `values` inputs and outputs.
template <typename Context>
class Values {
 public:
  Values(const void* node, size_t inputs, size_t outputs)
      : any_(inputs + outputs), memory_(sizeof(KernelRunContext) + 8 * (inputs + outputs)) {
    run_ = reinterpret_cast<KernelRunContext*>(memory_.data());
    run_->input_size = inputs;
    run_->output_size = outputs;
    run_->compute_node_info = node;
    run_->output_start = run_->values + inputs;
    for (size_t i = 0; i < any_.size(); ++i) run_->values[i] = &any_[i];
  }
  void Point(size_t index, void* pointer) { any_[index].data.pointer = pointer; }
  template <typename T>
  T Value(size_t index) const {
    T value;
    std::memcpy(&value, any_[index].data.inplace, sizeof(T));
    return value;
  }
  template <typename T>
  void Set(size_t index, T value) {
    std::memcpy(any_[index].data.inplace, &value, sizeof(T));
  }
  Context* context() { return reinterpret_cast<Context*>(run_); }

 private:
  std::vector<AsyncAnyValue> any_;
  std::vector<uint8_t> memory_;
  KernelRunContext* run_;
};

// One node of a graph: the tensors of its lists, one by one.
struct Node {
  Node(const Definition& definition, const OpCall& call) {
    size_t num_inputs = 0;
    for (const auto& list : call.inputs) num_inputs += list.size();
    const size_t lists = definition.inputs.size();
    for (const Parameter& output : definition.outputs) {
      size_t count = 1;
      for (size_t i = 0; i < lists; ++i) {
        if (output.kind == ops::DYNAMIC && definition.inputs[i].name == output.name)
          count = call.inputs[i].size();
      }
      num_outputs += count;
    }
    memory.resize(sizeof(gert::ComputeNodeInfo) + lists * sizeof(gert::AnchorInstanceInfo) +
                  (num_inputs + num_outputs) * sizeof(gert::CompileTimeTensorDesc));
    info()->Init(lists, 0, num_inputs, num_outputs, 0, "node", "Operator");
    uint32_t first = 0;
    for (size_t i = 0; i < lists; ++i) {
      const uint32_t count = static_cast<uint32_t>(call.inputs[i].size());
      *const_cast<gert::AnchorInstanceInfo*>(info()->GetInputInstanceInfo(i)) =
          gert::AnchorInstanceInfo(first, count);
      first += count;
      for (const auto& tensor : call.inputs[i]) {
        types.push_back(TypeOf(tensor.item_bytes, definition.inputs[i]));
        const_cast<gert::CompileTimeTensorDesc*>(info()->GetInputTdInfo(types.size() - 1))
            ->SetDataType(types.back());
        gert::Shape shape;
        for (int64_t dim : tensor.dims) shape.AppendDim(dim);
        shapes.emplace_back();
        shapes.back().MutableStorageShape() = shapes.back().MutableOriginShape() = shape;
      }
    }
  }
  static ge::DataType TypeOf(int64_t item_bytes, const Parameter& parameter) {
    for (ge::DataType type : parameter.types) {
      if (ge::GetSizeByDataType(type) == item_bytes) return type;
    }
    return ge::DT_UNDEFINED;
  }
  gert::ComputeNodeInfo* info() { return reinterpret_cast<gert::ComputeNodeInfo*>(memory.data()); }

  std::vector<uint8_t> memory;
  std::vector<ge::DataType> types;
  std::vector<gert::StorageShape> shapes;
  size_t num_outputs = 0;
};

template <typename Tiling>
bool IsPure(const OpCall& call, const void* data, size_t bytes,
            std::string (*tile)(const OpCall&, const sparse_gather::Platform&, int32_t, Tiling*)) {
  Tiling wanted = {};
  sparse_gather::Platform platform = *sparse_gather::FindPlatform("ascend910b");
  sparse_gather::FitPlatform(static_cast<int64_t>(g_chip.ub_bytes), &platform);
  tile(call, platform, static_cast<int32_t>(g_chip.num_vector_cores), &wanted);
  return bytes == sizeof(Tiling) && std::memcmp(data, &wanted, sizeof(Tiling)) == 0;
}

bool IsPure(const std::string& op, const OpCall& call, const void* data, size_t bytes) {
  using namespace sparse_gather;
  if (op == "AvsgMatch") return IsPure(call, data, bytes, TileMatchCall);
  if (op == "AvsgLoad") return IsPure(call, data, bytes, TileLoadCall);
  if (op == "AvsgStore") return IsPure(call, data, bytes, TileStoreCall);
  return IsPure(call, data, bytes, TileFusedCall);
}

void RunTiling(const std::string& op, const Definition& definition, const OpCall& call, Node* node) {
  using gert::TilingContext;
  const size_t inputs = node->types.size() + node->num_outputs + 4;
  Values<TilingContext> values(node->info(), inputs, TilingContext::kOutputNum);
  for (size_t i = 0; i < node->types.size(); ++i) values.Point(i, &node->shapes[i]);
  const auto data = gert::TilingData::CreateCap(4096);
  const auto workspace = gert::ContinuousVector::Create<size_t>(4);
  values.Point(inputs + TilingContext::kOutputTilingData, data.get());
  values.Point(inputs + TilingContext::kOutputWorkspace, workspace.get());
  values.Set<uint64_t>(inputs + TilingContext::kOutputTilingKey, 77);
  if (definition.tiling(values.context()) != ge::GRAPH_SUCCESS) {
    std::cout << "refused " << g_log;
    return;
  }
  TilingContext& context = *values.context();
  gert::TilingData* raw = context.GetRawTilingData();
  std::cout << "key " << context.GetTilingKey() << " cores " << context.GetBlockDim() << " mode "
            << context.GetScheduleMode() << " workspace " << context.GetWorkspaceSizes(1)[0] << " tiling "
            << (IsPure(op, call, raw->GetData(), raw->GetDataSize()) ? "pure" : "other") << "\n";
}

void RunShapes(const Definition& definition, Node* node) {
  const size_t inputs = node->types.size();
  Values<gert::InferShapeContext> values(node->info(), inputs, node->num_outputs);
  std::vector<gert::Shape> outputs(node->num_outputs);
  for (size_t i = 0; i < inputs; ++i) values.Point(i, &node->shapes[i].MutableStorageShape());
  for (size_t i = 0; i < node->num_outputs; ++i) values.Point(inputs + i, &outputs[i]);
  std::cout << (definition.infer_shapes(values.context()) == ge::GRAPH_SUCCESS ? "shapes" : "refused");
  for (const gert::Shape& shape : outputs) {
    std::cout << " [";
    for (size_t i = 0; i < shape.GetDimNum(); ++i) std::cout << (i == 0 ? "" : ",") << shape.GetDim(i);
    std::cout << "]";
  }
  std::cout << "\n";
}

void RunTypes(const Definition& definition, Node* node) {
  const size_t inputs = node->types.size();
  Values<gert::InferDataTypeContext> values(node->info(), inputs, node->num_outputs);
  for (size_t i = 0; i < inputs; ++i) values.Set(i, node->types[i]);
  std::cout << (definition.infer_types(values.context()) == ge::GRAPH_SUCCESS ? "types" : "refused");
  for (size_t i = 0; i < node->num_outputs; ++i) {
    std::cout << " " << ge::GetSizeByDataType(values.Value<ge::DataType>(inputs + i));
  }
  std::cout << "\n";
}

void Describe() {
  for (const auto& entry : Definitions()) {
    for (const auto* list : {&entry.second.inputs, &entry.second.outputs}) {
      for (const Parameter& p : *list) {
        std::cout << entry.first << (list == &entry.second.inputs ? " input " : " output ") << p.name
                  << (p.kind == ops::DYNAMIC ? " list " : " tensor ") << p.types.size() << " types "
                  << p.binary_types.size() << " for binaries " << p.formats.size() << " formats "
                  << (p.ignores_contiguity ? "as it is" : "contiguous") << "\n";
      }
    }
    for (const std::string& attr : entry.second.attrs) std::cout << entry.first << " attr " << attr << "\n";
    for (const std::string& chip : entry.second.chips) std::cout << entry.first << " chip " << chip << "\n";
  }
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    Describe();
    return 0;
  }
  std::string op;
  std::cin >> op >> g_chip.ub_bytes >> g_chip.num_vector_cores;
  const OpCall call = NextCall();
  g_attrs = call.attrs;
  const Definition& definition = Definitions().at(op);
  for (size_t i = 0; i < g_attrs.size(); ++i) {  // nothing is promised of the bytes behind a bool
    if (definition.attrs[i].compare(0, 5, "bool ") == 0) g_attrs[i] |= 0x7700;
  }
  Node node(definition, call);
  RunTiling(op, definition, call, &node);
  RunShapes(definition, &node);
  RunTypes(definition, &node);
  return 0;
}
