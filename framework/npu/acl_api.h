// SPDX-License-Identifier: Apache-2.0
// The part of ACL and aclnn that this library calls, resolved at run time. The prototypes and numbers are
// those of CANN's headers (scripts/check_npu_headers.sh compares them), repeated here so that the library
// builds without a toolkit. Enumerations are passed as int32_t, which has their representation.
#ifndef AVSG_NPU_ACL_API_H
#define AVSG_NPU_ACL_API_H

#include <cstddef>
#include <cstdint>

extern "C" {
struct aclTensor;
struct aclTensorList;
struct aclOpExecutor;
}

namespace sparse_gather {

constexpr int32_t kAclInt32 = 3;               // ACL_INT32
constexpr int32_t kAclUint8 = 4;               // ACL_UINT8
constexpr int32_t kAclFormatNd = 2;            // ACL_FORMAT_ND
constexpr int32_t kAclVectorCores = 1;         // ACL_DEVICE_INFO_VECTOR_CORE_NUM
constexpr int32_t kAclHostRegisterMapped = 0;  // ACL_HOST_REGISTER_MAPPED

struct AclApi {
  aclTensor* (*create_tensor)(const int64_t* view_dims, uint64_t num_view_dims, int32_t data_type,
                              const int64_t* strides, int64_t offset, int32_t format,
                              const int64_t* storage_dims, uint64_t num_storage_dims, void* data);
  aclTensorList* (*create_tensor_list)(const aclTensor* const* tensors, uint64_t num_tensors);
  int32_t (*destroy_tensor)(const aclTensor* tensor);
  int32_t (*destroy_tensor_list)(const aclTensorList* list);  // with its tensors
  int32_t (*set_repeatable)(aclOpExecutor* executor);
  int32_t (*destroy_executor)(aclOpExecutor* executor);  // of a repeatable one; others end with their launch
  int32_t (*get_device)(int32_t* device);
  int32_t (*host_register)(void* host, uint64_t bytes, int32_t type, void** device_alias);
  int32_t (*host_unregister)(void* host);
  int32_t (*malloc_host)(void** host, size_t bytes);
  int32_t (*free_host)(void* host);
  const char* (*soc_name)();
  int32_t (*device_capability)(uint32_t device, int32_t what, int64_t* value);
  const char* (*recent_error)();
};

// What CANN generates from op_host/*_op.cpp, in the order of its inputs, attributes and outputs. A `Ref` is
// read and written. Shapes: avsg.h; rows of KV are bytes. `fresh` is never NULL: host_kv again without it.
struct AvsgApi {
  int32_t (*match_size)(const aclTensor* topk_tokens, const aclTensor* verified_lens,
                        const aclTensor* seq_lens, const aclTensor* leases, const aclTensor* rows,
                        aclTensor* state_ref, int64_t num_slots, int64_t num_queries, int64_t max_life,
                        const aclTensor* slots, const aclTensor* miss_tokens, const aclTensor* miss_slots,
                        const aclTensor* num_misses, const aclTensor* counters, const aclTensor* plan_rows,
                        const aclTensor* plan_verified_lens, uint64_t* workspace_bytes,
                        aclOpExecutor** executor);
  int32_t (*load_size)(const aclTensor* miss_tokens, const aclTensor* miss_slots, const aclTensor* num_misses,
                       const aclTensor* plan_rows, const aclTensor* plan_verified_lens,
                       const aclTensor* block_table, const aclTensorList* host_kv, const aclTensorList* fresh,
                       aclTensorList* device_kv_ref, aclTensor* state_ref, int64_t num_slots, int64_t top_k,
                       int64_t num_queries, int64_t max_life, bool has_fresh, const aclTensor* load_counters,
                       uint64_t* workspace_bytes, aclOpExecutor** executor);
  int32_t (*store_size)(const aclTensor* positions, const aclTensor* entries, const aclTensor* block_table,
                        const aclTensorList* new_rows, aclTensorList* host_kv_ref,
                        const aclTensor* store_counters, uint64_t* workspace_bytes, aclOpExecutor** executor);
  int32_t (*fused_size)(const aclTensor* topk_tokens, const aclTensor* verified_lens,
                        const aclTensor* seq_lens, const aclTensor* leases, const aclTensor* rows,
                        const aclTensor* block_table, const aclTensorList* host_kv,
                        const aclTensorList* fresh, aclTensorList* device_kv_ref, aclTensor* state_ref,
                        int64_t num_slots, int64_t num_queries, int64_t max_life, bool has_fresh,
                        const aclTensor* slots, const aclTensor* miss_tokens, const aclTensor* miss_slots,
                        const aclTensor* num_misses, const aclTensor* counters, const aclTensor* plan_rows,
                        const aclTensor* plan_verified_lens, const aclTensor* load_counters,
                        uint64_t* workspace_bytes, aclOpExecutor** executor);
  using Launch = int32_t (*)(void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                             void* stream);
  Launch match;
  Launch load;
  Launch store;
  Launch fused;
};

}  // namespace sparse_gather

#endif  // AVSG_NPU_ACL_API_H
