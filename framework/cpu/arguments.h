// SPDX-License-Identifier: Apache-2.0
// One kernel launch: its arguments in the entry's order, each with the exact memory that the kernel may
// touch.
#ifndef AVSG_CPU_ARGUMENTS_H
#define AVSG_CPU_ARGUMENTS_H

#include <cstdint>
#include <mutex>
#include <string>

#include "avsg_layout.h"
#include "launch.h"
#include "list_tensor.h"

namespace sparse_gather {

// A whole tensor; in-place tensors are added once as input and once as output.
struct Tensor {
  const char* name;
  const void* data;
  int64_t bytes;
};

// Holds the launch lock while it lives: what is registered belongs to the next launch.
class Arguments {
 public:
  Arguments();

  void Input(const Tensor& tensor) { Add(tensor, false); }
  void Output(const Tensor& tensor) { Add(tensor, true); }
  // A tensor list with one tensor per payload.
  void InputList(const Tensor* tensors, int num_tensors) { AddList(tensors, num_tensors, false); }
  void OutputList(const Tensor* tensors, int num_tensors) { AddList(tensors, num_tensors, true); }
  // An optional input that is not given.
  void Absent() { pointers_[num_pointers_++] = nullptr; }

  // "" or the broken rule's sentence.
  std::string Launch(int num_cores, avsg_cpu::Kernel kernel) {
    return avsg_cpu::Launch(num_cores, kernel, pointers_);
  }

 private:
  static constexpr int kMaxPointers = 24;  // the fused entry takes 22
  static constexpr int kMaxLists = 4;      // host_kv, fresh, device_kv, device_kv_out

  void Add(const Tensor& tensor, bool writable);
  void AddList(const Tensor* tensors, int num_tensors, bool writable);

  std::unique_lock<std::mutex> lock_;
  void* pointers_[kMaxPointers];
  int num_pointers_ = 0;
  avsg_cpu::ListTensor lists_[kMaxLists];
  int num_lists_ = 0;
};

}  // namespace sparse_gather

#endif  // AVSG_CPU_ARGUMENTS_H
