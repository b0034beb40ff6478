// SPDX-License-Identifier: Apache-2.0
// What the entry points of the C ABI do on the CPU; each returns the code that the ABI returns.
#ifndef AVSG_CPU_CALLS_H
#define AVSG_CPU_CALLS_H

#include "avsg.h"
#include "check.h"
#include "tiling.h"

namespace sparse_gather {

const Platform& Cpu();

int Sizes(const avsg_config* config, avsg_size_report* report);
int Match(const Call& call);
int Load(const Call& call);
int StepFused(const Call& call);
int Store(const Call& call);

}  // namespace sparse_gather

#endif  // AVSG_CPU_CALLS_H
