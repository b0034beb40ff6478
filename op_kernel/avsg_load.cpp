// SPDX-License-Identifier: Apache-2.0
// Entry of Load alone: one layer's copies of a plan.
#include "avsg_load.h"

extern "C" __global__ __aicore__ void avsg_load(GM_ADDR miss_tokens, GM_ADDR miss_slots, GM_ADDR num_misses,
                                                GM_ADDR plan_rows, GM_ADDR plan_verified_lens,
                                                GM_ADDR block_table, GM_ADDR host_kv, GM_ADDR fresh,
                                                GM_ADDR /*device_kv*/, GM_ADDR /*state*/,
                                                GM_ADDR device_kv_out, GM_ADDR state_out,
                                                GM_ADDR load_counters, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(sparse_gather::AvsgLoadTiling);
  GET_TILING_DATA(tiling_data, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const sparse_gather::LoadArgs args = {miss_tokens,        miss_slots,  num_misses,    plan_rows,
                                        plan_verified_lens, block_table, host_kv,       fresh,
                                        device_kv_out,      state_out,   load_counters, workspace};
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, tiling_data.copy.total);
  sparse_gather::Load load(tiling_data.load, tiling_data.copy, args, ub);
  load.Begin();
  load.Finish();
}
