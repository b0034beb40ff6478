// SPDX-License-Identifier: Apache-2.0
// The checks of tensors: dtype, shape, contiguity, device, alignment; never values.
#include "arguments.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>

#include "host_memory.h"

namespace sparse_gather {
namespace {

constexpr uintptr_t kInt32Alignment = 4;

std::string Text(Shape shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::string DtypeText(at::ScalarType dtype) {
  if (dtype == at::kByte) return "uint8";
  if (dtype == at::kChar || dtype == at::kShort || dtype == at::kInt || dtype == at::kLong)
    return "int" + std::to_string(8 * at::elementSize(dtype));
  std::string text = at::toString(dtype);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void CheckDtype(const Argument& argument, at::ScalarType dtype) {
  const at::ScalarType got = argument.tensor.scalar_type();
  TORCH_CHECK_TYPE(got == dtype, argument.Name(), ".dtype is ", DtypeText(got), ", but ", DtypeText(dtype),
                   " is allowed: create it as ", DtypeText(dtype), ", the pool never converts.");
}

void CheckAlignment(const Argument& argument, const void* data, uintptr_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address % alignment == 0) return;
  RefuseValue("the address of " + argument.Name(), std::to_string(address),
              "a multiple of " + std::to_string(alignment), "align the tensor");
}

}  // namespace

void RefuseValue(const std::string& what, const std::string& got, const std::string& allowed,
                 const std::string& remedy) {
  TORCH_CHECK_VALUE(false, what, " is ", got, ", but ", allowed, " is allowed: ", remedy, ".");
}

std::string Argument::Name() const {
  return index < 0 ? field : std::string(field) + "[" + std::to_string(index) + "]";
}

int64_t Argument::Size(int64_t dim) const {
  // Shapes are static: torch.compile makes another graph for another size.
  return tensor.sym_size(dim).guard_int(__FILE__, __LINE__);
}

int32_t Argument::Size32(int64_t dim) const {
  const int64_t size = Size(dim);
  if (size <= INT32_MAX) return static_cast<int32_t>(size);
  RefuseValue(Name() + ".shape", ShapeText(), "at most 2^31 - 1 in a dimension", "pass smaller tensors");
}

std::string Argument::ShapeText() const {
  std::string text;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    text += (text.empty() ? "" : ", ") + std::to_string(Size(dim));
  return "[" + text + "]";
}

int64_t Argument::RowBytes(int64_t num_dims) const {
  auto bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t dim = num_dims; dim < tensor.dim(); ++dim) bytes *= Size(dim);
  return bytes;
}

Arguments::Arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                     c10::DeviceType device_type)
    : schema_(op.schema()),
      values_(stack.data() + stack.size() - schema_.arguments().size()),
      device_(device_type) {}

const char* Arguments::Field(size_t i) const { return schema_.arguments()[i].name().c_str(); }

Argument Arguments::Next() {
  const size_t i = next_++;
  return Argument{Field(i), -1, values_[i].toTensor()};
}

c10::List<at::Tensor> Arguments::NextList() { return values_[next_++].toTensorList(); }

int32_t Arguments::LastInt(int num_last, int i) const {
  const size_t at = schema_.arguments().size() - static_cast<size_t>(num_last - i);
  const int64_t value = values_[at].toInt();
  if (value >= 1 && value <= INT32_MAX) return static_cast<int32_t>(value);
  RefuseValue(Field(at), std::to_string(value), "1 to 2^31 - 1", "pass the number of the PoolConfig");
}

int32_t* Arguments::Int32(const Argument& argument, Shape shape, const char* words) {
  CheckDtype(argument, at::kInt);
  bool equal = argument.tensor.dim() == static_cast<int64_t>(shape.size());
  for (size_t dim = 0; equal && dim < shape.size(); ++dim)
    equal = argument.Size(static_cast<int64_t>(dim)) == shape.begin()[dim];
  if (!equal) {
    RefuseValue(argument.Name() + ".shape", argument.ShapeText(), std::string(words) + " = " + Text(shape),
                "pass that shape");
  }
  return Int32Memory(argument);
}

int32_t* Arguments::Int32Memory(const Argument& argument) {
  CheckDtype(argument, at::kInt);
  void* data = Memory(argument);
  CheckAlignment(argument, data, kInt32Alignment);
  return static_cast<int32_t*>(data);
}

void* Arguments::Bytes(const Argument& argument, int64_t alignment) {
  CheckDtype(argument, at::kByte);
  void* data = Memory(argument);
  CheckAlignment(argument, data, static_cast<uintptr_t>(alignment));
  return data;
}

void* Arguments::Memory(const Argument& argument) {
  CheckDevice(argument);
  CheckContiguous(argument);
  return HasAddresses() ? argument.tensor.data_ptr() : nullptr;
}

void* Arguments::HostMemory(const Argument& argument) {
  if (!argument.tensor.is_cpu() || device_.is_cpu()) return Memory(argument);
  CheckContiguous(argument);
  if (!HasAddresses()) return nullptr;
  void* alias = DeviceAlias(argument.tensor.data_ptr(), argument.RowBytes(0));
  if (alias != nullptr) return alias;
  RefuseValue(argument.Name(), "CPU memory without a device address",
              "only host memory that the device can address",
              "create it with avsg.torch_ops.host_zeros or name its address with register_host");
}

void Arguments::CheckContiguous(const Argument& argument) const {
  if (argument.tensor.is_contiguous()) return;
  RefuseValue(argument.Name() + " (shape " + argument.ShapeText() + ")", "not contiguous",
              "only a contiguous tensor", "make it contiguous where it is created, the pool never copies");
}

void Arguments::CheckDevice(const Argument& argument) {
  const c10::Device device = argument.tensor.device();
  if (device.type() == device_.type() && !device_.has_index() && !device.is_cpu()) device_ = device;
  if (device == device_ || (device.is_cpu() && device_.is_cpu())) return;
  RefuseValue(argument.Name() + ".device", device.str(), device_.str(),
              "keep all tensors of a call on one device");
}

}  // namespace sparse_gather
