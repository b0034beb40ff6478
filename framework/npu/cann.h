// SPDX-License-Identifier: Apache-2.0
// CANN and the AVSG operator package, opened and resolved at run time: this library links with neither.
#ifndef AVSG_NPU_CANN_H
#define AVSG_NPU_CANN_H

#include <string>

#include "acl_api.h"

namespace sparse_gather {

struct Cann {
  AclApi acl = {};
  AvsgApi avsg = {};
};

// "" with everything resolved, or one sentence: what is missing and what to do. What it opened stays open.
std::string LoadCann(Cann* cann);

}  // namespace sparse_gather

#endif  // AVSG_NPU_CANN_H
