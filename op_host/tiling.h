// SPDX-License-Identifier: Apache-2.0
// Tiling: a pure function from shapes and platform to the structs that the kernels read, or to an error
// sentence.
#ifndef AVSG_OP_HOST_TILING_H
#define AVSG_OP_HOST_TILING_H

#include <cstdint>
#include <string>

#include "avsg_layout.h"

namespace sparse_gather {

struct Platform {
  const char* name;
  int32_t num_cores;       // vector cores
  int64_t ub_bytes;        // usable bytes of UB in a core: Select's modes 1 and 2 overwrite the last 8 KiB
  int32_t mark_min_slots;  // as many slots are marked as fast by sorting as by scalar stores; 0: never
};

// "ascend910b" (Atlas A2), "ascend910_93" (A3) or "cpu"; nullptr if unknown. The core count is the family's
// largest: the operator's tiling replaces it with what the chip reports.
const Platform* FindPlatform(const std::string& name);

struct PoolShape {
  int32_t num_rows;
  int32_t num_slots;    // S
  int32_t top_k;        // K
  int32_t num_queries;  // most queries of a step
  int32_t max_life;     // L
};

// All of these return "" or one sentence that says what was refused, what is allowed and what to do.
std::string CheckPoolShape(const PoolShape& shape, const Platform& platform);

std::string MakeMatchTiling(const PoolShape& shape, int32_t num_entries, int32_t step_queries,
                            const Platform& platform, int32_t num_cores, MatchTiling* tiling);

struct CopyShape {
  int32_t num_entries;
  int32_t step_queries;  // Q of the plan; unused by store
  int32_t block_size;
  int32_t max_blocks;
  int64_t num_host_blocks;
  int32_t num_payloads;
  const int64_t* row_bytes;  // [num_payloads]
  bool has_fresh;
};

std::string MakeLoadTiling(const PoolShape& shape, const CopyShape& copy, const Platform& platform,
                           int32_t num_cores, AvsgLoadTiling* tiling);
std::string MakeFusedTiling(const PoolShape& shape, const CopyShape& copy, const Platform& platform,
                            int32_t num_cores, AvsgTiling* tiling);
std::string MakeStoreTiling(const CopyShape& copy, int32_t num_new_rows, const Platform& platform,
                            int32_t num_cores, AvsgStoreTiling* tiling);

// The largest S that a match with this K fits on the platform, 0 if none does.
int32_t LargestNumSlots(int32_t top_k, const Platform& platform);

}  // namespace sparse_gather

#endif  // AVSG_OP_HOST_TILING_H
