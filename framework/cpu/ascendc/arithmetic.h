// SPDX-License-Identifier: Apache-2.0
// Element-wise vector operations: arithmetic, shifts, 16-bit logic, constants and index vectors.
#ifndef AVSG_CPU_ASCENDC_ARITHMETIC_H
#define AVSG_CPU_ASCENDC_ARITHMETIC_H

#include "tensor.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

template <typename T>
constexpr uint32_t Lanes() {
  return 256 / sizeof(T);
}
template <typename T>
constexpr uint64_t RepeatsOf(uint64_t count) {
  return (count + Lanes<T>() - 1) / Lanes<T>();
}

// Integers wrap: the unsigned type of the same width, or the type itself for float.
template <typename T>
using Wrap = typename std::conditional<std::is_integral<T>::value, std::make_unsigned<T>,
                                       std::common_type<T>>::type::type;

struct AddOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
};
struct SubOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
  }
};
struct MulOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
  int16_t operator()(int16_t a, int16_t b) const { return static_cast<int16_t>(static_cast<int32_t>(a) * b); }
};
struct MaxOp {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct MinOp {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct AndOp {
  uint16_t operator()(uint16_t a, uint16_t b) const { return static_cast<uint16_t>(a & b); }
};
struct OrOp {
  uint16_t operator()(uint16_t a, uint16_t b) const { return static_cast<uint16_t>(a | b); }
};

template <typename T>
constexpr bool IsArithmetic() {
  return std::is_same<T, int16_t>::value || std::is_same<T, int32_t>::value || std::is_same<T, float>::value;
}

template <typename T, typename F>
inline void Binary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, int32_t count, Site site, F f) {
  if (count <= 0) return;
  Instruction op(name, avsg_cpu::kVector, site);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  op.OverlapTotal(dst.GetView(), bytes, src0.GetView(), bytes);
  op.OverlapTotal(dst.GetView(), bytes, src1.GetView(), bytes);
  op.Read(src0.GetView(), bytes);
  op.Read(src1.GetView(), bytes);
  op.Write(dst.GetView(), bytes);
  op.Vector(RepeatsOf<T>(count), static_cast<double>(RepeatsOf<T>(count)));
  T* d = dst.Data();
  const T* a = src0.Data();
  const T* b = src1.Data();
#pragma GCC ivdep
  for (int32_t i = 0; i < count; ++i) d[i] = f(a[i], b[i]);
}

template <typename T, typename F>
inline void Unary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count,
                  Site site, F f) {
  if (count <= 0) return;
  Instruction op(name, avsg_cpu::kVector, site);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  op.OverlapTotal(dst.GetView(), bytes, src.GetView(), bytes);
  op.Read(src.GetView(), bytes);
  op.Write(dst.GetView(), bytes);
  op.Vector(RepeatsOf<T>(count), static_cast<double>(RepeatsOf<T>(count)));
  T* d = dst.Data();
  const T* a = src.Data();
#pragma GCC ivdep
  for (int32_t i = 0; i < count; ++i) d[i] = f(a[i]);
}

// And, Or and Not know 16-bit words only: on wider types `count` counts halves, so half of the words stay
// untouched.
template <typename T>
inline void CheckLogic(const char* name, Site site) {
  Instruction op(name, avsg_cpu::kVector, site);
  op.Require(sizeof(T) == 2, "16-bit-logic",
             "works on 16-bit words; with %d-byte elements it reaches only the first 2 * count bytes: "
             "reinterpret as "
             "uint16_t",
             static_cast<int>(sizeof(T)));
}

}  // namespace detail

#define AVSG_CPU_BINARY(Name)                                                                         \
  template <typename T>                                                                               \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, \
                   const int32_t& count, Site site = Site()) {                                        \
    static_assert(detail::IsArithmetic<T>(), #Name " takes int16_t, int32_t or float");               \
    detail::Binary(#Name, dst, src0, src1, count, site, detail::Name##Op());                          \
  }
AVSG_CPU_BINARY(Add)
AVSG_CPU_BINARY(Sub)
AVSG_CPU_BINARY(Mul)
AVSG_CPU_BINARY(Max)
AVSG_CPU_BINARY(Min)
#undef AVSG_CPU_BINARY

#define AVSG_CPU_SCALAR(Name, Op)                                                         \
  template <typename T>                                                                   \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, \
                   const int32_t& count, Site site = Site()) {                            \
    static_assert(detail::IsArithmetic<T>(), #Name " takes int16_t, int32_t or float");   \
    const T s = scalar;                                                                   \
    detail::Unary(#Name, dst, src, count, site, [s](T a) { return detail::Op()(a, s); }); \
  }
AVSG_CPU_SCALAR(Adds, AddOp)
AVSG_CPU_SCALAR(Muls, MulOp)
AVSG_CPU_SCALAR(Maxs, MaxOp)
AVSG_CPU_SCALAR(Mins, MinOp)
#undef AVSG_CPU_SCALAR

#define AVSG_CPU_LOGIC(Name)                                                                             \
  template <typename T>                                                                                  \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,    \
                   const int32_t& count, Site site = Site()) {                                           \
    detail::CheckLogic<T>(#Name, site);                                                                  \
    detail::Binary(#Name, dst.template ReinterpretCast<uint16_t>(),                                      \
                   src0.template ReinterpretCast<uint16_t>(), src1.template ReinterpretCast<uint16_t>(), \
                   count, site, detail::Name##Op());                                                     \
  }
AVSG_CPU_LOGIC(And)
AVSG_CPU_LOGIC(Or)
#undef AVSG_CPU_LOGIC

template <typename T>
inline void Not(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count,
                Site site = Site()) {
  detail::CheckLogic<T>("Not", site);
  detail::Unary("Not", dst.template ReinterpretCast<uint16_t>(), src.template ReinterpretCast<uint16_t>(),
                count, site, [](uint16_t a) { return static_cast<uint16_t>(~a); });
}

// Shifts by the width or more leave 0, or the sign for signed right shifts.
template <typename T>
inline void ShiftLeft(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar,
                      const int32_t& count, Site site = Site()) {
  static_assert(std::is_integral<T>::value && sizeof(T) <= 4 && sizeof(T) >= 2,
                "ShiftLeft takes 16 and 32-bit integers");
  constexpr int kBits = 8 * sizeof(T);
  const int shift = static_cast<int>(scalar);
  Instruction("ShiftLeft", avsg_cpu::kVector, site)
      .Require(shift >= 0 && shift <= kBits, "shift-range", "shifts by %d, allowed are 0..%d", shift, kBits);
  using U = typename std::make_unsigned<T>::type;
  if (shift >= kBits) {
    detail::Unary("ShiftLeft", dst, src, count, site, [](T) { return T(0); });
  } else {
    detail::Unary("ShiftLeft", dst, src, count, site,
                  [shift](T a) { return static_cast<T>(static_cast<U>(static_cast<U>(a) << shift)); });
  }
}

template <typename T>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar,
                       const int32_t& count, Site site = Site()) {
  static_assert(std::is_integral<T>::value && sizeof(T) <= 4 && sizeof(T) >= 2,
                "ShiftRight takes 16 and 32-bit integers");
  constexpr int kBits = 8 * sizeof(T);
  const int shift = static_cast<int>(scalar);
  Instruction("ShiftRight", avsg_cpu::kVector, site)
      .Require(shift >= 0 && shift <= kBits, "shift-range", "shifts by %d, allowed are 0..%d", shift, kBits);
  if (shift >= kBits) {
    detail::Unary("ShiftRight", dst, src, count, site, [](T a) { return a < 0 ? static_cast<T>(-1) : T(0); });
  } else {
    detail::Unary("ShiftRight", dst, src, count, site, [shift](T a) { return static_cast<T>(a >> shift); });
  }
}

template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalar, const int32_t& count, Site site = Site()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Duplicate takes 2 and 4-byte types");
  if (count <= 0) return;
  Instruction op("Duplicate", avsg_cpu::kVector, site);
  op.Write(dst.GetView(), static_cast<uint64_t>(count) * sizeof(T));
  op.Vector(detail::RepeatsOf<T>(count), static_cast<double>(detail::RepeatsOf<T>(count)));
  const T value = scalar;
  T* d = dst.Data();
  for (int32_t i = 0; i < count; ++i) d[i] = value;
}

// first, first + 1, ... As on the chip the first 32-byte block is stored whole by the scalar unit, whatever
// the count; the rest follows block by block, then repeat by repeat, each behind a barrier: slow for long
// vectors.
template <typename T>
inline void CreateVecIndex(LocalTensor<T> dst, const T& first, uint32_t count, Site site = Site()) {
  static_assert(detail::IsArithmetic<T>(), "CreateVecIndex takes int16_t, int32_t or float");
  if (count == 0) return;
  constexpr uint32_t kBlock = 32 / sizeof(T);
  const uint32_t written = count < kBlock ? kBlock : count;
  {
    Instruction op("CreateVecIndex", avsg_cpu::kVector, site);
    op.Write(dst.GetView(), static_cast<uint64_t>(written) * sizeof(T));
    const uint32_t in_first_repeat = written < detail::Lanes<T>() ? written : detail::Lanes<T>();
    const uint64_t steps = (in_first_repeat + kBlock - 1) / kBlock - 1 + detail::RepeatsOf<T>(written) - 1;
    for (uint64_t i = 0; i < steps; ++i) op.Vector(1, 1);
    op.HiddenBarriers(static_cast<int>(steps));
    for (uint32_t i = 0; i < kBlock; ++i) op.UbScalar(true);
  }
  const T start = first;
  T* d = dst.Data();
  for (uint32_t i = 0; i < written; ++i)
    d[i] = detail::AddOp()(start, static_cast<T>(static_cast<int32_t>(i)));
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_ARITHMETIC_H
