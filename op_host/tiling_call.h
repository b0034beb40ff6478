// SPDX-License-Identifier: Apache-2.0
// Tiling of a call as CANN describes it: shapes, bytes of an element and attributes, in the order of the
// operator's definition.
#ifndef AVSG_OP_HOST_TILING_CALL_H
#define AVSG_OP_HOST_TILING_CALL_H

#include <cstdint>
#include <string>
#include <vector>

#include "tiling.h"

namespace sparse_gather {

using Dims = std::vector<int64_t>;

struct TensorInfo {
  Dims dims;
  int64_t item_bytes;
};

// inputs: one list an input of the definition; a tensor that is no list is a list of one.
struct OpCall {
  std::vector<std::vector<TensorInfo>> inputs;
  std::vector<int64_t> attrs;
};

// Inputs and attributes of the definitions in *_op.cpp, in their order.
struct MatchCall {
  enum Input { kTopkTokens, kVerifiedLens, kSeqLens, kLeases, kRows, kState, kNumInputs };
  enum Attr { kNumSlots, kNumQueries, kMaxLife, kNumAttrs };
};
struct LoadCall {
  enum Input {
    kMissTokens,
    kMissSlots,
    kNumMisses,
    kPlanRows,
    kPlanVerifiedLens,
    kBlockTable,
    kHostKv,
    kFresh,
    kDeviceKv,
    kState,
    kNumInputs
  };
  enum Attr { kNumSlots, kTopK, kNumQueries, kMaxLife, kHasFresh, kNumAttrs };
};
struct StoreCall {
  enum Input { kPositions, kEntries, kBlockTable, kNewRows, kHostKv, kNumInputs };
  enum Attr { kNumAttrs };
};
struct FusedCall {
  enum Input {
    kTopkTokens,
    kVerifiedLens,
    kSeqLens,
    kLeases,
    kRows,
    kBlockTable,
    kHostKv,
    kFresh,
    kDeviceKv,
    kState,
    kNumInputs
  };
  enum Attr { kNumSlots, kNumQueries, kMaxLife, kHasFresh, kNumAttrs };
};

// All of these return "" or one sentence that says what was refused, what is allowed and what to do. The call
// holds kNumInputs lists and kNumAttrs attributes.
std::string TileMatchCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                          AvsgMatchTiling* tiling);
std::string TileLoadCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                         AvsgLoadTiling* tiling);
std::string TileStoreCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                          AvsgStoreTiling* tiling);
std::string TileFusedCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                          AvsgTiling* tiling);

// The family's platform with the UB that a chip reports; a sentence if there is too little of it.
std::string FitPlatform(int64_t reported_ub_bytes, Platform* platform);

// Shapes of a plan's seven tensors for topk_tokens [B, Q, K]. A graph may not know a dimension (-1) or the
// rank.
std::vector<Dims> PlanDims(const Dims& topk_tokens);

}  // namespace sparse_gather

#endif  // AVSG_OP_HOST_TILING_CALL_H
