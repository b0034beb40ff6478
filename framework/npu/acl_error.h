// SPDX-License-Identifier: Apache-2.0
// A code of ACL or aclnn as a code of avsg.h and one sentence.
#ifndef AVSG_NPU_ACL_ERROR_H
#define AVSG_NPU_ACL_ERROR_H

#include <cstdint>

#include "acl_api.h"

namespace sparse_gather {

// Records "<function> failed with <code> (<CANN's own words>); <what to do>." and returns the code of avsg.h.
int FailAcl(const AclApi& acl, const char* function, int32_t code);

}  // namespace sparse_gather

#endif  // AVSG_NPU_ACL_ERROR_H
