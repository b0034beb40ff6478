// SPDX-License-Identifier: Apache-2.0
// Store: writes the step's new rows to host_kv through the block table.
#ifndef AVSG_STORE_H
#define AVSG_STORE_H

#include "avsg_layout.h"
#include "row_copy.h"
#include "vector_util.h"

namespace sparse_gather {

struct StoreArgs {
  GM_ADDR positions;       // int32 [T]
  GM_ADDR entries;         // int32 [T]
  GM_ADDR block_table;     // int32 [B, max_blocks]
  GM_ADDR new_rows;        // list of [T, row_bytes]
  GM_ADDR host_kv;         // list of [num_host_blocks, block_size, row_bytes]
  GM_ADDR store_counters;  // int32 [2]
  GM_ADDR workspace;
};

class Store {
 public:
  __aicore__ inline Store(const StoreTiling& tiling, const CopyUb& copy_ub, const StoreArgs& args,
                          TBuf<TPosition::VECCALC>& ub)
      : tiling_(tiling),
        args_(args),
        window_(copy_ub, ub),
        ring_(copy_ub, ub),
        search_(ub.GetWithOffset<int32_t>(3 * kStoreSearch + kStoreSearch / 16, copy_ub.search)) {
    for (int32_t p = 0; p < tiling.num_payloads; ++p) {
      new_rows_[p] = TensorOf(args.new_rows, p);
      host_kv_[p] = TensorOf(args.host_kv, p);
    }
    Duplicate(search_, 0, 3 * kStoreSearch + kStoreSearch / 16);
  }

  __aicore__ inline void Process();

 private:
  __aicore__ inline void StoreWindow(int32_t first, int32_t count);
  __aicore__ inline bool WrittenLater(int32_t index, int32_t position, int32_t entry);

  const StoreTiling& tiling_;
  const StoreArgs& args_;
  CopyWindow window_;
  RowRing ring_;
  LocalTensor<int32_t> search_;
  GM_ADDR new_rows_[kMaxPayloads];
  GM_ADDR host_kv_[kMaxPayloads];
  int32_t stored_ = 0;
  int32_t skipped_ = 0;
};

__aicore__ inline void Store::Process() {
  const int64_t core = GetBlockIdx();
  const int64_t total = tiling_.num_new_rows;
  const int32_t end = static_cast<int32_t>((core + 1) * total / tiling_.num_cores);
  for (int32_t first = static_cast<int32_t>(core * total / tiling_.num_cores); first < end;
       first += kCopyWindow) {
    StoreWindow(first, MinOf(kCopyWindow, end - first));
  }
  ring_.Drain();
  window_.SumOverCores(args_.workspace, args_.store_counters, stored_, skipped_, tiling_.num_cores);
}

__aicore__ inline void Store::StoreWindow(int32_t first, int32_t count) {
  Sync<HardEvent::S_MTE2>();
  window_.Fetch(window_.tokens(), args_.positions, first, count);
  window_.Fetch(window_.slots(), args_.entries, first, count);
  Sync<HardEvent::MTE2_S>();
  for (int32_t i = 0; i < count; ++i) {
    const int32_t position = window_.tokens().GetValue(i);
    const int32_t entry = window_.slots().GetValue(i);
    const int32_t block = position / tiling_.block_size;
    if (position < 0 || block >= tiling_.max_blocks || entry < 0 || entry >= tiling_.num_entries) continue;
    window_.Fetch(window_.block_ids()[8 * i], args_.block_table, int64_t{entry} * tiling_.max_blocks + block,
                  1);
  }
  Sync<HardEvent::MTE2_S>();
  for (int32_t i = 0; i < count; ++i) {
    const int32_t position = window_.tokens().GetValue(i);
    const int32_t entry = window_.slots().GetValue(i);
    const bool named = position >= 0 && position < kMaxTokens && entry >= 0 && entry < tiling_.num_entries;
    const int64_t host_row = named ? window_.HostRow(8 * i, position, tiling_.block_size, tiling_.max_blocks,
                                                     tiling_.num_host_blocks)
                                   : -1;
    if (host_row < 0) {
      skipped_ += 1;
      continue;
    }
    stored_ += 1;
    if (WrittenLater(first + i, position, entry)) continue;
    for (int32_t p = 0; p < tiling_.num_payloads; ++p) {
      const int64_t row_bytes = tiling_.row_bytes[p];
      ring_.Copy(host_kv_[p] + host_row * row_bytes, new_rows_[p] + (int64_t{first} + i) * row_bytes,
                 row_bytes);
    }
  }
}

// Whether a later row of the call, perhaps on another core, goes to the same token: then that one wins.
__aicore__ inline bool Store::WrittenLater(int32_t index, int32_t position, int32_t entry) {
  const LocalTensor<int32_t> positions = search_;
  const LocalTensor<int32_t> entries = search_[kStoreSearch];
  const LocalTensor<int32_t> kept = search_[2 * kStoreSearch];
  const LocalTensor<uint8_t> same_position = search_[3 * kStoreSearch].ReinterpretCast<uint8_t>();
  const LocalTensor<uint8_t> same_entry =
      search_[3 * kStoreSearch + kStoreSearch / 32].ReinterpretCast<uint8_t>();
  // Tiles start at a multiple of kStoreSearch; what lies at or before `index` in the first one is subtracted.
  for (int32_t first = index / kStoreSearch * kStoreSearch; first < tiling_.num_new_rows;
       first += kStoreSearch) {
    const int32_t count = MinOf(kStoreSearch, tiling_.num_new_rows - first);
    const int32_t lanes = RoundUp(count, kLanes);
    Sync<HardEvent::V_MTE2>();
    window_.Fetch(positions, args_.positions, first, count);
    window_.Fetch(entries, args_.entries, first, count);
    Sync<HardEvent::MTE2_V>();
    CompareScalar(same_position, positions, position, CMPMODE::EQ, lanes);
    CompareScalar(same_entry, entries, entry, CMPMODE::EQ, lanes);
    Fence();
    AndMask(same_position, same_entry, lanes);
    Fence();
    const int32_t num_same = Compact(kept, positions, same_position, count);
    Fence();
    const int32_t num_before =
        index >= first ? Compact(kept, positions, same_position, index - first + 1) : 0;
    Fence();
    if (num_same > num_before) return true;
  }
  return false;
}

}  // namespace sparse_gather

#endif  // AVSG_STORE_H
