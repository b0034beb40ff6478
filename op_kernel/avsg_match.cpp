// SPDX-License-Identifier: Apache-2.0
// Entry of Match alone: resolves the top-k of every entry to slots and writes the plan.
#include "avsg_match.h"

extern "C" __global__ __aicore__ void avsg_match(GM_ADDR topk_tokens, GM_ADDR verified_lens, GM_ADDR seq_lens,
                                                 GM_ADDR leases, GM_ADDR rows, GM_ADDR /*state*/,
                                                 GM_ADDR state_out, GM_ADDR slots, GM_ADDR miss_tokens,
                                                 GM_ADDR miss_slots, GM_ADDR num_misses, GM_ADDR counters,
                                                 GM_ADDR plan_rows, GM_ADDR plan_verified_lens,
                                                 GM_ADDR /*workspace*/, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(sparse_gather::AvsgMatchTiling);
  GET_TILING_DATA(tiling_data, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const sparse_gather::MatchArgs args = {
      topk_tokens, verified_lens, seq_lens,   leases,   rows,      state_out,         slots,
      miss_tokens, miss_slots,    num_misses, counters, plan_rows, plan_verified_lens};
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, tiling_data.match.ub.total);
  sparse_gather::Match match(tiling_data.match, args, ub);
  match.Process(false);
}
