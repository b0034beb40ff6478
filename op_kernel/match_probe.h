// SPDX-License-Identifier: Apache-2.0
// Match: a query's tokens, PROBE, CLASSIFY and REFRESH.
#ifndef AVSG_MATCH_PROBE_H
#define AVSG_MATCH_PROBE_H

namespace sparse_gather {

__aicore__ inline void Match::ResolveQuery(int32_t query) {
  LoadTokens(query);
  Probe();
  Classify();
  Refresh();
  if (num_misses_ > 0) {
    Collect(query);
    Install();
  } else {
    Fence();
    ShiftRight(AsUint(slots_), AsUint(slots_), 2U, num_valid_);
  }
  WriteSlots(query);
  if (num_misses_ > 0) WriteMisses();
  SetFlag<HardEvent::MTE3_V>(kPlanEvent);
}

// The valid tokens of the query, packed in order; kNoToken fills the last repeat.
__aicore__ inline void Match::LoadTokens(int32_t query) {
  const LocalTensor<int32_t> raw = Scratch(0, k64_);
  const LocalTensor<int32_t>& temp = slots_;
  Sync<HardEvent::MTE3_MTE2>();
  Sync<HardEvent::V_MTE2>();
  CopyIn(raw,
         Global<int32_t>(args_.topk_tokens,
                         4 * ((int64_t{entry_} * tiling_.num_queries + query) * tiling_.top_k)),
         4 * tiling_.top_k);
  Sync<HardEvent::MTE2_V>();
  if (k64_ > tiling_.top_k) Duplicate(raw[tiling_.top_k], kPadToken, k64_ - tiling_.top_k);
  Fence();
  if (limit_ > 0) {
    Maxs(temp, raw, 0, k64_);
    Fence();
    Mins(temp, temp, limit_ - 1, k64_);
    Fence();
    Compare(work_mask_, temp, raw, CMPMODE::EQ, k64_);
  } else {
    Duplicate(work_mask_.ReinterpretCast<uint16_t>(), static_cast<uint16_t>(0), k64_ / 16);
  }
  Fence();
  num_valid_ = Compact(tokens_, raw, work_mask_, tiling_.top_k);
  Tally(kCounterValid, num_valid_);
  if (num_valid_ == tiling_.top_k) {
    FillTail(tokens_, num_valid_, k64_, kNoToken);
    return;
  }
  Fence();
  Maxs(temp, raw, 0, k64_);
  Fence();
  Compare(work_mask_, temp, raw, CMPMODE::EQ, k64_);
  Fence();
  const int32_t num_bad = Compact(miss_tokens_, raw, work_mask_, tiling_.top_k) - num_valid_;
  if (num_bad > 0) {
    Tally(kCounterBadTokens, num_bad);
    counters_[kCounterFlags] |= kFlagBadToken;
  }
  FillTail(tokens_, num_valid_, RoundUp(num_valid_, kLanes), kNoToken);
}

// tensor[from..to) = value; to is a multiple of 8.
__aicore__ inline void Match::FillTail(const LocalTensor<int32_t>& tensor, int32_t from, int32_t to,
                                       int32_t value) {
  const int32_t aligned = RoundUp(from, 8);
  if (aligned > from) {
    Sync<HardEvent::V_S>();
    for (int32_t i = from; i < aligned; ++i) tensor.SetValue(i, value);
    Sync<HardEvent::S_V>();
  }
  Fence();
  if (to > aligned) Duplicate(tensor[aligned], value, to - aligned);
  Fence();
}

// bucket = h and stride = d of SPEC.md's hash, as byte offsets; temp0 and temp1 are overwritten.
__aicore__ inline void Match::Hash(const LocalTensor<int32_t>& bucket, const LocalTensor<int32_t>& stride,
                                   const LocalTensor<int32_t>& tokens, const LocalTensor<int32_t>& temp0,
                                   const LocalTensor<int32_t>& temp1, int32_t count) {
  const int32_t lg = tiling_.num_buckets_log2;
  ShiftRight(stride, tokens, lg, count);
  ShiftRight(temp0, tokens, 1, count);
  Muls(bucket, tokens, kHashA, count);
  Fence();
  Muls(temp1, stride, kHashC, count);
  Muls(stride, stride, kHashA, count);
  Muls(temp0, temp0, kHashB, count);
  Fence();
  Add(bucket, bucket, temp1, count);
  Add(stride, stride, temp0, count);
  Fence();
  CutField(bucket, lg, 2, count);
  CutField(stride, lg - 1, 3, count);
  Fence();
  Adds(stride, stride, 4, count);
  Fence();
}

// dst = (bucket + stride) & (NB - 1) in bytes.
__aicore__ inline void Match::NextBucket(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& bucket,
                                         const LocalTensor<int32_t>& stride, int32_t count) {
  Add(dst, bucket, stride, count);
  Fence();
  CutField(dst, tiling_.num_buckets_log2 + 2, 0, count);
  Fence();
}

// dst = the word's slot as a byte offset, the sentinel's at most, whatever the word holds.
__aicore__ inline void Match::SlotOfWord(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& word,
                                         int32_t count) {
  ShiftLeft(AsUint(dst), AsUint(word), 16U, count);
  Fence();
  ShiftRight(AsUint(dst), AsUint(dst), 14U, count);
  Fence();
  Mins(dst, dst, 4 * tiling_.num_slots, count);
  Fence();
}

// PROBE: walk until the fingerprint matches, R buckets further at most; only the full token decides.
__aicore__ inline void Match::Probe() {
  const int32_t count = RoundUp(num_valid_, kLanes);
  num_hits_ = 0;
  if (count == 0) return;
  const LocalTensor<int32_t>& bucket = slots_;
  const LocalTensor<int32_t>& stride = miss_tokens_;
  const LocalTensor<int32_t> word = Scratch(0, k64_);
  const LocalTensor<int32_t> fingerprint = Scratch(k64_, k64_);
  Hash(bucket, stride, tokens_, word, fingerprint, count);
  ShiftLeft(fingerprint, tokens_, 16, count);
  Fence();
  ShiftRight(AsUint(fingerprint), AsUint(fingerprint), 16U, count);
  AwaitLoad(kBucketLoad);
  for (int32_t round = 0; round < tiling_.probe_rounds; ++round) {
    Gather(word, AsInt(bucket_word_), AsUint(bucket), 0U, static_cast<uint32_t>(count));
    Fence();
    ShiftRight(AsUint(word), AsUint(word), 16U, count);
    Fence();
    Compare(work_mask_, word, fingerprint, CMPMODE::EQ, count);
    Fence();
    NextBucket(word, bucket, stride, count);
    Select(AsFloat(bucket), work_mask_, AsFloat(bucket), AsFloat(word), SELMODE::VSEL_TENSOR_TENSOR_MODE,
           count);
    Fence();
  }
  Gather(word, AsInt(bucket_word_), AsUint(bucket), 0U, static_cast<uint32_t>(count));
  Fence();
  SlotOfWord(slots_, word, count);
  AwaitLoad(kTokenLoad);
  Gather(word, slot_token_, AsUint(slots_), 0U, static_cast<uint32_t>(count));
  Fence();
  Compare(hit_mask_, word, tokens_, CMPMODE::EQ, count);
  Fence();
}

// CLASSIFY: the missed tokens, packed in order.
__aicore__ inline void Match::Classify() {
  num_misses_ = 0;
  if (num_valid_ == 0) return;
  NotMask(work_mask_, hit_mask_, RoundUp(num_valid_, kLanes));
  Fence();
  num_misses_ = Compact(miss_tokens_, tokens_, work_mask_, num_valid_);
  num_hits_ = num_valid_ - num_misses_;
  Tally(kCounterHits, num_hits_);
}

// age = step - max(stamp, floor)
__aicore__ inline void Match::AgeOf(const LocalTensor<float>& stamp, const LocalTensor<float>& age,
                                    int32_t count) {
  Maxs(age, stamp, static_cast<float>(floor_), count);
  Fence();
  Muls(age, age, -1.0f, count);
  Fence();
  Adds(age, age, static_cast<float>(step_), count);
  Fence();
}

// stamp = max(step - max(a - (a >> 2) - D + 1, 0), low) of ages in `age`, which is overwritten.
__aicore__ inline void Match::RefreshedStamp(const LocalTensor<float>& age, const LocalTensor<int32_t>& stamp,
                                             int32_t count) {
  const LocalTensor<int32_t> quarter = AsInt(age);
  Cast(stamp, age, RoundMode::CAST_RINT, count);
  Fence();
  ShiftRight(quarter, stamp, 2, count);
  Fence();
  Sub(stamp, stamp, quarter, count);
  Fence();
  Adds(stamp, stamp, 1 - Lag(), count);
  Fence();
  Maxs(stamp, stamp, 0, count);
  Fence();
  Muls(stamp, stamp, -1, count);
  Fence();
  Adds(stamp, stamp, step_, count);
  Fence();
  Maxs(stamp, stamp, OldestStart(), count);
  Fence();
}

// REFRESH: hits that are old enough move part of the way to now. Slot and new stamp share a word, so that one
// scalar load brings two of them.
__aicore__ inline void Match::Refresh() {
  if (num_hits_ == 0) return;
  const int32_t lag = Lag();
  const bool any_old = step_ - floor_ >= lag;
  oldest_promised_ = MinOf(oldest_promised_, any_old ? MinOf(OldestStart(), step_ - lag + 1) : 0);
  AwaitLoad(kStampLoad);
  if (!any_old) return;
  const int32_t count = RoundUp(num_valid_, kLanes);
  const LocalTensor<int32_t> age = Scratch(0, k64_);
  const LocalTensor<int32_t> packed = Scratch(k64_, k64_);
  Gather(AsFloat(age), slot_stamp_, AsUint(slots_), 0U, static_cast<uint32_t>(count));
  Fence();
  AgeOf(AsFloat(age), AsFloat(age), count);
  CompareScalar(work_mask_, AsFloat(age), static_cast<float>(lag), CMPMODE::GE, count);
  Fence();
  AndMask(work_mask_, hit_mask_, count);
  RefreshedStamp(AsFloat(age), packed, count);
  Adds(packed, packed, -floor_, count);
  ShiftRight(age, slots_, 2, count);
  Fence();
  ShiftLeft(packed, packed, 16, count);
  Fence();
  Add(packed, packed, age, count);
  Fence();
  const int32_t num_changed = Compact(tokens_, packed, work_mask_, num_valid_);
  if (num_changed >= tiling_.mark_min_slots) {
    Fence();
    RefreshMarked();
    return;
  }
  const LocalTensor<uint64_t> pairs = AsPairs(tokens_);
  Sync<HardEvent::V_S>();
  for (int32_t i = 0; i < num_changed; i += 2) {
    const uint64_t pair = pairs.GetValue(i / 2);
    const uint32_t first = static_cast<uint32_t>(pair);
    const uint32_t second = static_cast<uint32_t>(pair >> 32);
    slot_stamp_.SetValue(first & 0xFFFF, static_cast<float>(floor_ + static_cast<int32_t>(first >> 16)));
    if (i + 1 == num_changed) break;
    slot_stamp_.SetValue(second & 0xFFFF, static_cast<float>(floor_ + static_cast<int32_t>(second >> 16)));
  }
  Sync<HardEvent::S_V>();
}

}  // namespace sparse_gather

#endif  // AVSG_MATCH_PROBE_H
