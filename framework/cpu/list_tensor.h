// SPDX-License-Identifier: Apache-2.0
// Builds the memory that ListTensorDesc reads: pointers to the tensors of one dynamic input.
#ifndef AVSG_CPU_LIST_TENSOR_H
#define AVSG_CPU_LIST_TENSOR_H

#include <cstdint>

namespace avsg_cpu {

constexpr int kMaxListTensors = 8;

// Word 0: bytes from the start to the pointers. Then per tensor (index << 32 | 1 dimension) and its length.
// Then the pointers.
struct ListTensor {
  uint64_t words[1 + 3 * kMaxListTensors];
};

// num_tensors 1..kMaxListTensors, lengths in elements. Returns the bytes used.
inline uint64_t BuildListTensor(void* const* tensors, const uint64_t* lengths, int num_tensors,
                                ListTensor* list) {
  uint64_t* words = list->words;
  words[0] = 8 * (1 + 2 * static_cast<uint64_t>(num_tensors));
  for (int i = 0; i < num_tensors; ++i) {
    words[1 + 2 * i] = static_cast<uint64_t>(i) << 32 | 1;
    words[2 + 2 * i] = lengths[i];
    words[1 + 2 * num_tensors + i] = reinterpret_cast<uint64_t>(tensors[i]);
  }
  return words[0] + 8 * static_cast<uint64_t>(num_tensors);
}

}  // namespace avsg_cpu

#endif  // AVSG_CPU_LIST_TENSOR_H
