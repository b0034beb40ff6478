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
        search_(ub.GetWithOffset<int32_t>(kStoreSearchBytes / 4, copy_ub.search)) {
    for (int32_t p = 0; p < tiling.num_payloads; ++p) {
      new_rows_[p] = TensorOf(args.new_rows, p);
      host_kv_[p] = TensorOf(args.host_kv, p);
    }
    Duplicate(search_, 0, kStoreSearchBytes / 4);
  }

  __aicore__ inline void Process();

 private:
  __aicore__ inline LocalTensor<uint8_t> Mask(int32_t index) const {
    return search_[3 * kStoreSearch + index * kStoreSearch / 32].ReinterpretCast<uint8_t>();
  }
  __aicore__ inline void StoreWindow(int32_t first, int32_t count);
  __aicore__ inline bool Rises();
  __aicore__ inline bool WrittenLater(int32_t index, int32_t position, int32_t entry);

  const StoreTiling& tiling_;
  const StoreArgs& args_;
  CopyWindow window_;
  RowRing ring_;
  LocalTensor<int32_t> search_;
  GM_ADDR new_rows_[kMaxPayloads];
  GM_ADDR host_kv_[kMaxPayloads];
  bool rises_ = false;
  int32_t stored_ = 0;
  int32_t skipped_ = 0;
};

__aicore__ inline void Store::Process() {
  const int64_t core = GetBlockIdx();
  const int64_t total = tiling_.num_new_rows;
  const int32_t end = static_cast<int32_t>((core + 1) * total / tiling_.num_cores);
  rises_ = Rises();
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
    if (!rises_ && WrittenLater(first + i, position, entry)) continue;
    for (int32_t p = 0; p < tiling_.num_payloads; ++p) {
      const int64_t row_bytes = tiling_.row_bytes[p];
      ring_.Copy(host_kv_[p] + host_row * row_bytes, new_rows_[p] + (int64_t{first} + i) * row_bytes,
                 row_bytes);
    }
  }
}

// Whether (entry, position) rises from row to row, as it does when a whole prompt is stored: then no token is
// written twice, and nothing needs to be searched for.
__aicore__ inline bool Store::Rises() {
  constexpr int32_t kTile = kStoreSearch / 2;
  const LocalTensor<int32_t> position = search_;
  const LocalTensor<int32_t> next_position = search_[kTile];
  const LocalTensor<int32_t> entry = search_[2 * kTile];
  const LocalTensor<int32_t> next_entry = search_[3 * kTile];
  const LocalTensor<int32_t> larger = search_[4 * kTile];
  const LocalTensor<int32_t> kept = search_[5 * kTile];
  const LocalTensor<uint8_t> position_stays = Mask(0);
  const LocalTensor<uint8_t> entry_stays = Mask(1);
  const LocalTensor<uint8_t> falls = Mask(2);
  for (int32_t first = 0; first + 1 < tiling_.num_new_rows; first += kTile) {
    const int32_t count = MinOf(kTile, tiling_.num_new_rows - 1 - first);
    const int32_t lanes = RoundUp(count, kLanes);
    Sync<HardEvent::V_MTE2>();
    window_.Fetch(position, args_.positions, first, count);
    window_.Fetch(next_position, args_.positions, int64_t{first} + 1, count);
    window_.Fetch(entry, args_.entries, first, count);
    window_.Fetch(next_entry, args_.entries, int64_t{first} + 1, count);
    Sync<HardEvent::MTE2_V>();
    Max(larger, position, next_position, lanes);
    Fence();
    Compare(position_stays, larger, position, CMPMODE::EQ, lanes);  // or falls
    Fence();
    Max(larger, entry, next_entry, lanes);
    Fence();
    Compare(entry_stays, larger, entry, CMPMODE::EQ, lanes);
    Compare(falls, entry, next_entry, CMPMODE::EQ, lanes);
    Fence();
    NotMask(falls, falls, lanes);
    Fence();
    OrMask(falls, position_stays, lanes);
    Fence();
    AndMask(falls, entry_stays, lanes);
    Fence();
    if (Compact(kept, position, falls, count) > 0) return false;
    Fence();
  }
  return true;
}

// Whether a later row of the call, perhaps on another core, goes to the same token: then that one wins.
__aicore__ inline bool Store::WrittenLater(int32_t index, int32_t position, int32_t entry) {
  const LocalTensor<int32_t> positions = search_;
  const LocalTensor<int32_t> entries = search_[kStoreSearch];
  const LocalTensor<int32_t> kept = search_[2 * kStoreSearch];
  const LocalTensor<uint8_t> same_position = Mask(0);
  const LocalTensor<uint8_t> same_entry = Mask(1);
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
