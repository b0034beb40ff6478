// SPDX-License-Identifier: Apache-2.0
// Gather by byte offsets and GatherMask, the compaction by packed bits.
#ifndef AVSG_CPU_ASCENDC_GATHER_H
#define AVSG_CPU_ASCENDC_GATHER_H

#include "arithmetic.h"
#include "lanes.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

template <typename T>
inline void CheckGather(Instruction& op, const LocalTensor<T>& src, const uint32_t* offsets, uint32_t base,
                        uint64_t count) {
#if AVSG_CPU_CHECKED
  op.Require(base % sizeof(T) == 0, "gather-offset", "base %u is not a multiple of the element's %d bytes",
             base, static_cast<int>(sizeof(T)));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = static_cast<uint64_t>(base) + offsets[i];
    op.Require(offsets[i] % sizeof(T) == 0, "gather-offset",
               "offset %u of element %llu is not a multiple of %d bytes", offsets[i],
               static_cast<unsigned long long>(i), static_cast<int>(sizeof(T)));
    op.Require(src.GetView().bytes >= static_cast<int64_t>(at + sizeof(T)), "gather-offset",
               "offset %u (base %u) of element %llu is outside a source of %lld bytes", offsets[i], base,
               static_cast<unsigned long long>(i), static_cast<long long>(src.GetView().bytes));
    op.Read(View{src.GetView().address + at, static_cast<int64_t>(sizeof(T))}, sizeof(T), sizeof(T));
  }
#else
  (void)op, (void)src, (void)offsets, (void)base, (void)count;
#endif
}

template <typename T>
inline void GatherElements(T* dst, const uint8_t* src, const uint32_t* offsets, uint64_t count) {
#pragma GCC unroll 8
  for (uint64_t i = 0; i < count; ++i) std::memcpy(dst + i, src + offsets[i], sizeof(T));
}

constexpr double kGatheredPerCycle = 5.0;

}  // namespace detail

// dst[i] = the element `base + offsets[i]` bytes after the start of src.
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets,
                   const uint32_t base, const uint32_t count, Site site = Site()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather takes 2 and 4-byte types");
  if (count == 0) return;
  Instruction op("Gather", avsg_cpu::kVector, site);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  op.Require(count / detail::Lanes<T>() <= 255, "gather-count",
             "the API keeps count / %u in eight bits: %u elements wrap, at most %u work", detail::Lanes<T>(),
             count, 256 * detail::Lanes<T>() - 1);
  op.Require(src.GetView().address != dst.GetView().address, "overlap", "the destination is the source");
  op.OverlapTotal(dst.GetView(), bytes, offsets.GetView(), static_cast<uint64_t>(count) * 4);
  op.Read(offsets.GetView(), static_cast<uint64_t>(count) * 4);
  detail::CheckGather(op, src, offsets.Data(), base, count);
  op.Write(dst.GetView(), bytes);
  const uint64_t repeats = count / detail::Lanes<T>();
  const uint32_t tail = count % detail::Lanes<T>();
  // The wrap of the chip: the whole repeats are counted in a uint8_t, the tail is a second instruction.
  const uint64_t done = (repeats & 255) * detail::Lanes<T>();
  if (done != 0) op.Vector(repeats & 255, static_cast<double>(done) / detail::kGatheredPerCycle);
  if (tail != 0) op.Vector(1, tail / detail::kGatheredPerCycle);
  op.Gathered(done + tail);
  const uint8_t* from = reinterpret_cast<const uint8_t*>(src.Data()) + base;
  detail::GatherElements(dst.Data(), from, offsets.Data(), done);
  const uint64_t start = repeats * detail::Lanes<T>();
  detail::GatherElements(dst.Data() + start, from, offsets.Data() + start, tail);
}

namespace detail {

template <typename T>
using Raw = typename std::conditional<sizeof(T) == 4, uint32_t, uint16_t>::type;

// Moves the elements that `bits` selects among src[0..63] to dst, which has room for exactly `room` of them.
template <typename T>
inline T* CompactWord(T* dst, const T* src, uint64_t bits, int64_t room) {
  const int kept = __builtin_popcountll(bits);
  if (kept <= 6) {
    for (; bits != 0; bits &= bits - 1) *dst++ = src[__builtin_ctzll(bits)];
    return dst;
  }
  const T* end = dst + room;
  for (int i = 0; i < 64; i += 8) {
    uint32_t byte = static_cast<uint32_t>(bits >> i & 255);
    if (end - dst >= 12) {
      Compact8(dst, src + i, byte);
      dst += __builtin_popcount(byte);
    } else {
      for (; byte != 0; byte &= byte - 1) *dst++ = src[i + __builtin_ctz(byte)];
    }
  }
  return dst;
}

inline uint64_t PatternWord(const uint8_t* pattern, uint64_t bit, uint64_t end) {
  uint64_t word = 0;
  const uint64_t left = end - bit;
  if (left >= 64) {
    std::memcpy(&word, pattern + bit / 8, 8);
    return word;
  }
  std::memcpy(&word, pattern + bit / 8, (left + 7) / 8);
  return word & ((uint64_t{1} << left) - 1);
}

inline uint64_t FixedPattern(int number) {
  constexpr uint64_t kOnes = 0x0101010101010101ull;
  const uint8_t bytes[8] = {0, 0x55, 0xAA, 0x11, 0x22, 0x44, 0x88, 0xFF};
  return kOnes * bytes[number & 7];
}

// Where a GatherMask takes its bits: a tensor, or one of the fixed patterns.
struct MaskSource {
  const uint8_t* tensor;
  int fixed;
  uint64_t repeat_bytes;
  uint64_t per_repeat;

  // The bits of elements e..e+63 of a repeat, none past its end.
  uint64_t At(uint64_t repeat, uint64_t e) const {
    if (tensor != nullptr) return PatternWord(tensor + repeat * repeat_bytes, e, per_repeat);
    const uint64_t left = per_repeat - e;
    return left >= 64 ? FixedPattern(fixed) : FixedPattern(fixed) & ((uint64_t{1} << left) - 1);
  }
  uint64_t Count(uint64_t repeats) const {
    uint64_t total = 0;
    for (uint64_t r = 0; r < repeats; ++r) {
      for (uint64_t e = 0; e < per_repeat; e += 64)
        total += static_cast<uint64_t>(__builtin_popcountll(At(r, e)));
    }
    return total;
  }
};

template <typename T>
inline void CompactRepeats(T* dst, const T* src, const MaskSource& bits, const GatherMaskParams& p,
                           uint64_t total) {
  const uint32_t block = 32 / sizeof(T);
  T* out = dst;
  for (uint64_t r = 0; r < p.repeatTimes; ++r) {
    const T* s = src + r * p.src0RepeatStride * block;
    for (uint64_t e = 0; e < bits.per_repeat; e += 64) {
      uint64_t word = bits.At(r, e);
      if (word == 0) continue;
      if (p.src0BlockStride == 1 && e + 64 <= bits.per_repeat) {
        out = CompactWord(out, s + e, word, static_cast<int64_t>(total) - (out - dst));
        continue;
      }
      for (; word != 0; word &= word - 1) {
        const uint64_t i = e + static_cast<uint64_t>(__builtin_ctzll(word));
        *out++ = s[i / block * p.src0BlockStride * block + i % block];
      }
    }
  }
}

template <typename T>
inline void GatherMaskAny(const LocalTensor<T>& dst, const LocalTensor<T>& src, const View& pattern,
                          int fixed, bool counter_mode, uint32_t mask, const GatherMaskParams& p,
                          uint64_t& kept, Site site) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "GatherMask takes 2 and 4-byte types");
  kept = 0;
  Instruction op("GatherMask", avsg_cpu::kVector, site);
  op.Require(!counter_mode || mask > 0, "gather-mask-count", "counter mode needs mask >= 1");
  op.Require(fixed >= 0 && fixed <= 7, "gather-mask-pattern", "pattern %d, allowed are 1..7", fixed);
  const MaskSource bits = {fixed == 0 ? pattern.address : nullptr, fixed, uint64_t{p.src1RepeatStride} * 32,
                           counter_mode ? mask : Lanes<T>()};
  if (p.repeatTimes == 0 || bits.per_repeat == 0) return;
  const uint64_t more = p.repeatTimes - 1u;
  const uint64_t last_block = (bits.per_repeat * sizeof(T) + 31) / 32 - 1;
  const uint64_t src_bytes = more * p.src0RepeatStride * 32 + last_block * p.src0BlockStride * 32 +
                             (bits.per_repeat * sizeof(T) - last_block * 32);
  const uint64_t pattern_bytes = fixed != 0 ? 0 : more * bits.repeat_bytes + (bits.per_repeat + 7) / 8;
  op.Read(src.GetView(), src_bytes);
  if (fixed == 0) op.Read(pattern, pattern_bytes);
  const uint64_t total = bits.Count(p.repeatTimes);
  op.OverlapTotal(dst.GetView(), total * sizeof(T), src.GetView(), src_bytes);
  op.OverlapNone(dst.GetView(), total * sizeof(T), pattern, pattern_bytes);
  op.Write(dst.GetView(), total * sizeof(T));
  op.Vector(p.repeatTimes * RepeatsOf<T>(bits.per_repeat),
            static_cast<double>(p.repeatTimes * bits.per_repeat) / (sizeof(T) == 4 ? 32.0 : 64.0));
  op.ScalarWaits();
  CompactRepeats(reinterpret_cast<Raw<T>*>(dst.Data()), reinterpret_cast<const Raw<T>*>(src.Data()), bits, p,
                 total);
  kept = total;
}

}  // namespace detail

// Keeps the elements whose pattern bit is set, dense and in order. reduce_mode true: `mask` elements a repeat
// (counter mode); false: 256 bytes a repeat. kept: how many.
template <typename T, typename U>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<U>& pattern,
                       const bool reduce_mode, const uint32_t mask, const GatherMaskParams& params,
                       uint64_t& kept, Site site = Site()) {
  static_assert(sizeof(T) == sizeof(U) && std::is_unsigned<U>::value,
                "pattern: uint16_t or uint32_t, as wide as data");
  detail::GatherMaskAny(dst, src, pattern.GetView(), 0, reduce_mode, mask, params, kept, site);
}

// pattern 1: even, 2: odd elements; 3..6: element 0..3 of every four; 7: all.
template <typename T>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t pattern,
                       const bool reduce_mode, const uint32_t mask, const GatherMaskParams& params,
                       uint64_t& kept, Site site = Site()) {
  Instruction("GatherMask", avsg_cpu::kVector, site)
      .Require(pattern >= 1 && pattern <= 7, "gather-mask-pattern", "pattern %d, allowed are 1..7", pattern);
  detail::GatherMaskAny(dst, src, View{nullptr, 0}, pattern, reduce_mode, mask, params, kept, site);
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_GATHER_H
