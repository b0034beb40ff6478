// SPDX-License-Identifier: Apache-2.0
// Reading MindSpore's AOT arguments into the structs of the C ABI.
#include "cpu_arguments.h"

#include <cstring>
#include <memory>

namespace sparse_gather {
namespace {

constexpr int64_t kWorkspaceAlignment = 64;

int64_t ItemBytes(const char* dtype) {
  static const struct {
    const char* name;
    int64_t bytes;
  } kItems[] = {{"bool", 1},    {"int8", 1},     {"uint8", 1},  {"int16", 2},  {"uint16", 2},
                {"float16", 2}, {"bfloat16", 2}, {"int32", 4},  {"uint32", 4}, {"float32", 4},
                {"int64", 8},   {"uint64", 8},   {"float64", 8}};
  for (const auto& item : kItems) {
    if (std::strcmp(item.name, dtype) == 0) return item.bytes;
  }
  Refuse(std::string("A payload's dtype is ") + dtype +
         ", but only plain numbers are allowed: pass the rows as uint8 of their bytes.");
}

}  // namespace

void Refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

int64_t TensorArgument::RowBytes(int first_dim) const {
  int64_t bytes = ItemBytes(dtype);
  for (int dim = first_dim; dim < num_dims; ++dim) bytes *= shape[dim];
  return bytes;
}

Arguments::Arguments(int num_params, void** params, int* ndims, int64_t** shapes, const char** dtypes)
    : num_params_(num_params), params_(params), ndims_(ndims), shapes_(shapes), dtypes_(dtypes) {
  const TensorArgument fields = Next();
  if (fields.num_dims != 1 || fields.shape[0] != kNumFields || std::strcmp(fields.dtype, "int64") != 0)
    Refuse(
        "The first argument is not the int64 [17] config tensor: call the primitives through "
        "avsg.mindspore.");
  fields_ = static_cast<const int64_t*>(fields.data);
  config_ = avsg_config{sizeof(avsg_config),
                        static_cast<int32_t>(fields_[kFieldNumRows]),
                        static_cast<int32_t>(fields_[kFieldNumSlots]),
                        static_cast<int32_t>(fields_[kFieldTopK]),
                        static_cast<int32_t>(fields_[kFieldNumQueries]),
                        static_cast<int32_t>(fields_[kFieldMaxLife]),
                        static_cast<int32_t>(fields_[kFieldNumCores])};
}

TensorArgument Arguments::Next() {
  if (next_ >= num_params_) {
    Refuse("The primitive was called with " + std::to_string(num_params_) +
           " tensors, fewer than it needs: call it through avsg.mindspore.");
  }
  const int i = next_++;
  return TensorArgument{params_[i], shapes_[i], ndims_[i], dtypes_[i]};
}

std::vector<TensorArgument> Arguments::NextPayloads() {
  std::vector<TensorArgument> payloads;
  for (int32_t i = 0; i < NumPayloads(); ++i) payloads.push_back(Next());
  return payloads;
}

void* Arguments::Registered(const char* name, const TensorArgument& tensor, int field) const {
  const int64_t address = fields_[field];
  if (address != 0 && address != static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data))) {
    Refuse(std::string(name) +
           " is a copy or a view, but only the Parameter that was registered is allowed, because the update "
           "of a copy "
           "is lost: pass the whole Parameter, and register again after its memory was replaced.");
  }
  return tensor.data;
}

void* Arguments::Workspace() const {
  avsg_size_report report{};
  report.struct_bytes = sizeof(report);
  if (avsg_sizes(&config_, &report) != AVSG_OK) Refuse(avsg_last_error());
  thread_local std::vector<char> memory;
  memory.resize(static_cast<size_t>(report.workspace_bytes + kWorkspaceAlignment));
  void* aligned = memory.data();
  size_t space = memory.size();
  return std::align(kWorkspaceAlignment, static_cast<size_t>(report.workspace_bytes), aligned, space);
}

}  // namespace sparse_gather
