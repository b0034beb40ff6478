// SPDX-License-Identifier: Apache-2.0
// Match: one step of one batch entry on one vector core, its whole state in UB. The phases are SPEC.md's:
// OPEN and CLOSE in match_state.h; PROBE, REFRESH and CLASSIFY in match_probe.h; COLLECT, INSTALL and OUTPUT
// in match_collect.h; LINK in match_link.h; many slots at once in match_mark.h.
//
// Slots and buckets are kept as byte offsets, because Gather takes those; the contents of `lists` while a
// query runs:
//   PROBE          int32 [K64] valid tokens, packed
//   REFRESH        int32 [K64] new stamps to write, packed
//   COLLECT        uint16 [K + S/2] slots that may be victims, ascending
//   INSTALL        uint16 [K64] victims; behind them uint16 [K64] positions of the misses
//   LINK           uint16 [K64] victims; behind them int32 [K64] target buckets
#ifndef AVSG_MATCH_H
#define AVSG_MATCH_H

#include "avsg_layout.h"
#include "vector_util.h"

namespace sparse_gather {

struct MatchArgs {
  GM_ADDR topk_tokens;         // int32 [B, Q, K]
  GM_ADDR verified_lens;       // int32 [B]
  GM_ADDR seq_lens;            // int32 [B]
  GM_ADDR leases;              // int32 [B]
  GM_ADDR rows;                // int32 [B]
  GM_ADDR state;               // uint8 [num_rows, stride]
  GM_ADDR slots;               // int32 [B, Q, K]
  GM_ADDR miss_tokens;         // int32 [B, Q*K]
  GM_ADDR miss_slots;          // int32 [B, Q*K]
  GM_ADDR num_misses;          // int32 [B]
  GM_ADDR counters;            // int32 [B, 8]
  GM_ADDR plan_rows;           // int32 [B]
  GM_ADDR plan_verified_lens;  // int32 [B]
};

// Stands in for the copies that the fused entry advances while it links.
struct NoCopies {
  __aicore__ inline void Advance() {}
};

class Match {
 public:
  __aicore__ inline Match(const MatchTiling& tiling, const MatchArgs& args, TBuf<TPosition::VECCALC>& ub);

  // Every entry of this core. With keep_last, LINK of the last entry's last query, CLOSE and the write-back
  // of its state wait for Finish; its plan is published all the same.
  __aicore__ inline void Process(bool keep_last);
  template <typename Copies>
  __aicore__ inline void Finish(Copies& copies);

 private:
  // Words of `small`; each group of eight starts a 32-byte block.
  enum Small : int32_t {
    kSeed = 0,  // int16 [16]: 0..15
    kVerifiedLen = 8,
    kSeqLen = 16,
    kLease = 24,
    kRow = 32,
    kCounters = 40,  // int32 [8]
    kNumMisses = 48,
  };
  enum LoadEvent : int32_t { kBucketLoad = 0, kTokenLoad = 1, kStampLoad = 2, kNumLoads = 3 };
  static constexpr event_t kPlanEvent = EVENT_ID6;  // MTE3_V: the query's slots and misses have left UB
  static constexpr int32_t kNoToken = -2;           // fills the packed tokens; no slot ever holds it

  // Entries
  __aicore__ inline void Begin(int32_t entry);
  __aicore__ inline bool NamedBefore(int32_t entry, int32_t row);
  __aicore__ inline void WriteInactive();
  __aicore__ inline void LoadState();
  __aicore__ inline void AwaitLoad(LoadEvent load);
  __aicore__ inline void Open();
  __aicore__ inline void Reset();
  __aicore__ inline int32_t Invalidate(int32_t verified_len);
  __aicore__ inline void PublishPlan();
  __aicore__ inline void Close();
  __aicore__ inline void StoreSlots();
  __aicore__ inline void StoreBuckets();
  __aicore__ inline void WriteCounters();
  // D: hits younger than this keep their stamps.
  __aicore__ inline int32_t Lag() const {
    return MinOf(MaxOf((step_ - floor_) >> 2, tiling_.lag_min), kLagMax);
  }
  // Where new tokens start and hits move at least: a quarter of the way from the floor to now.
  __aicore__ inline int32_t OldestStart() const {
    return MaxOf(step_ - (3 * (step_ - floor_) >> 2), floor_ + 1);
  }
  __aicore__ inline void Tally(Counter counter, int32_t count) { counters_[counter] += count; }

  // A query
  __aicore__ inline void ResolveQuery(int32_t query);
  __aicore__ inline void LoadTokens(int32_t query);
  __aicore__ inline void FillTail(const LocalTensor<int32_t>& tensor, int32_t from, int32_t to,
                                  int32_t value);
  __aicore__ inline void Hash(const LocalTensor<int32_t>& bucket, const LocalTensor<int32_t>& stride,
                              const LocalTensor<int32_t>& tokens, const LocalTensor<int32_t>& temp0,
                              const LocalTensor<int32_t>& temp1, int32_t count);
  __aicore__ inline void NextBucket(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& bucket,
                                    const LocalTensor<int32_t>& stride, int32_t count);
  __aicore__ inline void SlotOfWord(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& word,
                                    int32_t count);
  __aicore__ inline void Probe();
  __aicore__ inline void Classify();
  __aicore__ inline void Refresh();
  __aicore__ inline void AgeOf(const LocalTensor<float>& stamp, const LocalTensor<float>& age, int32_t count);
  __aicore__ inline void RefreshedStamp(const LocalTensor<float>& age, const LocalTensor<int32_t>& stamp,
                                        int32_t count);
  __aicore__ inline void RefreshMarked();
  __aicore__ inline void Collect(int32_t query);
  __aicore__ inline int32_t FindFloor(int32_t floor);
  __aicore__ inline int32_t CountDead(int32_t floor);
  __aicore__ inline int32_t StampPromised(int32_t query, int32_t limit);
  __aicore__ inline int32_t StampLate(const LocalTensor<int32_t>& offsets, const LocalTensor<int32_t>& temp,
                                      int32_t count, int32_t limit);
  __aicore__ inline void MarkSlots(int32_t count);
  __aicore__ inline void SortMarks(int32_t count);
  __aicore__ inline void Install();
  __aicore__ inline void StampVictims(int32_t last, int32_t stamp);
  __aicore__ inline void PlaceMisses();
  __aicore__ inline void WriteSlots(int32_t query);
  __aicore__ inline void WriteMisses();
  template <typename Copies>
  __aicore__ inline void Link(Copies& copies);
  template <typename Copies>
  __aicore__ inline void Conclude(Copies& copies);
  __aicore__ inline void ChooseTargets(int32_t first, int32_t count);
  __aicore__ inline void WriteWords(int32_t count);
  __aicore__ inline int32_t KeepUnlinked(int32_t count);

  template <typename T>
  __aicore__ inline LocalTensor<T> View(uint32_t offset, uint32_t count) {
    return ub_.GetWithOffset<T>(count, offset);
  }
  __aicore__ inline LocalTensor<int32_t> Scratch(int32_t first_word, int32_t count) {
    return View<int32_t>(tiling_.ub.scratch + 4 * first_word, count);
  }

  const MatchTiling& tiling_;
  const MatchArgs& args_;
  TBuf<TPosition::VECCALC>& ub_;
  int32_t k64_;
  int32_t num_buckets_;

  // UB, see MatchUb
  LocalTensor<int32_t> header_, slot_token_, small_, lane_bytes_, tokens_, slots_, miss_tokens_, targets_;
  LocalTensor<float> slot_stamp_;
  LocalTensor<uint32_t> bucket_word_;
  LocalTensor<uint8_t> hit_mask_, work_mask_, slot_mask_;
  LocalTensor<int16_t> victims_, positions_;

  // The entry
  int32_t entry_, row_, lease_, verified_len_, limit_;
  bool active_, pending_ = false;
  int32_t step_, floor_, floor_at_open_, high_;
  int32_t oldest_promised_;  // no promised slot has an older stamp
  int32_t num_planned_;      // misses of the step so far
  int32_t counters_[kNumCounters];
  uint32_t loads_;  // bit LoadEvent: not awaited yet

  // The query
  int32_t num_valid_, num_misses_, num_hits_;
};

__aicore__ inline Match::Match(const MatchTiling& tiling, const MatchArgs& args, TBuf<TPosition::VECCALC>& ub)
    : tiling_(tiling),
      args_(args),
      ub_(ub),
      k64_(RoundUp(tiling.top_k, kLanes)),
      num_buckets_(1 << tiling.num_buckets_log2) {
  const MatchUb& at = tiling.ub;
  header_ = View<int32_t>(at.header, kHeaderWords);
  slot_token_ = View<int32_t>(at.slot_token, tiling.num_slots + kSlotTail);
  slot_stamp_ = View<float>(at.slot_stamp, tiling.num_slots + kSlotTail);
  bucket_word_ = View<uint32_t>(at.bucket_word, num_buckets_ + 8);
  lane_bytes_ = View<int32_t>(at.lane_bytes, tiling.link_tile);
  small_ = View<int32_t>(at.small, 64);
  hit_mask_ = View<uint8_t>(at.hit_mask, at.work_mask - at.hit_mask);
  work_mask_ = View<uint8_t>(at.work_mask, at.slot_mask - at.work_mask);
  slot_mask_ = View<uint8_t>(at.slot_mask, at.lists - at.slot_mask);
  tokens_ = View<int32_t>(at.lists, at.lists_bytes / 4);
  victims_ = View<int16_t>(at.lists, at.lists_bytes / 2);
  positions_ = View<int16_t>(at.lists + 2 * k64_, k64_);
  targets_ = View<int32_t>(at.lists + 2 * k64_, k64_);
  slots_ = View<int32_t>(at.slots, k64_);
  miss_tokens_ = View<int32_t>(at.miss_tokens, k64_);
  // Instructions work on whole repeats, so lists are read a little past their end: that must be memory once
  // written.
  Duplicate(View<int32_t>(at.small, (at.total - at.small) / 4), 0, (at.total - at.small) / 4);
  Sync<HardEvent::V_MTE2>();
  const LocalTensor<uint64_t> seed = AsPairs(small_[kSeed]);
  const LocalTensor<uint64_t> lanes = AsPairs(lane_bytes_);
  Sync<HardEvent::V_S>();
  for (uint64_t i = 0; i < 4; ++i) {
    seed.SetValue(i, 0x0003000200010000ULL + i * 0x0004000400040004ULL);
    lanes.SetValue(i, 8 * i | (8 * i + 4) << 32);
  }
  Sync<HardEvent::S_V>();
  ExtendIota(lane_bytes_, 8, tiling.link_tile, 4);
}

__aicore__ inline void Match::Process(bool keep_last) {
  NoCopies no_copies;
  for (entry_ = GetBlockIdx(); entry_ < tiling_.num_entries; entry_ += tiling_.num_cores) {
    Begin(entry_);
    if (!active_) {
      WriteInactive();
      continue;
    }
    const bool keep = keep_last && entry_ + tiling_.num_cores >= tiling_.num_entries;
    for (int32_t query = 0; query < tiling_.num_queries; ++query) {
      if (query > 0) Link(no_copies);
      ResolveQuery(query);
    }
    PublishPlan();
    if (keep) {
      pending_ = true;
      return;
    }
    Conclude(no_copies);
  }
}

template <typename Copies>
__aicore__ inline void Match::Finish(Copies& copies) {
  if (pending_) Conclude(copies);
}

// LINK of the last query, CLOSE and the write-back. Slots that CLOSE cannot touch leave while LINK runs,
// which only reads them.
template <typename Copies>
__aicore__ inline void Match::Conclude(Copies& copies) {
  const bool may_drop = verified_len_ < limit_;  // tokens are below limit
  if (!may_drop) StoreSlots();
  Link(copies);
  copies.Advance();
  if (may_drop) {
    Close();
    StoreSlots();
  }
  StoreBuckets();
}

}  // namespace sparse_gather

#include "match_collect.h"
#include "match_link.h"
#include "match_mark.h"
#include "match_probe.h"
#include "match_state.h"

#endif  // AVSG_MATCH_H
