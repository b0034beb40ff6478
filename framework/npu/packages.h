// SPDX-License-Identifier: Apache-2.0
// Where CANN looks for operator packages, in its order.
#ifndef AVSG_NPU_PACKAGES_H
#define AVSG_NPU_PACKAGES_H

#include <string>
#include <vector>

namespace sparse_gather {

// Path of each libcust_opapi.so there may be: in the vendor directories of ASCEND_CUSTOM_OPP_PATH in their
// order and in those of ASCEND_OPP_PATH/vendors by load_priority of config.ini, whether it exists or not,
// then those in LD_LIBRARY_PATH. By the name alone another vendor's would be found: all of them have the
// same.
std::vector<std::string> PackageLibraries();

// The value of an environment variable, "" if it is not set.
std::string Environment(const char* name);

// The fields between separators, without white space around them and without empty ones.
std::vector<std::string> Fields(const std::string& text, char separator);

}  // namespace sparse_gather

#endif  // AVSG_NPU_PACKAGES_H
