// SPDX-License-Identifier: Apache-2.0
// Makes and destroys descriptors.
#include "descriptors.h"

namespace sparse_gather {

Descriptors::~Descriptors() {
  for (int i = 0; i < num_tensors_; ++i) acl_.destroy_tensor(tensors_[i]);
  for (int i = 0; i < num_lists_; ++i) acl_.destroy_tensor_list(lists_[i]);
}

aclTensorList* Descriptors::Rows(const void* const* data, int num_payloads, int64_t first, int64_t second,
                                 const int64_t* row_bytes) {
  const aclTensor* tensors[kMaxPayloads] = {};
  for (int i = 0; i < num_payloads; ++i)
    tensors[i] = Create(data[i], {first, second, row_bytes[i]}, kAclUint8);
  aclTensorList* list =
      complete_ ? acl_.create_tensor_list(tensors, static_cast<uint64_t>(num_payloads)) : nullptr;
  if (list != nullptr) return lists_[num_lists_++] = list;
  complete_ = false;
  for (int i = 0; i < num_payloads; ++i) {
    if (tensors[i] != nullptr) acl_.destroy_tensor(tensors[i]);
  }
  return nullptr;
}

aclTensor* Descriptors::Create(const void* data, std::initializer_list<int64_t> shape, int32_t data_type) {
  int64_t strides[3] = {1, 1, 1};
  const size_t rank = shape.size();
  for (size_t i = rank - 1; i > 0; --i) strides[i - 1] = strides[i] * shape.begin()[i];
  aclTensor* tensor = acl_.create_tensor(shape.begin(), rank, data_type, strides, 0, kAclFormatNd,
                                         shape.begin(), rank, const_cast<void*>(data));
  complete_ = complete_ && tensor != nullptr;
  return tensor;
}

aclTensor* Descriptors::Keep(aclTensor* tensor) {
  if (tensor != nullptr) tensors_[num_tensors_++] = tensor;
  return tensor;
}

}  // namespace sparse_gather
