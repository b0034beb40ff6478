// SPDX-License-Identifier: Apache-2.0
// Entry of Store: one layer's new rows go to the host.
#include "avsg_store.h"

extern "C" __global__ __aicore__ void avsg_store(GM_ADDR positions, GM_ADDR entries, GM_ADDR block_table,
                                                 GM_ADDR new_rows, GM_ADDR /*host_kv*/, GM_ADDR host_kv_out,
                                                 GM_ADDR store_counters, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(sparse_gather::AvsgStoreTiling);
  GET_TILING_DATA(tiling_data, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const sparse_gather::StoreArgs args = {positions,   entries,        block_table, new_rows,
                                         host_kv_out, store_counters, workspace};
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, tiling_data.copy.total);
  sparse_gather::Store store(tiling_data.store, tiling_data.copy, args, ub);
  store.Process();
}
