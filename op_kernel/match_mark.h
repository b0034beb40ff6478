// SPDX-License-Identifier: Apache-2.0
// Match: many slots at once. A2 has no vector scatter, so a bit per slot is made by sorting the listed slots,
// merging them with the list of all slots, and asking of every slot whether its neighbour in the merged order
// is itself.
#ifndef AVSG_MATCH_MARK_H
#define AVSG_MATCH_MARK_H

namespace sparse_gather {

// Rewrites the stamps of all hit slots slot by slot: every element of the state sees the rule, the marks
// choose.
__aicore__ inline void Match::RefreshMarked() {
  const int32_t count = tiling_.num_slots;
  Compact(tokens_, slots_, hit_mask_, num_valid_);
  Fence();
  MarkSlots(num_hits_);
  const LocalTensor<int32_t> age = Scratch(0, count);
  const LocalTensor<int32_t> stamp = Scratch(count, count);
  const LocalTensor<uint8_t> old = Scratch(2 * count, count / 32).ReinterpretCast<uint8_t>();
  AgeOf(slot_stamp_, AsFloat(age), count);
  CompareScalar(old, AsFloat(age), static_cast<float>(Lag()), CMPMODE::GE, count);
  Fence();
  AndMask(old, slot_mask_, count);
  RefreshedStamp(AsFloat(age), stamp, count);
  Cast(AsFloat(stamp), stamp, RoundMode::CAST_RINT, count);
  Fence();
  Select(slot_stamp_, old, AsFloat(stamp), slot_stamp_, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
  Fence();
}

// slot_mask_ = one bit for each slot among the first `count` byte offsets of tokens_ (repeats allowed).
// A listed slot s has key 2 * (S-1-s) + 1 and tag 1, the list of all slots has key 2 * (S-1-s) and tag 0. In
// descending order a slot is listed exactly if the element before its tag 0 has a key that is one higher.
__aicore__ inline void Match::MarkSlots(int32_t count) {
  const int32_t num_slots = tiling_.num_slots;
  const int32_t merged = kSortLength + num_slots;
  const uint32_t bytes = static_cast<uint32_t>(merged);
  SortMarks(count);
  const LocalTensor<float> pairs = AsFloat(Scratch(8, 2 * merged));
  const LocalTensor<float> from_pad = AsFloat(Scratch(0, 8 + 2 * merged));
  const LocalTensor<int32_t> offsets = Scratch(8 + 2 * merged, merged);
  const LocalTensor<int32_t> key = Scratch(8 + 3 * merged, merged);
  const LocalTensor<int32_t> before = Scratch(8 + 4 * merged, merged);
  Duplicate(from_pad, -1.0f, 8);
  Add(offsets, lane_bytes_, lane_bytes_, tiling_.link_tile);
  ExtendIota(offsets, tiling_.link_tile, merged, 8);
  Gather(AsFloat(key), pairs, AsUint(offsets), 0U, bytes);
  Gather(AsFloat(before), from_pad, AsUint(offsets), 24U, bytes);
  Fence();
  Sub(AsFloat(before), AsFloat(before), AsFloat(key), merged);
  Fence();
  Gather(AsFloat(key), pairs, AsUint(offsets), 4U, bytes);
  Fence();
  const LocalTensor<uint8_t> is_slot = offsets.ReinterpretCast<uint8_t>();
  CompareScalar(is_slot, key, 0, CMPMODE::EQ, merged);
  Fence();
  Compact(key, before, is_slot, merged);
  Fence();
  CompareScalar(slot_mask_, AsFloat(key), 1.0f, CMPMODE::EQ, num_slots);
  Fence();
}

// Merges the list in tokens_ with the list of all slots into (key, tag) pairs at word 8 of scratch.
__aicore__ inline void Match::SortMarks(int32_t count) {
  const int32_t num_slots = tiling_.num_slots;
  const int32_t merged = kSortLength + num_slots;
  const float top = static_cast<float>(2 * num_slots - 2);
  const LocalTensor<int32_t> low = Scratch(8, 2 * merged);
  const LocalTensor<int32_t> high = Scratch(8 + 2 * merged, 3 * merged);
  const LocalTensor<float> low_pairs = AsFloat(low);
  const LocalTensor<float> high_pairs = AsFloat(high);
  const LocalTensor<float> all_pairs = high_pairs[2 * kSortLength];
  // The listed slots: an offset is 4s, so 2 * (S-1-s) + 1 = top + 1 - offset / 2. Keys of -1 fill the sort.
  const LocalTensor<float> list_keys = high_pairs;
  const LocalTensor<int32_t> list_tags = high[kSortLength];
  Duplicate(list_keys, -1.0f, kSortLength);
  Duplicate(list_tags, 1, kSortLength);
  Fence();
  Cast(list_keys, tokens_, RoundMode::CAST_RINT, count);
  Fence();
  Muls(list_keys, list_keys, -0.5f, count);
  Fence();
  Adds(list_keys, list_keys, top + 1.0f, count);
  Fence();
  Sort32(low_pairs, list_keys, AsUint(list_tags), kSortLength / 32);
  for (int32_t run = 32, to_high = 1; run < kSortLength; run *= 4, to_high ^= 1) {
    const LocalTensor<float>& from = to_high ? low_pairs : high_pairs;
    const uint16_t length = static_cast<uint16_t>(run);
    const uint16_t lengths[4] = {length, length, length, length};
    Fence();
    MrgSort(to_high ? high_pairs : low_pairs,
            MrgSortSrcList<float>(from, from[2 * run], from[4 * run], from[6 * run]),
            MrgSort4Info(lengths, false, 0b1111, static_cast<uint16_t>(kSortLength / 4 / run)));
  }
  Fence();
  // All slots: keys 2(S-1) - 2s descend already, so that sorting groups of 32 only pairs them with their
  // tags.
  const LocalTensor<int32_t> slot_keys = low;
  const LocalTensor<int32_t> slot_tags = low[num_slots];
  Muls(slot_keys, lane_bytes_, -1, tiling_.link_tile);
  Duplicate(slot_tags, 0, num_slots);
  Fence();
  ExtendIota(slot_keys, tiling_.link_tile, num_slots, -4);
  Cast(AsFloat(slot_keys), slot_keys, RoundMode::CAST_RINT, num_slots);
  Fence();
  Muls(AsFloat(slot_keys), AsFloat(slot_keys), 0.5f, num_slots);
  Fence();
  Adds(AsFloat(slot_keys), AsFloat(slot_keys), top, num_slots);
  Fence();
  Sort32(all_pairs, AsFloat(slot_keys), AsUint(slot_tags), num_slots / 32);
  Fence();
  const uint16_t lengths[4] = {static_cast<uint16_t>(kSortLength), static_cast<uint16_t>(num_slots), 0, 0};
  MrgSort(low_pairs, MrgSortSrcList<float>(high_pairs, all_pairs, all_pairs, all_pairs),
          MrgSort4Info(lengths, false, 0b0011, 1));
  Fence();
}

}  // namespace sparse_gather

#endif  // AVSG_MATCH_MARK_H
