// SPDX-License-Identifier: Apache-2.0
// The part of the Ascend C API (CANN 8.1, Atlas A2) that the kernels call, for a CPU. Kernels include it by
// this name; the include path decides whether they get this file or the toolkit's.
#ifndef KERNEL_OPERATOR_H
#define KERNEL_OPERATOR_H

#include "ascendc/arithmetic.h"
#include "ascendc/cast_reduce.h"
#include "ascendc/compare.h"
#include "ascendc/data_copy.h"
#include "ascendc/gather.h"
#include "ascendc/sort.h"
#include "ascendc/strided.h"
#include "ascendc/sync.h"

#endif  // KERNEL_OPERATOR_H
