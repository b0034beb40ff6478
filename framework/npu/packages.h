// SPDX-License-Identifier: Apache-2.0
// Where CANN looks for operator packages, in its order.
#ifndef AVSG_NPU_PACKAGES_H
#define AVSG_NPU_PACKAGES_H

#include <string>
#include <vector>

namespace sparse_gather {

// Absolute path of each libcust_opapi.so there may be: the vendor directories of ASCEND_CUSTOM_OPP_PATH in
// their order, then those of ASCEND_OPP_PATH/vendors by load_priority of config.ini. None needs to exist.
std::vector<std::string> PackageLibraries();

// The value of an environment variable, "" if it is not set.
std::string Environment(const char* name);

// The fields between separators, without white space around them and without empty ones.
std::vector<std::string> Fields(const std::string& text, char separator);

}  // namespace sparse_gather

#endif  // AVSG_NPU_PACKAGES_H
