// SPDX-License-Identifier: Apache-2.0
// The aclTensor descriptors of one call: contiguous ND views of the caller's memory, gone when the call has
// been launched.
#ifndef AVSG_NPU_DESCRIPTORS_H
#define AVSG_NPU_DESCRIPTORS_H

#include <cstdint>
#include <initializer_list>

#include "acl_api.h"
#include "avsg_layout.h"

namespace sparse_gather {

class Descriptors {
 public:
  explicit Descriptors(const AclApi& acl) : acl_(acl) {}
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  aclTensor* Int32(const void* data, std::initializer_list<int64_t> shape) {
    return Keep(Create(data, shape, kAclInt32));
  }
  aclTensor* Bytes(const void* data, std::initializer_list<int64_t> shape) {
    return Keep(Create(data, shape, kAclUint8));
  }
  // One tensor [first, second, row_bytes[i]] of bytes for each payload.
  aclTensorList* Rows(const void* const* data, int num_payloads, int64_t first, int64_t second,
                      const int64_t* row_bytes);

  // CANN made all of them.
  bool Complete() const { return complete_; }

 private:
  static constexpr int kMaxTensors = 20;  // the fused operator takes 15, and a list each for 3 lists of rows
  static constexpr int kMaxLists = 3;

  aclTensor* Create(const void* data, std::initializer_list<int64_t> shape, int32_t data_type);
  aclTensor* Keep(aclTensor* tensor);

  const AclApi& acl_;
  aclTensor* tensors_[kMaxTensors];
  aclTensorList* lists_[kMaxLists];
  int num_tensors_ = 0;
  int num_lists_ = 0;
  bool complete_ = true;
};

}  // namespace sparse_gather

#endif  // AVSG_NPU_DESCRIPTORS_H
