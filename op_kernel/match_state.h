// SPDX-License-Identifier: Apache-2.0
// Match: an entry's inputs, the row's state between GM and UB, OPEN, CLOSE and what they write.
#ifndef AVSG_MATCH_STATE_H
#define AVSG_MATCH_STATE_H

namespace sparse_gather {

// Reads the entry's inputs and decides whether it takes part.
__aicore__ inline void Match::Begin(int32_t entry) {
  Sync<HardEvent::MTE3_MTE2>();
  Sync<HardEvent::S_MTE2>();
  CopyIn(small_[kRow], Global<int32_t>(args_.rows, int64_t{4} * entry), 4);
  CopyIn(small_[kVerifiedLen], Global<int32_t>(args_.verified_lens, int64_t{4} * entry), 4);
  CopyIn(small_[kSeqLen], Global<int32_t>(args_.seq_lens, int64_t{4} * entry), 4);
  CopyIn(small_[kLease], Global<int32_t>(args_.leases, int64_t{4} * entry), 4);
  Sync<HardEvent::MTE2_S>();
  row_ = small_.GetValue(kRow);
  lease_ = small_.GetValue(kLease);
  const int32_t seq_len = MaxOf(small_.GetValue(kSeqLen), 0);
  verified_len_ = MinOf(MaxOf(small_.GetValue(kVerifiedLen), 0), seq_len);
  limit_ = MinOf(seq_len, kMaxTokens);
  for (int32_t i = 0; i < kNumCounters; ++i) counters_[i] = 0;
  num_planned_ = 0;
  active_ = row_ >= 0 && row_ < tiling_.num_rows;
  if (row_ >= tiling_.num_rows) counters_[kCounterFlags] = kFlagRowOutOfRange;
  if (active_ && NamedBefore(entry, row_)) {
    active_ = false;
    counters_[kCounterFlags] = kFlagRowNamedTwice;
  }
  if (!active_) return;
  LoadState();
  Open();
}

__aicore__ inline bool Match::NamedBefore(int32_t entry, int32_t row) {
  constexpr int32_t kTile = 512;
  const LocalTensor<int32_t> rows = Scratch(0, kTile);
  for (int32_t first = 0; first < entry; first += kTile) {
    const int32_t count = MinOf(kTile, entry - first);
    Sync<HardEvent::V_MTE2>();
    CopyIn(rows, Global<int32_t>(args_.rows, int64_t{4} * first), 4 * count);
    Sync<HardEvent::MTE2_V>();
    CompareScalar(work_mask_, rows, row, CMPMODE::EQ, RoundUp(count, kLanes));
    Fence();
    if (Compact(Scratch(kTile, kTile), rows, work_mask_, count) > 0) return true;
  }
  return false;
}

__aicore__ inline void Match::WriteInactive() {
  const int64_t entry = entry_;
  Sync<HardEvent::MTE3_V>();
  Duplicate(slots_, kPadToken, k64_);
  Sync<HardEvent::V_MTE3>();
  for (int32_t query = 0; query < tiling_.num_queries; ++query) {
    CopyOut(Global<int32_t>(args_.slots, 4 * (entry * tiling_.num_queries + query) * tiling_.top_k), slots_,
            4 * tiling_.top_k);
  }
  row_ = -1;
  PublishPlan();
  WriteCounters();
}

__aicore__ inline void Match::LoadState() {
  const int64_t base = row_ * tiling_.state_stride_bytes;
  const int32_t slot_bytes = 4 * (tiling_.num_slots + kSlotTail);
  Sync<HardEvent::V_MTE2>();
  CopyIn(header_, Global<int32_t>(args_.state, base), 4 * kHeaderWords);
  SetFlag<HardEvent::MTE2_S>(kSyncEvent);
  CopyIn(bucket_word_, Global<uint32_t>(args_.state, base + BucketWordOffset(tiling_.num_slots)),
         4 * num_buckets_);
  SetFlag<HardEvent::MTE2_V>(static_cast<event_t>(kBucketLoad));
  CopyIn(slot_token_, Global<int32_t>(args_.state, base + SlotTokenOffset()), slot_bytes);
  SetFlag<HardEvent::MTE2_V>(static_cast<event_t>(kTokenLoad));
  CopyIn(slot_stamp_, Global<float>(args_.state, base + SlotStampOffset(tiling_.num_slots)), slot_bytes);
  SetFlag<HardEvent::MTE2_V>(static_cast<event_t>(kStampLoad));
  loads_ = (1U << kNumLoads) - 1;
}

__aicore__ inline void Match::AwaitLoad(LoadEvent load) {
  const uint32_t bit = 1U << load;
  if ((loads_ & bit) == 0) return;
  loads_ &= ~bit;
  WaitFlag<HardEvent::MTE2_V>(static_cast<event_t>(load));
  // A damaged row may cost hits, never safety: the sentinel is no slot, and stamps are numbers from 0 to the
  // last step, so that COLLECT ends. Valid rows are like this already. Floats from 0 on order like their
  // bits, and as bits NaN and infinity are numbers too.
  if (load == kTokenLoad) Duplicate(slot_token_[tiling_.num_slots], kEmptyToken, kSlotTail);
  if (load == kStampLoad) {
    const LocalTensor<int32_t> bits = AsInt(slot_stamp_);
    Duplicate(slot_stamp_[tiling_.num_slots], 0.0f, kSlotTail);
    Maxs(bits, bits, 0, tiling_.num_slots);
    Fence();
    Mins(bits, bits, BitsOf(static_cast<float>(step_ - 1)), tiling_.num_slots);
  }
  Fence();
}

// OPEN: reset a row that is not this lease's, forget what was rolled back, age all slots by one step.
__aicore__ inline void Match::Open() {
  const LocalTensor<uint64_t> words = AsPairs(header_);
  WaitFlag<HardEvent::MTE2_S>(kSyncEvent);
  const uint64_t magic_version = words.GetValue(kHeaderMagic / 2);
  const uint64_t lease_step = words.GetValue(kHeaderLease / 2);
  const uint64_t floor_high = words.GetValue(kHeaderFloor / 2);
  const uint64_t poison_slots = words.GetValue(kHeaderPoison / 2);
  step_ = static_cast<int32_t>(lease_step >> 32);
  floor_ = static_cast<int32_t>(floor_high);
  high_ = static_cast<int32_t>(floor_high >> 32);
  const bool own = magic_version == (static_cast<uint64_t>(kLayoutVersion) << 32 | kMagic) &&
                   static_cast<int32_t>(lease_step) == lease_ &&
                   poison_slots == static_cast<uint64_t>(tiling_.num_slots) << 32;
  const bool sound = step_ > 0 && step_ < kMaxStep && floor_ >= 0 && floor_ <= step_;
  const bool reset = !own || !sound;
  if (reset) Reset();
  const bool rolled_back = verified_len_ < high_;
  step_ += 1;
  if (rolled_back) Tally(kCounterInvalidated, Invalidate(verified_len_));
  floor_ = MaxOf(floor_, step_ - 1 - tiling_.max_life);
  floor_at_open_ = floor_;
  oldest_promised_ = step_ + 1;
}

__aicore__ inline void Match::Reset() {
  counters_[kCounterFlags] |= kFlagReset;
  step_ = floor_ = high_ = 0;
  for (int32_t load = 0; load < kNumLoads; ++load) WaitFlag<HardEvent::MTE2_V>(static_cast<event_t>(load));
  loads_ = 0;
  Sync<HardEvent::S_V>();
  Duplicate(header_, 0, kHeaderWords);
  Duplicate(slot_token_, kEmptyToken, tiling_.num_slots + kSlotTail);
  Duplicate(slot_stamp_, 0.0f, tiling_.num_slots + kSlotTail);
  Duplicate(AsInt(bucket_word_), (kEmptyFingerprint << 16) | tiling_.num_slots, num_buckets_);
  Sync<HardEvent::V_S>();
  const LocalTensor<uint64_t> words = AsPairs(header_);
  words.SetValue(kHeaderMagic / 2, static_cast<uint64_t>(kLayoutVersion) << 32 | kMagic);
  words.SetValue(kHeaderLease / 2, static_cast<uint32_t>(lease_));
  words.SetValue(kHeaderPoison / 2, static_cast<uint64_t>(tiling_.num_slots) << 32);
}

// Empties every slot that holds a token >= verified_len and returns how many. Tokens move by Select as the
// bits of a float, one higher than they are, so that none is a NaN.
__aicore__ inline int32_t Match::Invalidate(int32_t verified_len) {
  const int32_t tile = MinOf(1024, static_cast<int32_t>(tiling_.ub.scratch_bytes) / 8 / kLanes * kLanes);
  const LocalTensor<int32_t> temp = Scratch(0, tile);
  const LocalTensor<int32_t> dropped = Scratch(tile, tile);
  AwaitLoad(kTokenLoad);
  AwaitLoad(kStampLoad);
  int32_t num_dropped = 0;
  for (int32_t first = 0; first < tiling_.num_slots; first += tile) {
    const int32_t count = MinOf(tile, tiling_.num_slots - first);
    const LocalTensor<int32_t> token = slot_token_[first];
    const LocalTensor<float> stamp = slot_stamp_[first];
    Maxs(temp, token, verified_len, count);
    Fence();
    Compare(work_mask_, temp, token, CMPMODE::EQ, count);
    Fence();
    const int32_t in_tile = Compact(dropped, token, work_mask_, count);
    if (in_tile == 0) continue;
    num_dropped += in_tile;
    NotMask(work_mask_, work_mask_, count);
    Adds(temp, token, 1, count);
    Fence();
    Select(AsFloat(temp), work_mask_, AsFloat(temp), 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    Select(stamp, work_mask_, stamp, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
    Fence();
    Adds(token, temp, -1, count);
    Fence();
  }
  return num_dropped;
}

// What load needs, and the header: nothing of the row's header is written later, so a poison that load sets
// stays.
__aicore__ inline void Match::PublishPlan() {
  small_.SetValue(kNumMisses, num_planned_);
  small_.SetValue(kVerifiedLen, verified_len_);
  small_.SetValue(kRow, row_);
  if (active_) {
    header_.SetValue(kHeaderStep, step_);
    AsPairs(header_).SetValue(kHeaderFloor / 2,
                              static_cast<uint32_t>(floor_) | static_cast<uint64_t>(verified_len_) << 32);
  }
  Sync<HardEvent::S_MTE3>();
  const int64_t at = int64_t{4} * entry_;
  CopyOut(Global<int32_t>(args_.num_misses, at), small_[kNumMisses], 4);
  CopyOut(Global<int32_t>(args_.plan_rows, at), small_[kRow], 4);
  CopyOut(Global<int32_t>(args_.plan_verified_lens, at), small_[kVerifiedLen], 4);
  if (active_) {
    CopyOut(Global<int32_t>(args_.state, row_ * tiling_.state_stride_bytes), header_, 4 * kHeaderWords);
  }
}

// CLOSE: tokens that are not verified leave their slots.
__aicore__ inline void Match::Close() { Tally(kCounterInvalidated, Invalidate(verified_len_)); }

__aicore__ inline void Match::StoreSlots() {
  const int64_t base = row_ * tiling_.state_stride_bytes;
  const int32_t slot_bytes = 4 * (tiling_.num_slots + kSlotTail);
  AwaitLoad(kTokenLoad);
  AwaitLoad(kStampLoad);
  Sync<HardEvent::V_MTE3>();
  Sync<HardEvent::S_MTE3>();
  CopyOut(Global<int32_t>(args_.state, base + SlotTokenOffset()), slot_token_, slot_bytes);
  CopyOut(Global<float>(args_.state, base + SlotStampOffset(tiling_.num_slots)), slot_stamp_, slot_bytes);
}

__aicore__ inline void Match::StoreBuckets() {
  AwaitLoad(kBucketLoad);
  counters_[kCounterMisses] = num_planned_;
  counters_[kCounterFloorAdvance] = floor_ - floor_at_open_;
  WriteCounters();
  CopyOut(
      Global<uint32_t>(args_.state, row_ * tiling_.state_stride_bytes + BucketWordOffset(tiling_.num_slots)),
      bucket_word_, 4 * num_buckets_);
}

__aicore__ inline void Match::WriteCounters() {
  const LocalTensor<uint64_t> pairs = AsPairs(small_[kCounters]);
  for (int32_t i = 0; i < kNumCounters; i += 2) {
    pairs.SetValue(i / 2, static_cast<uint32_t>(counters_[i]) | static_cast<uint64_t>(counters_[i + 1])
                                                                    << 32);
  }
  Sync<HardEvent::S_MTE3>();
  CopyOut(Global<int32_t>(args_.counters, int64_t{4} * kNumCounters * entry_), small_[kCounters],
          4 * kNumCounters);
}

}  // namespace sparse_gather

#endif  // AVSG_MATCH_STATE_H
