// SPDX-License-Identifier: Apache-2.0
// CANN 8.1 declares ListTensorDesc in a header of this name.
#include "kernel_operator.h"
