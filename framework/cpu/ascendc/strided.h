// SPDX-License-Identifier: Apache-2.0
// The mask and repeat forms: eight 32-byte blocks a repeat with strides, one mask bit per element.
#ifndef AVSG_CPU_ASCENDC_STRIDED_H
#define AVSG_CPU_ASCENDC_STRIDED_H

#include "arithmetic.h"
#include "gather.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

// One bit per element of a repeat; 32-bit types use the first word.
struct LaneMask {
  uint64_t bits[2];
};
template <typename T>
inline LaneMask ConsecutiveMask(Instruction& op, uint64_t lanes) {
  op.Require(lanes >= 1 && lanes <= Lanes<T>(), "mask-range", "mask %llu, allowed are 1..%u",
             static_cast<unsigned long long>(lanes), Lanes<T>());
  const uint64_t low = lanes >= 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1;
  const uint64_t high = lanes <= 64 ? 0 : lanes >= 128 ? ~uint64_t{0} : (uint64_t{1} << (lanes - 64)) - 1;
  return LaneMask{{low, high}};
}
inline void CheckRepeats(Instruction& op, RepeatCount repeats) {
  const uint32_t count = repeats;
  op.Require(count <= 255, "repeat-limit", "%u repeats, at most 255", count);
}
template <typename T>
inline bool IsFull(const LaneMask& mask) {
  return mask.bits[0] == ~uint64_t{0} && (Lanes<T>() == 64 || mask.bits[1] == ~uint64_t{0});
}

template <typename T>
inline T* BlockOf(T* data, uint64_t repeat, uint32_t repeat_stride, uint64_t block, uint32_t block_stride) {
  return data + (repeat * repeat_stride + block * block_stride) * (32 / sizeof(T));
}

template <typename T, typename F>
inline void BinaryStrided(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src0,
                          const LocalTensor<T>& src1, const LaneMask& mask, RepeatCount repeats,
                          const BinaryRepeatParams& p, Site site, F f) {
  if (repeats == 0) return;
  Instruction op(name, avsg_cpu::kVector, site);
  CheckRepeats(op, repeats);
  const Strides from0 = {repeats, p.src0BlkStride, p.src0RepStride, sizeof(T), mask.bits};
  const Strides from1 = {repeats, p.src1BlkStride, p.src1RepStride, sizeof(T), mask.bits};
  const Strides to = {repeats, p.dstBlkStride, p.dstRepStride, sizeof(T), mask.bits};
  op.OverlapStrided(dst.GetView(), to, src0.GetView(), from0, false);
  // Documented for the second source only, when it or the destination stands still.
  op.OverlapStrided(dst.GetView(), to, src1.GetView(), from1,
                    sizeof(T) == 4 && (p.src1RepStride == 0 || p.dstRepStride == 0));
  op.ReadStrided(src0.GetView(), from0);
  op.ReadStrided(src1.GetView(), from1);
  op.WriteStrided(dst.GetView(), to);
  op.Vector(repeats, repeats);
  constexpr int kPerBlock = 32 / sizeof(T);
  const bool full = IsFull<T>(mask);
  for (uint64_t r = 0; r < repeats; ++r) {
    for (uint64_t b = 0; b < 8; ++b) {
      T* d = BlockOf(dst.Data(), r, p.dstRepStride, b, p.dstBlkStride);
      const T* x = BlockOf(src0.Data(), r, p.src0RepStride, b, p.src0BlkStride);
      const T* y = BlockOf(src1.Data(), r, p.src1RepStride, b, p.src1BlkStride);
      if (full) {
#pragma GCC ivdep
        for (int i = 0; i < kPerBlock; ++i) d[i] = f(x[i], y[i]);
        continue;
      }
      for (int i = 0; i < kPerBlock; ++i) {
        const uint64_t lane = b * kPerBlock + i;
        if (mask.bits[lane / 64] >> (lane % 64) & 1) d[i] = f(x[i], y[i]);
      }
    }
  }
}

template <typename T, typename F>
inline void UnaryStrided(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>* src,
                         const LaneMask& mask, RepeatCount repeats, const UnaryRepeatParams& p, Site site,
                         F f) {
  if (repeats == 0) return;
  Instruction op(name, avsg_cpu::kVector, site);
  CheckRepeats(op, repeats);
  const Strides from = {repeats, p.srcBlkStride, p.srcRepStride, sizeof(T), mask.bits};
  const Strides to = {repeats, p.dstBlkStride, p.dstRepStride, sizeof(T), mask.bits};
  if (src != nullptr) {
    op.OverlapStrided(dst.GetView(), to, src->GetView(), from, false);
    op.ReadStrided(src->GetView(), from);
  }
  op.WriteStrided(dst.GetView(), to);
  op.Vector(repeats, repeats);
  constexpr int kPerBlock = 32 / sizeof(T);
  for (uint64_t r = 0; r < repeats; ++r) {
    for (uint64_t b = 0; b < 8; ++b) {
      T* d = BlockOf(dst.Data(), r, p.dstRepStride, b, p.dstBlkStride);
      const T* x = src == nullptr ? d : BlockOf(src->Data(), r, p.srcRepStride, b, p.srcBlkStride);
      for (int i = 0; i < kPerBlock; ++i) {
        const uint64_t lane = b * kPerBlock + i;
        if (mask.bits[lane / 64] >> (lane % 64) & 1) d[i] = f(x[i]);
      }
    }
  }
}

}  // namespace detail

#define AVSG_CPU_BINARY(Name)                                                                            \
  template <typename T>                                                                                  \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,    \
                   uint64_t mask[], const RepeatCount repeats, const BinaryRepeatParams& params,         \
                   Site site = Site()) {                                                                 \
    detail::BinaryStrided(#Name, dst, src0, src1, detail::LaneMask{{mask[0], mask[1]}}, repeats, params, \
                          site, detail::Name##Op());                                                     \
  }                                                                                                      \
  template <typename T>                                                                                  \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,    \
                   uint64_t mask, const RepeatCount repeats, const BinaryRepeatParams& params,           \
                   Site site = Site()) {                                                                 \
    Instruction op(#Name, avsg_cpu::kVector, site);                                                      \
    detail::BinaryStrided(#Name, dst, src0, src1, detail::ConsecutiveMask<T>(op, mask), repeats, params, \
                          site, detail::Name##Op());                                                     \
  }
AVSG_CPU_BINARY(Add)
AVSG_CPU_BINARY(Sub)
AVSG_CPU_BINARY(Mul)
AVSG_CPU_BINARY(Max)
AVSG_CPU_BINARY(Min)
#undef AVSG_CPU_BINARY

#define AVSG_CPU_SCALAR(Name, Op)                                                                          \
  template <typename T>                                                                                    \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask[], \
                   const RepeatCount repeats, const UnaryRepeatParams& params, Site site = Site()) {       \
    const T s = scalar;                                                                                    \
    detail::UnaryStrided(#Name, dst, &src, detail::LaneMask{{mask[0], mask[1]}}, repeats, params, site,    \
                         [s](T a) { return detail::Op()(a, s); });                                         \
  }                                                                                                        \
  template <typename T>                                                                                    \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask,   \
                   const RepeatCount repeats, const UnaryRepeatParams& params, Site site = Site()) {       \
    Instruction op(#Name, avsg_cpu::kVector, site);                                                        \
    const T s = scalar;                                                                                    \
    detail::UnaryStrided(#Name, dst, &src, detail::ConsecutiveMask<T>(op, mask), repeats, params, site,    \
                         [s](T a) { return detail::Op()(a, s); });                                         \
  }
AVSG_CPU_SCALAR(Adds, AddOp)
AVSG_CPU_SCALAR(Muls, MulOp)
AVSG_CPU_SCALAR(Maxs, MaxOp)
AVSG_CPU_SCALAR(Mins, MinOp)
#undef AVSG_CPU_SCALAR

// With one mask bit set: a store of one element by the vector pipe.
template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalar, uint64_t mask[], const RepeatCount repeats,
                      const uint16_t block_stride, const uint8_t repeat_stride, Site site = Site()) {
  const T value = scalar;
  detail::UnaryStrided<T>("Duplicate", dst, nullptr, detail::LaneMask{{mask[0], mask[1]}}, repeats,
                          UnaryRepeatParams(block_stride, 1, repeat_stride, 8), site,
                          [value](T) { return value; });
}
template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalar, uint64_t mask, const RepeatCount repeats,
                      const uint16_t block_stride, const uint8_t repeat_stride, Site site = Site()) {
  Instruction op("Duplicate", avsg_cpu::kVector, site);
  const T value = scalar;
  detail::UnaryStrided<T>("Duplicate", dst, nullptr, detail::ConsecutiveMask<T>(op, mask), repeats,
                          UnaryRepeatParams(block_stride, 1, repeat_stride, 8), site,
                          [value](T) { return value; });
}

// Offsets are dense: 256 / sizeof(T) per repeat, whatever the mask.
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets,
                   const uint32_t base, const uint64_t mask, const RepeatCount repeats,
                   const uint16_t repeat_stride, Site site = Site()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather takes 2 and 4-byte types");
  if (repeats == 0) return;
  Instruction op("Gather", avsg_cpu::kVector, site);
  detail::CheckRepeats(op, repeats);
  const detail::LaneMask lanes = detail::ConsecutiveMask<T>(op, mask);
  const uint8_t* from = reinterpret_cast<const uint8_t*>(src.Data()) + base;
  op.Require(src.GetView().address != dst.GetView().address, "overlap", "the destination is the source");
  for (uint64_t r = 0; r < repeats; ++r) {
    const LocalTensor<uint32_t> at = offsets[static_cast<uint32_t>(r * detail::Lanes<T>())];
    op.Read(at.GetView(), mask * 4);
    detail::CheckGather(op, src, at.Data(), base, mask);
  }
  op.WriteStrided(dst.GetView(), Strides{repeats, 1, repeat_stride, sizeof(T), lanes.bits});
  op.Vector(repeats, static_cast<double>(repeats * mask) / detail::kGatheredPerCycle);
  op.Gathered(repeats * mask);
  for (uint64_t r = 0; r < repeats; ++r) {
    detail::GatherElements(detail::BlockOf(dst.Data(), r, repeat_stride, 0, 1), from,
                           offsets.Data() + r * detail::Lanes<T>(), mask);
  }
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_STRIDED_H
