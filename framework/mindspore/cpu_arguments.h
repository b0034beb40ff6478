// SPDX-License-Identifier: Apache-2.0
// The arguments of one call of MindSpore's AOT interface: tensors in the order of the primitive's inputs and
// outputs.
#ifndef AVSG_MINDSPORE_CPU_ARGUMENTS_H
#define AVSG_MINDSPORE_CPU_ARGUMENTS_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "avsg.h"

namespace sparse_gather {

// MindSpore hands the text of a thrown std::runtime_error to the user; a return code would lose it.
[[noreturn]] void Refuse(const std::string& sentence);

// Fields of the int64 tensor that every primitive gets first (mirror: python/avsg/mindspore/custom_ops.py).
enum ConfigField : int {
  kFieldNumRows,
  kFieldNumSlots,
  kFieldTopK,
  kFieldNumQueries,
  kFieldMaxLife,
  kFieldNumCores,
  kFieldCheckValues,
  kFieldNumPayloads,
  kFieldStateAddress,     // 0: not registered
  kFieldDeviceAddresses,  // one for each payload
  kFieldHostAddresses = kFieldDeviceAddresses + 4,
  kNumFields = kFieldHostAddresses + 4
};

struct TensorArgument {
  void* data;
  const int64_t* shape;
  int num_dims;
  const char* dtype;

  const int32_t* Int32() const { return static_cast<const int32_t*>(data); }
  int32_t* WrittenInt32() const { return static_cast<int32_t*>(data); }
  int32_t Size(int dim) const { return static_cast<int32_t>(shape[dim]); }
  int64_t RowBytes(int first_dim) const;  // bytes of one item of the dimensions before first_dim
};

class Arguments {
 public:
  Arguments(int num_params, void** params, int* ndims, int64_t** shapes, const char** dtypes);

  TensorArgument Next();
  std::vector<TensorArgument> NextPayloads();
  const avsg_config& Config() const { return config_; }
  bool ChecksValues() const { return fields_[kFieldCheckValues] != 0; }
  int32_t NumPayloads() const { return static_cast<int32_t>(fields_[kFieldNumPayloads]); }

  // MindSpore passes a copy where a view was given, and the update of a copy is lost: a registered tensor
  // must be at its registered address.
  void* Registered(const char* name, const TensorArgument& tensor, int field) const;

  // Scratch memory of this thread, as large as avsg_sizes asks.
  void* Workspace() const;

 private:
  int num_params_;
  void** params_;
  int* ndims_;
  int64_t** shapes_;
  const char** dtypes_;
  int next_ = 0;
  const int64_t* fields_;
  avsg_config config_;
};

}  // namespace sparse_gather

#endif  // AVSG_MINDSPORE_CPU_ARGUMENTS_H
