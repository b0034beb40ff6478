// SPDX-License-Identifier: Apache-2.0
// Load: copies the misses of all entries from host_kv (or fresh) to device_kv, an equal share on every core.
#ifndef AVSG_LOAD_H
#define AVSG_LOAD_H

#include "avsg_layout.h"
#include "row_copy.h"
#include "vector_util.h"

namespace sparse_gather {

struct LoadArgs {
  GM_ADDR miss_tokens;    // int32 [B, Q*K]
  GM_ADDR miss_slots;     // int32 [B, Q*K]
  GM_ADDR num_misses;     // int32 [B]
  GM_ADDR rows;           // int32 [B], the plan's
  GM_ADDR verified_lens;  // int32 [B], the plan's
  GM_ADDR block_table;    // int32 [B, max_blocks]
  GM_ADDR host_kv;        // list of [num_host_blocks, block_size, row_bytes]
  GM_ADDR fresh;          // list of [B, Q, row_bytes]
  GM_ADDR device_kv;      // list of [num_rows * S, row_bytes]
  GM_ADDR state;          // uint8 [num_rows, stride]
  GM_ADDR load_counters;  // int32 [2]
  GM_ADDR workspace;
};

class Load {
 public:
  __aicore__ inline Load(const LoadTiling& tiling, const CopyUb& copy_ub, const LoadArgs& args,
                         TBuf<TPosition::VECCALC>& ub)
      : tiling_(tiling),
        args_(args),
        window_(copy_ub, ub),
        ring_(copy_ub, ub),
        whole_line_(tiling.max_blocks <= kBlockIdWords) {
    for (int32_t p = 0; p < tiling.num_payloads; ++p) {
      host_kv_[p] = TensorOf(args.host_kv, p);
      device_kv_[p] = TensorOf(args.device_kv, p);
      fresh_[p] = tiling.has_fresh != 0 ? TensorOf(args.fresh, p) : nullptr;
    }
  }

  // Finds this core's share of the plan. All plans must be in GM.
  __aicore__ inline void Begin();
  // Copies the next window of plan entries, if there is one.
  __aicore__ inline void Advance();
  // Copies what is left and sums up all cores.
  __aicore__ inline void Finish();

 private:
  __aicore__ inline int32_t MissesOf(int32_t entry);
  __aicore__ inline void NextEntry();
  __aicore__ inline int32_t FetchWindow();
  __aicore__ inline void CopyEntry(int32_t index);
  __aicore__ inline void Poison();

  const LoadTiling& tiling_;
  const LoadArgs& args_;
  CopyWindow window_;
  RowRing ring_;
  GM_ADDR host_kv_[kMaxPayloads];
  GM_ADDR fresh_[kMaxPayloads];
  GM_ADDR device_kv_[kMaxPayloads];

  bool whole_line_;  // an entry's block ids fit UB together

  // Position in the list of all misses
  int64_t left_ = 0;   // entries of the share not copied yet
  int64_t skip_ = 0;   // entries of the list before the share, from entry_'s line on
  int32_t tile_ = -1;  // first of the batch entries in UB
  int32_t entry_ = -1;
  int32_t line_ = 0;  // next plan entry of entry_'s line
  int32_t line_end_ = 0;
  int32_t row_ = 0;
  int32_t verified_len_ = 0;
  bool poisoned_ = false;  // entry_'s row by this core
  int32_t copied_ = 0;
  int32_t bad_ = 0;
};

// Misses of a batch entry; none if its row is no row, whatever the plan holds.
__aicore__ inline int32_t Load::MissesOf(int32_t entry) {
  const int32_t tile = entry / kCopyWindow * kCopyWindow;
  if (tile != tile_) {
    tile_ = tile;
    const int32_t count = MinOf(kCopyWindow, tiling_.num_entries - tile);
    Sync<HardEvent::S_MTE2>();
    window_.Fetch(window_.num_misses(), args_.num_misses, tile, count);
    window_.Fetch(window_.rows(), args_.rows, tile, count);
    window_.Fetch(window_.verified_lens(), args_.verified_lens, tile, count);
    Sync<HardEvent::MTE2_S>();
  }
  const int32_t row = window_.rows().GetValue(entry - tile);
  if (row < 0 || row >= tiling_.num_rows) return 0;
  return MinOf(MaxOf(window_.num_misses().GetValue(entry - tile), 0), tiling_.plan_width);
}

__aicore__ inline void Load::Begin() {
  window_.poison().SetValue(0, 1);  // once: earlier poisons may be on their way when the next one leaves
  int64_t total = 0;
  for (int32_t entry = 0; entry < tiling_.num_entries; ++entry) total += MissesOf(entry);
  const int64_t core = GetBlockIdx();
  skip_ = core * total / tiling_.num_cores;
  left_ = (core + 1) * total / tiling_.num_cores - skip_;
}

__aicore__ inline void Load::NextEntry() {
  entry_ += 1;
  line_end_ = MissesOf(entry_);
  line_ = static_cast<int32_t>(skip_ < line_end_ ? skip_ : line_end_);
  skip_ -= line_;
  if (line_ == line_end_) return;
  row_ = window_.rows().GetValue(entry_ - tile_);
  verified_len_ = window_.verified_lens().GetValue(entry_ - tile_);
  poisoned_ = false;
  if (!whole_line_) return;
  Sync<HardEvent::S_MTE2>();
  window_.Fetch(window_.block_ids(), args_.block_table, int64_t{entry_} * tiling_.max_blocks,
                tiling_.max_blocks);
}

// Brings the next plan entries and their block ids to UB; returns how many.
__aicore__ inline int32_t Load::FetchWindow() {
  while (line_ == line_end_) NextEntry();
  int32_t count = MinOf(kCopyWindow, line_end_ - line_);
  if (count > left_) count = static_cast<int32_t>(left_);
  const int64_t at = int64_t{entry_} * tiling_.plan_width + line_;
  Sync<HardEvent::S_MTE2>();
  window_.Fetch(window_.tokens(), args_.miss_tokens, at, count);
  window_.Fetch(window_.slots(), args_.miss_slots, at, count);
  Sync<HardEvent::MTE2_S>();
  for (int32_t i = 0; i < count && !whole_line_; ++i) {
    const int32_t block = window_.tokens().GetValue(i) / tiling_.block_size;
    if (block < 0 || block >= tiling_.max_blocks) continue;
    window_.Fetch(window_.block_ids()[8 * i], args_.block_table, int64_t{entry_} * tiling_.max_blocks + block,
                  1);
  }
  if (!whole_line_) Sync<HardEvent::MTE2_S>();
  line_ += count;
  left_ -= count;
  return count;
}

__aicore__ inline void Load::Advance() {
  if (left_ == 0) return;
  const int32_t count = FetchWindow();
  for (int32_t i = 0; i < count; ++i) CopyEntry(i);
}

// One plan entry, all payloads: from fresh, from the host, or zeros where the block is bad.
__aicore__ inline void Load::CopyEntry(int32_t index) {
  const int32_t token = window_.tokens().GetValue(index);
  const int32_t slot = window_.slots().GetValue(index);
  const bool in_plan = token >= 0 && token < kMaxTokens && slot >= 0 && slot < tiling_.num_slots;
  const int64_t fresh_index = int64_t{token} - (int64_t{verified_len_} - 1);
  const bool from_fresh =
      tiling_.has_fresh != 0 && verified_len_ >= 1 && fresh_index >= 0 && fresh_index < tiling_.num_queries;
  int64_t host_row = -1;
  if (in_plan && !from_fresh) {
    const int32_t at = whole_line_ ? token / tiling_.block_size : 8 * index;
    host_row = window_.HostRow(at, token, tiling_.block_size, tiling_.max_blocks, tiling_.num_host_blocks);
  }
  const bool good = in_plan && (from_fresh || host_row >= 0);
  if (good) {
    copied_ += 1;
  } else {
    bad_ += 1;
    if (!poisoned_) Poison();
    if (!in_plan) return;  // no match wrote this: there is no row to fill
  }
  const int64_t device_row = int64_t{row_} * tiling_.num_slots + slot;
  for (int32_t p = 0; p < tiling_.num_payloads; ++p) {
    const int64_t row_bytes = tiling_.row_bytes[p];
    GM_ADDR to = device_kv_[p] + device_row * row_bytes;
    if (!good) {
      ring_.Zero(to, row_bytes);
    } else if (from_fresh) {
      const int64_t from_row = int64_t{entry_} * tiling_.num_queries + fresh_index;
      ring_.Copy(to, fresh_[p] + from_row * row_bytes, row_bytes);
    } else {
      ring_.Copy(to, host_kv_[p] + host_row * row_bytes, row_bytes);
    }
  }
}

// The row's next step starts from a reset.
__aicore__ inline void Load::Poison() {
  poisoned_ = true;
  Sync<HardEvent::S_MTE3>();
  CopyOut(Global<int32_t>(args_.state, row_ * tiling_.state_stride_bytes + 4 * kHeaderPoison),
          window_.poison(), 4);
}

__aicore__ inline void Load::Finish() {
  while (left_ > 0) Advance();
  ring_.Drain();
  window_.SumOverCores(args_.workspace, args_.load_counters, copied_, bad_, tiling_.num_cores);
}

}  // namespace sparse_gather

#endif  // AVSG_LOAD_H
