// SPDX-License-Identifier: Apache-2.0
// Compare to packed bits and Select by packed bits.
#ifndef AVSG_CPU_ASCENDC_COMPARE_H
#define AVSG_CPU_ASCENDC_COMPARE_H

#include "arithmetic.h"
#include "lanes.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

struct LtOp {
  template <typename V>
  auto operator()(const V& a, const V& b) const {
    return a < b;
  }
};
struct GtOp {
  template <typename V>
  auto operator()(const V& a, const V& b) const {
    return a > b;
  }
};
struct EqOp {
  template <typename V>
  auto operator()(const V& a, const V& b) const {
    return a == b;
  }
};
struct LeOp {
  template <typename V>
  auto operator()(const V& a, const V& b) const {
    return a <= b;
  }
};
struct GeOp {
  template <typename V>
  auto operator()(const V& a, const V& b) const {
    return a >= b;
  }
};
struct NeOp {
  template <typename V>
  auto operator()(const V& a, const V& b) const {
    return a != b;
  }
};

// Bit i of the output is f(a[i], b[i]), where b stands still if kScalar.
template <bool kScalar, typename T, typename F>
inline void CompareWords(uint8_t* dst, const T* a, const T* b, uint64_t repeats, F f) {
  using V = typename VectorOf<T>::type;
  constexpr int kLanes = VectorOf<T>::kLanes;
  const V all = Splat<T>(*b);
  for (uint64_t r = 0; r < repeats; ++r) {
    uint64_t word = 0;
    for (int i = 0; i < 64; i += kLanes) {
      const V x = Load<T>(a + r * 64 + i);
      const V y = kScalar ? all : Load<T>(b + r * 64 + i);
      word |= static_cast<uint64_t>(SignBits(f(x, y))) << i;
    }
    std::memcpy(dst + r * 8, &word, 8);
  }
}

template <bool kScalar, typename T>
inline void CompareByMode(uint8_t* dst, const T* a, const T* b, uint64_t repeats, CMPMODE mode) {
  if (std::is_same<T, int32_t>::value) mode = CMPMODE::EQ;  // the chip has no other integer comparison
  switch (mode) {
    case CMPMODE::LT:
      return CompareWords<kScalar>(dst, a, b, repeats, LtOp());
    case CMPMODE::GT:
      return CompareWords<kScalar>(dst, a, b, repeats, GtOp());
    case CMPMODE::EQ:
      return CompareWords<kScalar>(dst, a, b, repeats, EqOp());
    case CMPMODE::LE:
      return CompareWords<kScalar>(dst, a, b, repeats, LeOp());
    case CMPMODE::GE:
      return CompareWords<kScalar>(dst, a, b, repeats, GeOp());
    case CMPMODE::NE:
      return CompareWords<kScalar>(dst, a, b, repeats, NeOp());
  }
}

// Rules that Compare and CompareScalar share; returns the whole repeats in count.
template <typename T>
inline uint64_t StartCompare(Instruction& op, CMPMODE mode, uint32_t count) {
  static_assert(std::is_same<T, float>::value || std::is_same<T, int32_t>::value,
                "compares float or int32_t");
  op.Require(std::is_same<T, float>::value || mode == CMPMODE::EQ, "int32-compare",
             "int32_t can only be compared with EQ, got mode %d", static_cast<int>(mode));
  op.Require(count % 64 == 0, "compare-granularity",
             "compares whole 256-byte repeats: the last %u of %u elements are ignored", count % 64, count);
  return count / 64;
}

// The API cuts long vectors into instructions of 252 repeats.
inline void CostCompare(Instruction& op, uint64_t repeats) {
  for (uint64_t done = 0; done < repeats; done += 252) {
    const uint64_t part = repeats - done < 252 ? repeats - done : 252;
    op.Vector(part, static_cast<double>(part));
  }
}

}  // namespace detail

// dst: one bit per element, little-endian; the bytes of whole repeats only.
template <typename T, typename U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                    CMPMODE mode, uint32_t count, Site site = Site()) {
  static_assert(sizeof(U) == 1, "the bits go to int8_t or uint8_t");
  if (count == 0) return;
  Instruction op("Compare", avsg_cpu::kVector, site);
  const uint64_t repeats = detail::StartCompare<T>(op, mode, count);
  op.OverlapNone(dst.GetView(), repeats * 8, src0.GetView(), repeats * 256);
  op.OverlapNone(dst.GetView(), repeats * 8, src1.GetView(), repeats * 256);
  op.Read(src0.GetView(), repeats * 256);
  op.Read(src1.GetView(), repeats * 256);
  op.Write(dst.GetView(), repeats * 8);
  detail::CostCompare(op, repeats);
  if (repeats == 0) return;
  detail::CompareByMode<false>(reinterpret_cast<uint8_t*>(dst.Data()), src0.Data(), src1.Data(), repeats,
                               mode);
}

template <typename T, typename U>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                          uint32_t count, Site site = Site()) {
  static_assert(sizeof(U) == 1, "the bits go to int8_t or uint8_t");
  if (count == 0) return;
  Instruction op("CompareScalar", avsg_cpu::kVector, site);
  const uint64_t repeats = detail::StartCompare<T>(op, mode, count);
  op.OverlapNone(dst.GetView(), repeats * 8, src0.GetView(), repeats * 256);
  op.Read(src0.GetView(), repeats * 256);
  op.Write(dst.GetView(), repeats * 8);
  detail::CostCompare(op, repeats);
  if (repeats == 0) return;
  detail::CompareByMode<true>(reinterpret_cast<uint8_t*>(dst.Data()), src0.Data(), &scalar, repeats, mode);
}

namespace detail {

// d[i] = bit i ? a[i] : b[i]. Bits of the 64 lanes of a repeat start anew at each repeat when kReuse (mode
// 0).
template <bool kScalar, bool kReuse>
inline void SelectLanes(float* d, const uint8_t* bits, const float* a, const float* b, uint32_t count) {
  using V = VectorOf<int32_t>::type;
  constexpr int kLanes = VectorOf<int32_t>::kLanes;
  const int32_t* x = reinterpret_cast<const int32_t*>(a);
  const int32_t* y = reinterpret_cast<const int32_t*>(b);
  int32_t* out = reinterpret_cast<int32_t*>(d);
  const V all = Splat<int32_t>(*y);
  uint32_t i = 0;
  for (; i + 64 <= count; i += 64) {
    uint64_t word;
    std::memcpy(&word, bits + (kReuse ? 0 : i / 8), 8);
    for (int j = 0; j < 64; j += kLanes) {
      const V mask = LanesOf(static_cast<uint32_t>(word >> j));
      const V other = kScalar ? all : Load<int32_t>(y + i + j);
      Store<int32_t>(out + i + j, (Load<int32_t>(x + i + j) & mask) | (other & ~mask));
    }
  }
  for (; i < count; ++i) {
    const uint32_t bit = kReuse ? i % 64 : i;
    out[i] = (bits[bit / 8] >> (bit % 8)) & 1 ? x[i] : y[kScalar ? 0 : i];
  }
}

// Select moves the address or the scalar of its mask into its scratch first: one instruction and two
// barriers.
inline void CostSelect(Instruction& op, uint64_t repeats) {
  op.Vector(1, 1);
  op.HiddenBarriers(2);
  op.Vector(repeats, static_cast<double>(repeats));
}

}  // namespace detail

// Modes 0 and 2: bit set takes src0, clear takes src1. Mode 0 uses the first 64 bits for every repeat.
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE mode, uint32_t count, Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "Select takes float");
  if (count == 0) return;
  Instruction op("Select", avsg_cpu::kVector, site);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  const bool reuse = mode == SELMODE::VSEL_CMPMASK_SPR;
  op.Require(mode != SELMODE::VSEL_TENSOR_SCALAR_MODE, "select-mode", "two tensors need mode 0 or 2, got 1");
  op.OverlapTotal(dst.GetView(), bytes, src0.GetView(), bytes);
  op.OverlapTotal(dst.GetView(), bytes, src1.GetView(), bytes);
  op.OverlapNone(dst.GetView(), bytes, mask.GetView(), reuse ? 8 : (count + 7) / 8);
  op.Read(mask.GetView(), reuse ? 8 : (count + 7) / 8);
  op.Read(src0.GetView(), bytes);
  op.Read(src1.GetView(), bytes);
  op.Write(dst.GetView(), bytes);
  detail::CostSelect(op, detail::RepeatsOf<T>(count));
  const uint8_t* bits = reinterpret_cast<const uint8_t*>(mask.Data());
  if (reuse) {
    detail::SelectLanes<false, true>(dst.Data(), bits, src0.Data(), src1.Data(), count);
  } else {
    detail::SelectLanes<false, false>(dst.Data(), bits, src0.Data(), src1.Data(), count);
  }
}

// Mode 1: bit set takes src0, clear takes the scalar.
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0,
                   T scalar, SELMODE mode, uint32_t count, Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "Select takes float");
  if (count == 0) return;
  Instruction op("Select", avsg_cpu::kVector, site);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  op.Require(mode == SELMODE::VSEL_TENSOR_SCALAR_MODE, "select-mode",
             "a tensor and a scalar need mode 1, got %d", static_cast<int>(mode));
  op.OverlapTotal(dst.GetView(), bytes, src0.GetView(), bytes);
  op.OverlapNone(dst.GetView(), bytes, mask.GetView(), (count + 7) / 8);
  op.Read(mask.GetView(), (count + 7) / 8);
  op.Read(src0.GetView(), bytes);
  op.Write(dst.GetView(), bytes);
  detail::CostSelect(op, detail::RepeatsOf<T>(count));
  const uint8_t* bits = reinterpret_cast<const uint8_t*>(mask.Data());
  detail::SelectLanes<true, false>(dst.Data(), bits, src0.Data(), &scalar, count);
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_COMPARE_H
