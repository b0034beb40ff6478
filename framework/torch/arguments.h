// SPDX-License-Identifier: Apache-2.0
// The arguments of one call of an operator, in the order of its schema, refused in sentences before anything
// is written.
#ifndef AVSG_TORCH_ARGUMENTS_H
#define AVSG_TORCH_ARGUMENTS_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace sparse_gather {

// "WHAT is GOT, but ALLOWED is allowed: REMEDY."
[[noreturn]] void RefuseValue(const std::string& what, const std::string& got, const std::string& allowed,
                              const std::string& remedy);

// A tensor and what a sentence calls it: "state", or "host_kv[1]" for one of a list.
struct Argument {
  std::string Name() const;
  int64_t Size(int64_t dim) const;
  int32_t Size32(int64_t dim) const;
  std::string ShapeText() const;
  // Bytes of one item of the first `num_dims` dimensions.
  int64_t RowBytes(int64_t num_dims) const;

  const char* field;
  int index;  // -1: no list
  at::Tensor tensor;
};

using Shape = std::initializer_list<int64_t>;

class Arguments {
 public:
  // device_type: of the dispatch key; Meta has no addresses, and all pointers are null then.
  Arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack, c10::DeviceType device_type);

  // The next tensor or list; its checks follow below.
  Argument Next();
  c10::List<at::Tensor> NextList();
  const char* ListName() const { return Field(next_ - 1); }

  // The num_last ints end the schema; i counts from the first of them.
  int32_t LastInt(int num_last, int i) const;

  // Contiguous int32 or uint8 of exactly this shape on the call's device; `words` names the dimensions.
  int32_t* Int32(const Argument& argument, Shape shape, const char* words);
  int32_t* NextInt32(Shape shape, const char* words) { return Int32(Next(), shape, words); }
  void* Bytes(const Argument& argument, int64_t alignment);

  // Contiguous int32 on the call's device, of any shape.
  int32_t* Int32Memory(const Argument& argument);
  // Contiguous, of any dtype, on the call's device.
  void* Memory(const Argument& argument);
  // The same, or host memory with a device address.
  void* HostMemory(const Argument& argument);

  c10::Device device() const { return device_; }

 private:
  const char* Field(size_t i) const;
  void CheckContiguous(const Argument& argument) const;
  void CheckDevice(const Argument& argument);
  bool HasAddresses() const { return device_.type() != c10::DeviceType::Meta; }

  const c10::FunctionSchema& schema_;
  const c10::IValue* values_;  // of the schema's arguments
  size_t next_ = 0;
  c10::Device device_;  // its index comes from the first tensor
};

}  // namespace sparse_gather

#endif  // AVSG_TORCH_ARGUMENTS_H
