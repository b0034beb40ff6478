// SPDX-License-Identifier: Apache-2.0
// Sort32 and MrgSort: descending runs of (score, index) pairs of 8 bytes; equal scores keep their order.
#ifndef AVSG_CPU_ASCENDC_SORT_H
#define AVSG_CPU_ASCENDC_SORT_H

#include "arithmetic.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {

template <typename T>
struct MrgSortSrcList {
  MrgSortSrcList() = default;
  MrgSortSrcList(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c,
                 const LocalTensor<T>& d)
      : src1(a), src2(b), src3(c), src4(d) {}
  LocalTensor<T> src1;
  LocalTensor<T> src2;
  LocalTensor<T> src3;
  LocalTensor<T> src4;
};

namespace detail {

struct Pair {
  float score;
  uint32_t index;
};

// Ranks by counting, which vectorises and needs no branch: rank = scores greater, plus equal ones before.
inline void SortGroup(Pair* dst, const float* scores, const uint32_t* indices) {
  for (int i = 0; i < 32; ++i) {
    const float mine = scores[i];
    int32_t rank = 0;
    for (int j = 0; j < 32; ++j)
      rank += static_cast<int32_t>(scores[j] > mine || (scores[j] == mine && j < i));
    dst[rank] = Pair{mine, indices[i]};
  }
}

struct Queue {
  const Pair* next;
  const Pair* end;
};

inline void MergeTwo(Pair* dst, Queue a, Queue b) {
  while (a.next != a.end && b.next != b.end) {
    const bool from_b = b.next->score > a.next->score;
    *dst++ = *(from_b ? b.next : a.next);
    a.next += !from_b;
    b.next += from_b;
  }
  while (a.next != a.end) *dst++ = *a.next++;
  while (b.next != b.end) *dst++ = *b.next++;
}

inline void MergeQueues(Pair* dst, Queue* queues, int n) {
  if (n == 2) return MergeTwo(dst, queues[0], queues[1]);
  for (;;) {
    int best = -1;
    for (int q = 0; q < n; ++q) {
      if (queues[q].next == queues[q].end) continue;
      if (best < 0 || queues[q].next->score > queues[best].next->score) best = q;
    }
    if (best < 0) return;
    *dst++ = *queues[best].next++;
  }
}

}  // namespace detail

// Groups of 32: dst takes 64 floats a group. repeats 0..255.
template <typename T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& scores,
                   const LocalTensor<uint32_t>& indices, const int32_t repeats, Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "Sort32 takes float scores");
  Instruction op("Sort32", avsg_cpu::kVector, site);
  op.Require(repeats >= 0 && repeats <= 255, "repeat-limit", "repeats %d, allowed are 0..255", repeats);
  if (repeats <= 0) return;
  const uint64_t n = static_cast<uint64_t>(repeats) * 32;
  op.OverlapNone(dst.GetView(), n * 8, scores.GetView(), n * 4);
  op.OverlapNone(dst.GetView(), n * 8, indices.GetView(), n * 4);
  op.Read(scores.GetView(), n * 4);
  op.Read(indices.GetView(), n * 4);
  op.Write(dst.GetView(), n * 8);
  op.Vector(static_cast<uint64_t>(repeats), static_cast<double>(n) / 2);
  auto* out = reinterpret_cast<detail::Pair*>(dst.Data());
  for (int32_t r = 0; r < repeats; ++r) {
    detail::SortGroup(out + r * 32, scores.Data() + r * 32, indices.Data() + r * 32);
  }
}

// Merges 2 to 4 descending queues. More than one repeat needs four queues of one length that follow each
// other.
template <typename T>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& info,
                    Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "MrgSort takes float scores");
  Instruction op("MrgSort", avsg_cpu::kVector, site);
  if (info.repeatTimes == 0) return;
  const int n = info.validBit == 15 ? 4 : info.validBit == 7 ? 3 : 2;
  op.Require(info.validBit == 3 || info.validBit == 7 || info.validBit == 15, "merge-queues",
             "validBit %d, allowed are 3, 7 and 15", info.validBit);
  op.Require(!info.ifExhaustedSuspension, "merge-queues", "ifExhaustedSuspension is not modelled");
  const LocalTensor<T>* lists[4] = {&src.src1, &src.src2, &src.src3, &src.src4};
  uint64_t sum = 0;
  bool equal = n == 4;
  for (int q = 0; q < n; ++q) {
    const uint16_t length = info.elementLengths[q];
    op.Require(length <= 4095, "merge-queues", "queue %d has %d elements, at most 4095", q, length);
    equal = equal && length == info.elementLengths[0] &&
            lists[q]->Data() == lists[0]->Data() + static_cast<int64_t>(q) * length * 2;
    sum += length;
  }
  op.Require(info.repeatTimes == 1 || equal, "merge-queues",
             "%d repeats need four adjacent queues of equal length", info.repeatTimes);
  const uint64_t all = sum * info.repeatTimes * 8;
  for (int q = 0; q < n; ++q) {
    const uint64_t bytes = ((info.repeatTimes - 1) * sum + info.elementLengths[q]) * 8;
    if (info.elementLengths[q] == 0) continue;
    op.OverlapNone(dst.GetView(), all, lists[q]->GetView(), bytes);
    op.Read(lists[q]->GetView(), bytes, 8);
  }
  op.Write(dst.GetView(), all);
  op.Vector(info.repeatTimes, static_cast<double>(sum * info.repeatTimes) / 2);
  for (uint64_t r = 0; r < info.repeatTimes; ++r) {
    detail::Queue queues[4];
    for (int q = 0; q < n; ++q) {
      const auto* first = reinterpret_cast<const detail::Pair*>(lists[q]->Data()) + r * sum;
      queues[q] = detail::Queue{first, first + info.elementLengths[q]};
    }
    detail::MergeQueues(reinterpret_cast<detail::Pair*>(dst.Data()) + r * sum, queues, n);
  }
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_SORT_H
