// SPDX-License-Identifier: Apache-2.0
// Compiled only: every function and number of framework/npu/acl_api.h is that of CANN's own headers, where an
// enumeration stands for its integer (scripts/check_npu_headers.sh).
#include <type_traits>

#include "acl/acl.h"
#include "acl_api.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/op_errno.h"

namespace {

template <typename Theirs, typename Ours>
constexpr bool SameParameter() {
  if constexpr (std::is_enum_v<Theirs>)
    return std::is_same_v<Ours, int32_t> && sizeof(Theirs) == sizeof(Ours);
  if constexpr (std::is_pointer_v<Theirs>) return std::is_same_v<Theirs, Ours>;
  return std::is_integral_v<Theirs> && std::is_integral_v<Ours> && sizeof(Theirs) == sizeof(Ours) &&
         std::is_signed_v<Theirs> == std::is_signed_v<Ours>;
}

template <typename TheirResult, typename... Theirs, typename OurResult, typename... Ours>
constexpr bool Same(TheirResult (*)(Theirs...), OurResult (*)(Ours...)) {
  if constexpr (sizeof...(Theirs) != sizeof...(Ours)) return false;
  return SameParameter<TheirResult, OurResult>() && (SameParameter<Theirs, Ours>() && ...);
}

constexpr sparse_gather::AclApi kOurs = {};
#define SAME(theirs, ours) static_assert(Same(decltype(&theirs){nullptr}, kOurs.ours), #theirs)
SAME(aclCreateTensor, create_tensor);
SAME(aclCreateTensorList, create_tensor_list);
SAME(aclDestroyTensor, destroy_tensor);
SAME(aclDestroyTensorList, destroy_tensor_list);
SAME(aclSetAclOpExecutorRepeatable, set_repeatable);
SAME(aclDestroyAclOpExecutor, destroy_executor);
SAME(aclrtGetDevice, get_device);
SAME(aclrtHostRegister, host_register);
SAME(aclrtHostUnregister, host_unregister);
SAME(aclrtMallocHost, malloc_host);
SAME(aclrtFreeHost, free_host);
SAME(aclrtGetSocName, soc_name);
SAME(aclGetDeviceCapability, device_capability);
SAME(aclGetRecentErrMsg, recent_error);

static_assert(sparse_gather::kAclInt32 == ACL_INT32);
static_assert(sparse_gather::kAclUint8 == ACL_UINT8);
static_assert(sparse_gather::kAclFormatNd == ACL_FORMAT_ND);
static_assert(sparse_gather::kAclVectorCores == ACL_DEVICE_INFO_VECTOR_CORE_NUM);
static_assert(sparse_gather::kAclHostRegisterMapped == ACL_HOST_REGISTER_MAPPED);

// The codes of acl_error.cpp.
static_assert(ACL_ERROR_UNINITIALIZE == 100001 && ACL_ERROR_BAD_ALLOC == 200000);
static_assert(ACL_ERROR_RT_CONTEXT_NULL == 107002 && ACL_ERROR_RT_STREAM_CONTEXT == 107003);
static_assert(ACL_ERROR_RT_MEMORY_ALLOCATION == 207001 && ACL_ERROR_RT_NO_DEVICE == 207004);
static_assert(ACL_ERROR_RT_DEVICE_OOM == 207018);
static_assert(ACLNN_ERR_PARAM_NULLPTR == 161001 && ACLNN_ERR_PARAM_INVALID == 161002);
static_assert(ACLNN_ERR_INNER_INFERSHAPE_ERROR == 561001 && ACLNN_ERR_INNER_TILING_ERROR == 561002);
static_assert(ACLNN_ERR_INNER_FIND_KERNEL_ERROR == 561003 && ACLNN_ERR_INNER_NULLPTR == 561103);
static_assert(ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND == 561107);
static_assert(ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND == 561112);

}  // namespace
