// SPDX-License-Identifier: Apache-2.0
// The fused entry: match, a barrier over all cores, then LINK of the last query and the write-back of the
// state run beside the copies.
#include "avsg_load.h"
#include "avsg_match.h"

extern "C" __global__ __aicore__ void avsg(GM_ADDR topk_tokens, GM_ADDR verified_lens, GM_ADDR seq_lens,
                                           GM_ADDR leases, GM_ADDR rows, GM_ADDR block_table, GM_ADDR host_kv,
                                           GM_ADDR fresh, GM_ADDR /*device_kv*/, GM_ADDR /*state*/,
                                           GM_ADDR device_kv_out, GM_ADDR state_out, GM_ADDR slots,
                                           GM_ADDR miss_tokens, GM_ADDR miss_slots, GM_ADDR num_misses,
                                           GM_ADDR counters, GM_ADDR plan_rows, GM_ADDR plan_verified_lens,
                                           GM_ADDR load_counters, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(sparse_gather::AvsgTiling);
  GET_TILING_DATA(tiling_data, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const sparse_gather::MatchArgs match_args = {
      topk_tokens, verified_lens, seq_lens,   leases,   rows,      state_out,         slots,
      miss_tokens, miss_slots,    num_misses, counters, plan_rows, plan_verified_lens};
  const sparse_gather::LoadArgs load_args = {miss_tokens,        miss_slots,  num_misses,    plan_rows,
                                             plan_verified_lens, block_table, host_kv,       fresh,
                                             device_kv_out,      state_out,   load_counters, workspace};
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, tiling_data.copy.total);
  sparse_gather::Match match(tiling_data.match, match_args, ub);
  sparse_gather::Load load(tiling_data.load, tiling_data.copy, load_args, ub);
  match.Process(true);
  AscendC::SyncAll();
  load.Begin();
  load.Advance();
  match.Finish(load);
  load.Finish();
}
