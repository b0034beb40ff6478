// SPDX-License-Identifier: Apache-2.0
// Values that the host can see, refused before a call changes anything: the rules of python/avsg/values.py.
#ifndef AVSG_MINDSPORE_CPU_VALUES_H
#define AVSG_MINDSPORE_CPU_VALUES_H

#include "avsg.h"

namespace sparse_gather {

void CheckStep(const avsg_config& config, const avsg_step& step);

// Each valid token may be a miss, so each needs its block, unless `fresh` provides its row.
void CheckStepBlocks(const avsg_config& config, const avsg_step& step, const avsg_blocks& blocks,
                     bool has_fresh);

void CheckLoad(const avsg_config& config, const avsg_plan& plan, const avsg_blocks& blocks, bool has_fresh);

void CheckStore(const avsg_blocks& blocks, const int32_t* positions, const int32_t* entries,
                int32_t num_new_rows);

}  // namespace sparse_gather

#endif  // AVSG_MINDSPORE_CPU_VALUES_H
