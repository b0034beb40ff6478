// SPDX-License-Identifier: Apache-2.0
// libnnopbase.so of the fake CANN: descriptors, counted while they live.
#include "fake_cann.h"

extern "C" {

aclTensor* aclCreateTensor(const int64_t* view, uint64_t rank, int32_t data_type, const int64_t* strides,
                           int64_t offset, int32_t format, const int64_t* storage, uint64_t storage_rank,
                           void* data) {
  if (FakePlanned("aclCreateTensor") != 0 || offset != 0 || format != 2 || storage_rank != rank)
    return nullptr;
  int64_t contiguous = 1;
  for (uint64_t i = rank; i-- > 0; contiguous *= view[i]) {
    if (strides[i] != contiguous || storage[i] != view[i]) return nullptr;
  }
  FakeCount(1);
  return new aclTensor{{view, view + rank}, data_type, reinterpret_cast<uintptr_t>(data)};
}

aclTensorList* aclCreateTensorList(const aclTensor* const* tensors, uint64_t count) {
  if (FakePlanned("aclCreateTensorList") != 0 || count == 0) return nullptr;
  FakeCount(1);
  return new aclTensorList{{tensors, tensors + count}};
}

int32_t aclDestroyTensor(const aclTensor* tensor) {
  FakeCount(-1);
  delete tensor;
  return 0;
}

int32_t aclDestroyTensorList(const aclTensorList* list) {
  for (const aclTensor* tensor : list->tensors) aclDestroyTensor(tensor);
  FakeCount(-1);
  delete list;
  return 0;
}

int32_t aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  executor->repeatable = true;
  return 0;
}

int32_t aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (!executor->repeatable) return FakeError(561000, "the executor belongs to its launch");
  FakeCount(-1);
  delete executor;
  return 0;
}

}  // extern "C"
