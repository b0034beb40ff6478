// SPDX-License-Identifier: Apache-2.0
// Match: COLLECT finds victims for the misses, INSTALL gives them their slots, OUTPUT writes slots and plan.
#ifndef AVSG_MATCH_COLLECT_H
#define AVSG_MATCH_COLLECT_H

namespace sparse_gather {

// COLLECT: raise the floor until enough slots are dead, moving promised slots out of the way. Leaves the
// victims in victims_ and the dead slots' bits in slot_mask_.
__aicore__ inline void Match::Collect(int32_t query) {
  AwaitLoad(kStampLoad);
  int32_t floor = floor_;
  for (int32_t pass = 1;; ++pass) {
    floor = FindFloor(floor);
    if (floor < oldest_promised_) break;
    const int32_t num_late = StampPromised(query, floor);
    oldest_promised_ = floor + 1;
    if (num_late == 0) {
      CountDead(floor);  // the search for late slots overwrote the victims
      break;
    }
    counters_[kCounterFlags] |= kFlagPromisedStamped;
    if (pass >= 3) {
      StampPromised(query, step_ - 1);
      oldest_promised_ = step_;
    }
  }
  floor_ = floor;
}

// The smallest floor, from `floor` on, at which the misses find enough dead slots. It is below step, because
// all slots that are younger are promised, and Q*K <= S.
__aicore__ inline int32_t Match::FindFloor(int32_t floor) {
  if (CountDead(floor) >= num_misses_) return floor;
  int32_t too_low = floor;
  int32_t enough = floor;
  for (int32_t ahead = 1; enough == floor; ahead *= 2) {
    const int32_t candidate = MinOf(floor + ahead, step_ - 1);
    if (CountDead(candidate) >= num_misses_) {
      enough = candidate;
    } else {
      too_low = candidate;
    }
  }
  bool counted = true;  // victims_ belongs to `enough`
  while (enough - too_low > 1) {
    const int32_t middle = (enough + too_low) / 2;
    counted = CountDead(middle) >= num_misses_;
    (counted ? enough : too_low) = middle;
  }
  if (!counted) CountDead(enough);
  return enough;
}

// Lists the slots with stamp <= floor and returns how many; may stop at half of the slots once there are
// enough.
__aicore__ inline int32_t Match::CountDead(int32_t floor) {
  const int32_t num_slots = tiling_.num_slots;
  const LocalTensor<int16_t> iota = Scratch(0, num_slots / 2).ReinterpretCast<int16_t>();
  CompareScalar(slot_mask_, slot_stamp_, static_cast<float>(floor), CMPMODE::LE, num_slots);
  Adds(iota, small_[kSeed].ReinterpretCast<int16_t>(), static_cast<int16_t>(0), 16);
  ExtendIota(iota, 16, num_slots, 1);
  const int32_t num_dead = Compact(victims_, iota, slot_mask_, num_slots / 2);
  Fence();
  return num_dead >= num_misses_ ? num_dead : Compact(victims_, iota, slot_mask_, num_slots);
}

// Gives every promised slot with stamp <= limit the stamp `step`; returns how many there were.
__aicore__ inline int32_t Match::StampPromised(int32_t query, int32_t limit) {
  const LocalTensor<int32_t> temp0 = Scratch(0, k64_);
  const LocalTensor<int32_t> temp1 = Scratch(k64_, k64_);
  int32_t num_late = 0;
  if (num_hits_ > 0) {
    Fence();
    Compact(temp0, slots_, hit_mask_, num_valid_);
    Fence();
    num_late += StampLate(temp0, temp1, num_hits_, limit);
  }
  for (int32_t earlier = 0; earlier < query; ++earlier) {
    const int64_t line = (int64_t{entry_} * tiling_.num_queries + earlier) * tiling_.top_k;
    Sync<HardEvent::MTE3_MTE2>();
    Sync<HardEvent::V_MTE2>();
    CopyIn(temp0, Global<int32_t>(args_.slots, 4 * line), 4 * tiling_.top_k);
    Sync<HardEvent::MTE2_V>();
    Maxs(temp1, temp0, 0, k64_);
    Fence();
    Compare(work_mask_, temp1, temp0, CMPMODE::EQ, k64_);
    Fence();
    const int32_t count = Compact(temp1, temp0, work_mask_, tiling_.top_k);
    if (count == 0) continue;
    Fence();
    ShiftLeft(temp1, temp1, 2, count);
    Fence();
    num_late += StampLate(temp1, temp0, count, limit);
  }
  return num_late;
}

__aicore__ inline int32_t Match::StampLate(const LocalTensor<int32_t>& offsets,
                                           const LocalTensor<int32_t>& temp, int32_t count, int32_t limit) {
  Gather(AsFloat(temp), slot_stamp_, AsUint(offsets), 0U, static_cast<uint32_t>(count));
  Fence();
  CompareScalar(work_mask_, AsFloat(temp), static_cast<float>(limit), CMPMODE::LE, RoundUp(count, kLanes));
  Fence();
  const int32_t num_late = Compact(tokens_, offsets, work_mask_, count);
  if (num_late == 0) return 0;
  const float now = static_cast<float>(step_);
  if (num_late >= tiling_.mark_min_slots) {
    Fence();
    MarkSlots(num_late);
    NotMask(slot_mask_, slot_mask_, tiling_.num_slots);
    Fence();
    Select(slot_stamp_, slot_mask_, slot_stamp_, now, SELMODE::VSEL_TENSOR_SCALAR_MODE, tiling_.num_slots);
    Fence();
    return num_late;
  }
  const LocalTensor<uint64_t> pairs = AsPairs(tokens_);
  Sync<HardEvent::V_S>();
  for (int32_t i = 0; i < num_late; i += 2) {
    const uint64_t pair = pairs.GetValue(i / 2);
    slot_stamp_.SetValue(static_cast<uint32_t>(pair) / 4, now);
    if (i + 1 < num_late) slot_stamp_.SetValue(static_cast<uint32_t>(pair >> 32) / 4, now);
  }
  Sync<HardEvent::S_V>();
  return num_late;
}

// INSTALL: the k-th miss gets the k-th victim. Also turns slots_ from byte offsets into the query's slots.
__aicore__ inline void Match::Install() {
  const int32_t stamp = 2 * num_misses_ > tiling_.top_k ? step_ : OldestStart();
  oldest_promised_ = MinOf(oldest_promised_, stamp);
  const LocalTensor<int16_t> iota = Scratch(0, tiling_.num_slots / 2).ReinterpretCast<int16_t>();
  Fence();
  NotMask(work_mask_, hit_mask_, RoundUp(num_valid_, kLanes));
  ShiftRight(AsUint(slots_), AsUint(slots_), 2U, num_valid_);
  Fence();
  Compact(positions_, iota, work_mask_, num_valid_);
  Sync<HardEvent::V_S>();
  StampVictims(static_cast<uint16_t>(victims_.GetValue(num_misses_ - 1)), stamp);
  PlaceMisses();
}

// Slots 0..last whose bit is set in slot_mask_ are the victims.
__aicore__ inline void Match::StampVictims(int32_t last, int32_t stamp) {
  const int32_t count = RoundUp(last + 1, kLanes);
  const LocalTensor<uint64_t> words = AsPairs(slot_mask_);
  const uint64_t past_last = ~uint64_t{0} << (last % kLanes) << 1;
  words.SetValue(last / kLanes, words.GetValue(last / kLanes) & ~past_last);
  Sync<HardEvent::S_V>();
  NotMask(slot_mask_, slot_mask_, count);
  Fence();
  Select(slot_stamp_, slot_mask_, slot_stamp_, static_cast<float>(stamp), SELMODE::VSEL_TENSOR_SCALAR_MODE,
         count);
  Fence();
}

// slot_token[victim] = token and slots[position] = victim, by scalar but for victims in one run and queries
// without hits.
__aicore__ inline void Match::PlaceMisses() {
  const int32_t count = num_misses_;
  const LocalTensor<int32_t> victim_words = Scratch(0, k64_);
  Cast(AsFloat(victim_words), victims_, RoundMode::CAST_NONE, count);
  Fence();
  Cast(victim_words, AsFloat(victim_words), RoundMode::CAST_RINT, count);
  Fence();
  const int32_t first = static_cast<uint16_t>(victims_.GetValue(0));
  const int32_t last = static_cast<uint16_t>(victims_.GetValue(count - 1));
  const bool one_run = last - first == count - 1 && first % 8 == 0;
  const bool no_hits = count == num_valid_;
  if (one_run) Adds(slot_token_[first], miss_tokens_, 0, count);
  if (no_hits) Adds(slots_, victim_words, 0, count);
  if (one_run && no_hits) return;
  const LocalTensor<uint64_t> victims = AsPairs(victims_);
  const LocalTensor<uint64_t> positions = AsPairs(positions_);
  const LocalTensor<uint64_t> tokens = AsPairs(miss_tokens_);
  Sync<HardEvent::V_S>();
  for (int32_t i = 0; i < count; i += 4) {
    uint64_t victim4 = victims.GetValue(i / 4);
    uint64_t position4 = no_hits ? 0 : positions.GetValue(i / 4);
    uint64_t token2 = 0;
    for (int32_t k = i; k < MinOf(i + 4, count); ++k) {
      const int32_t victim = static_cast<int32_t>(victim4 & 0xFFFF);
      if (!one_run) {
        if (k % 2 == 0) token2 = tokens.GetValue(k / 2);
        slot_token_.SetValue(victim, static_cast<int32_t>(token2));
        token2 >>= 32;
      }
      if (!no_hits) slots_.SetValue(static_cast<int32_t>(position4 & 0xFFFF), victim);
      victim4 >>= 16;
      position4 >>= 16;
    }
  }
  Sync<HardEvent::S_V>();
}

// OUTPUT: the slots of the valid tokens, packed, then -1.
__aicore__ inline void Match::WriteSlots(int32_t query) {
  const int64_t line = (int64_t{entry_} * tiling_.num_queries + query) * tiling_.top_k;
  Fence();
  FillTail(slots_, num_valid_, tiling_.top_k, kPadToken);
  Sync<HardEvent::V_MTE3>();
  Sync<HardEvent::S_MTE3>();
  CopyOut(Global<int32_t>(args_.slots, 4 * line), slots_, 4 * tiling_.top_k);
}

// Appends the misses to the plan; PlaceMisses left the victims as words.
__aicore__ inline void Match::WriteMisses() {
  const int64_t at = 4 * (int64_t{entry_} * tiling_.num_queries * tiling_.top_k + num_planned_);
  CopyOut(Global<int32_t>(args_.miss_tokens, at), miss_tokens_, 4 * num_misses_);
  CopyOut(Global<int32_t>(args_.miss_slots, at), Scratch(0, k64_), 4 * num_misses_);
  num_planned_ += num_misses_;
}

}  // namespace sparse_gather

#endif  // AVSG_MATCH_COLLECT_H
