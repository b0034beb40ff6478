// SPDX-License-Identifier: Apache-2.0
// Match: LINK enters the query's new slots into the hash table.
#ifndef AVSG_MATCH_LINK_H
#define AVSG_MATCH_LINK_H

namespace sparse_gather {

// LINK: LINK_ROUNDS times, all choices before any write; what lost its bucket to a later miss tries again.
template <typename Copies>
__aicore__ inline void Match::Link(Copies& copies) {
  int32_t num_todo = num_misses_;
  WaitFlag<HardEvent::MTE3_V>(kPlanEvent);
  for (int32_t round = 0; round < kLinkRounds && num_todo > 0; ++round) {
    for (int32_t first = 0; first < num_todo; first += tiling_.link_tile) {
      ChooseTargets(first, MinOf(tiling_.link_tile, num_todo - first));
      copies.Advance();
    }
    WriteWords(num_todo);
    num_todo = KeepUnlinked(num_todo);
  }
  Tally(kCounterUnlinked, num_todo);
}

// targets_[first..first+count) = the buckets, as byte offsets, of these misses. All R+1 buckets of all misses
// of the tile form one vector; a bucket's key is r if it is free, else 16 * max(stamp, floor) + r, and the
// smallest key wins. Behind them lies a dummy bucket whose key loses only to stamps below `step`.
__aicore__ inline void Match::ChooseTargets(int32_t first, int32_t count) {
  const int32_t lanes = RoundUp(count, kLanes);
  const int32_t buckets = tiling_.probe_rounds + 1;
  const int32_t all = buckets * lanes;
  const LocalTensor<int32_t> bucket = Scratch(0, all + lanes);
  const LocalTensor<int32_t> word = Scratch(all + lanes, all);
  const LocalTensor<int32_t> fingerprint = Scratch(2 * all + lanes, all);
  const LocalTensor<int32_t> token = Scratch(3 * all + lanes, all);
  const LocalTensor<int32_t> stamp = Scratch(4 * all + lanes, all);
  Hash(bucket, word, miss_tokens_[first], fingerprint, token, lanes);
  for (int32_t r = 1; r < buckets; ++r) NextBucket(bucket[r * lanes], bucket[(r - 1) * lanes], word, lanes);
  Duplicate(bucket[all], 4 * num_buckets_, lanes);
  Fence();
  Gather(word, AsInt(bucket_word_), AsUint(bucket), 0U, static_cast<uint32_t>(all));
  Fence();
  ShiftRight(AsUint(fingerprint), AsUint(word), 16U, all);
  SlotOfWord(word, word, all);
  Gather(token, slot_token_, AsUint(word), 0U, static_cast<uint32_t>(all));
  Gather(AsFloat(stamp), slot_stamp_, AsUint(word), 0U, static_cast<uint32_t>(all));
  Fence();
  // In use: a token is there and it is the one that the word was written for.
  Maxs(word, token, 0, all);
  Fence();
  Compare(hit_mask_, word, token, CMPMODE::EQ, all);
  CutField(token, 16, 0, all);
  Fence();
  Compare(work_mask_, token, fingerprint, CMPMODE::EQ, all);
  Maxs(AsFloat(stamp), AsFloat(stamp), static_cast<float>(floor_), all);
  Fence();
  AndMask(work_mask_, hit_mask_, all);
  Fence();
  Select(AsFloat(stamp), work_mask_, AsFloat(stamp), 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, all);
  Fence();
  const LocalTensor<int32_t>& key = word;
  Cast(key, AsFloat(stamp), RoundMode::CAST_RINT, all);
  Fence();
  ShiftLeft(key, key, 4, all);
  Fence();
  for (int32_t r = 1; r < buckets; ++r) Adds(key[r * lanes], key[r * lanes], r, lanes);
  Fence();
  for (int32_t r = 1; r < buckets; ++r) {
    Min(key, key, key[r * lanes], lanes);
    Fence();
  }
  Mins(key, key, 16 * (step_ - 1) + buckets, lanes);
  Fence();
  CutField(key, 4, 0, lanes);
  Fence();
  Muls(key, key, 4 * lanes, lanes);
  Fence();
  Add(key, key, lane_bytes_, lanes);
  Fence();
  Gather(targets_[first], bucket, AsUint(key), 0U, static_cast<uint32_t>(count));
  Fence();
}

// bucket_word[target] = token << 16 | victim in ascending order; the words stay in scratch for KeepUnlinked.
__aicore__ inline void Match::WriteWords(int32_t count) {
  const LocalTensor<int32_t> own = Scratch(0, k64_);
  const LocalTensor<int32_t> high_half = Scratch(k64_, k64_);
  Cast(AsFloat(own), victims_, RoundMode::CAST_NONE, count);
  ShiftLeft(high_half, miss_tokens_, 16, count);
  Fence();
  Cast(own, AsFloat(own), RoundMode::CAST_RINT, count);
  Fence();
  Add(own, own, high_half, count);
  const LocalTensor<uint64_t> words = AsPairs(own);
  const LocalTensor<uint64_t> targets = AsPairs(targets_);
  Sync<HardEvent::V_S>();
  for (int32_t i = 0; i < count; i += 2) {
    const uint64_t word2 = words.GetValue(i / 2);
    const uint64_t target2 = targets.GetValue(i / 2);
    bucket_word_.SetValue(static_cast<uint32_t>(target2) / 4, static_cast<uint32_t>(word2));
    if (i + 1 == count) break;
    bucket_word_.SetValue(static_cast<uint32_t>(target2 >> 32) / 4, static_cast<uint32_t>(word2 >> 32));
  }
  // The dummy bucket holds nobody's word, so whoever was sent there counts as unlinked.
  bucket_word_.SetValue(num_buckets_, static_cast<uint32_t>(kEmptyFingerprint << 16 | tiling_.num_slots));
  Sync<HardEvent::S_V>();
}

// Keeps the misses whose target does not hold their own word, in order; returns how many.
__aicore__ inline int32_t Match::KeepUnlinked(int32_t count) {
  const LocalTensor<int32_t> own = Scratch(0, k64_);
  const LocalTensor<int32_t> found = Scratch(k64_, k64_);
  Gather(found, AsInt(bucket_word_), AsUint(targets_), 0U, static_cast<uint32_t>(count));
  Fence();
  Compare(work_mask_, found, own, CMPMODE::EQ, RoundUp(count, kLanes));
  Fence();
  NotMask(work_mask_, work_mask_, RoundUp(count, kLanes));
  Fence();
  const int32_t num_left = Compact(found, miss_tokens_, work_mask_, count);
  if (num_left == 0) return 0;
  const LocalTensor<int16_t> victims = own.ReinterpretCast<int16_t>();
  Compact(victims, victims_, work_mask_, count);
  Fence();
  Adds(miss_tokens_, found, 0, num_left);
  Adds(victims_, victims, static_cast<int16_t>(0), num_left);
  Fence();
  return num_left;
}

}  // namespace sparse_gather

#endif  // AVSG_MATCH_LINK_H
