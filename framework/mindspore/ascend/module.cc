// SPDX-License-Identifier: Apache-2.0
// The Python module of the Ascend glue; graph mode finds its operators by their registration.
#include "aclnn_ops.h"

PYBIND11_MODULE(MS_EXTENSION_NAME, m) {
  sparse_gather::RegisterMatch(&m);
  sparse_gather::RegisterLoad(&m);
  sparse_gather::RegisterStore(&m);
}
