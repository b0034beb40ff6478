// SPDX-License-Identifier: Apache-2.0
// Cast between int32, int16 and float, and the float reductions ReduceMax, ReduceMin and ReduceSum.
#ifndef AVSG_CPU_ASCENDC_CAST_REDUCE_H
#define AVSG_CPU_ASCENDC_CAST_REDUCE_H

#include <cmath>

#include "arithmetic.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

struct RintOp {
  float operator()(float x) const { return __builtin_rintf(x); }
};
struct FloorOp {
  float operator()(float x) const { return __builtin_floorf(x); }
};
struct CeilOp {
  float operator()(float x) const { return __builtin_ceilf(x); }
};
struct TruncOp {
  float operator()(float x) const { return __builtin_truncf(x); }
};
struct RoundOp {  // halves away from zero; x - trunc(x) is exact
  float operator()(float x) const {
    const float t = __builtin_truncf(x);
    const float rest = x - t;
    return t + (rest >= 0.5f ? 1.0f : rest <= -0.5f ? -1.0f : 0.0f);
  }
};

// Saturates; NaN becomes 0.
template <typename D>
inline D ToInteger(float x) {
  constexpr float kLimit = static_cast<float>(1u << (8 * sizeof(D) - 1));
  const float low = x > -kLimit ? x : -kLimit;
  const float in_range = low < kLimit ? low : 0.0f;
  const int32_t value = static_cast<int32_t>(x == x ? in_range : 0.0f);
  return static_cast<D>(x >= kLimit ? static_cast<int32_t>((1u << (8 * sizeof(D) - 1)) - 1) : value);
}

template <typename D, typename F>
inline void FloatToInteger(D* d, const float* s, uint32_t count, F f) {
#pragma GCC ivdep
  for (uint32_t i = 0; i < count; ++i) d[i] = ToInteger<D>(f(s[i]));
}

template <typename D>
inline void CastElements(D* d, const float* s, uint32_t count, RoundMode mode) {
  static_assert(std::is_integral<D>::value, "float casts to int32_t or int16_t");
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return FloatToInteger(d, s, count, FloorOp());
    case RoundMode::CAST_CEIL:
      return FloatToInteger(d, s, count, CeilOp());
    case RoundMode::CAST_ROUND:
      return FloatToInteger(d, s, count, RoundOp());
    case RoundMode::CAST_TRUNC:
      return FloatToInteger(d, s, count, TruncOp());
    default:
      return FloatToInteger(d, s, count, RintOp());
  }
}
inline void CastElements(float* d, const int32_t* s, uint32_t count, RoundMode) {
#pragma GCC ivdep
  for (uint32_t i = 0; i < count; ++i) d[i] = static_cast<float>(s[i]);
}
inline void CastElements(float* d, const int16_t* s, uint32_t count, RoundMode) {
  for (uint32_t i = 0; i < count; ++i) d[i] = static_cast<float>(s[i]);
}
inline void CastElements(int16_t* d, const int32_t* s, uint32_t count, RoundMode) {
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t low = s[i] < -32768 ? -32768 : s[i];
    d[i] = static_cast<int16_t>(low > 32767 ? 32767 : low);
  }
}

// The rounding modes that A2 has for a pair of types.
template <typename D, typename S>
inline bool RoundModeFits(RoundMode mode) {
  if (std::is_integral<D>::value && std::is_same<S, float>::value) {
    return mode >= RoundMode::CAST_RINT && mode <= RoundMode::CAST_TRUNC;
  }
  if (std::is_same<S, int32_t>::value && std::is_same<D, float>::value) {
    return mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;  // others round alike below 2^24
  }
  return mode == RoundMode::CAST_NONE;
}

}  // namespace detail

// Between float and int32_t or int16_t, and int32_t to int16_t; integers saturate.
template <typename D, typename S>
inline void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode,
                 const uint32_t count, Site site = Site()) {
  if (count == 0) return;
  Instruction op("Cast", avsg_cpu::kVector, site);
  op.Require((detail::RoundModeFits<D, S>(mode)), "round-mode", "mode %d is not one of this pair of types",
             static_cast<int>(mode));
  const uint64_t dst_bytes = static_cast<uint64_t>(count) * sizeof(D);
  const uint64_t src_bytes = static_cast<uint64_t>(count) * sizeof(S);
  if (sizeof(D) == sizeof(S)) {
    op.OverlapTotal(dst.GetView(), dst_bytes, src.GetView(), src_bytes);
  } else {
    op.OverlapNone(dst.GetView(), dst_bytes, src.GetView(), src_bytes);
  }
  op.Read(src.GetView(), src_bytes);
  op.Write(dst.GetView(), dst_bytes);
  using Wide = typename std::conditional<(sizeof(D) > sizeof(S)), D, S>::type;
  op.Vector(detail::RepeatsOf<Wide>(count), static_cast<double>(detail::RepeatsOf<Wide>(count)));
  detail::CastElements(dst.Data(), src.Data(), count, mode);
}

namespace detail {

// Floats that the work tensor needs: two per 64 elements, levels one after another when the index is asked
// for.
inline uint64_t ReduceWorkFloats(uint64_t count, bool index) {
  uint64_t floats = 0;
  for (uint64_t n = count; n > 2 || n == count; n = (n + 63) / 64 * 2) {
    floats += ((n + 63) / 64 * 2 + 7) / 8 * 8;
    if (!index || (n + 63) / 64 * 2 <= 2) break;
  }
  return floats;
}

inline void CostReduce(Instruction& op, uint64_t count, bool pairs) {
  for (uint64_t n = count;;) {
    const uint64_t repeats = (n + 63) / 64;
    op.Vector(repeats, 7.0 * static_cast<double>(repeats));
    if (repeats <= 1) return;
    op.HiddenBarriers(1);
    n = pairs ? repeats * 2 : repeats;
  }
}

template <typename F>
inline void ReduceExtreme(const char* name, const LocalTensor<float>& dst, const LocalTensor<float>& src,
                          const LocalTensor<float>& work, int32_t count, bool index, Site site, F better) {
  if (count <= 0) return;
  Instruction op(name, avsg_cpu::kVector, site);
  const uint64_t n = static_cast<uint64_t>(count);
  op.Read(src.GetView(), n * 4);
  op.Clobber(work.GetView(), 0, ReduceWorkFloats(n, index) * 4);
  op.Write(dst.GetView(), index ? 8 : 4, 8);
  CostReduce(op, n, true);
  const float* s = src.Data();
  float lanes[16];
  for (int j = 0; j < 16; ++j) lanes[j] = s[0];
  const uint64_t whole = n / 16 * 16;
  for (uint64_t i = 0; i < whole; i += 16) {
    for (int j = 0; j < 16; ++j) lanes[j] = better(s[i + j], lanes[j]) ? s[i + j] : lanes[j];
  }
  float best = s[0];
  for (int j = 0; j < 16; ++j) best = better(lanes[j], best) ? lanes[j] : best;
  for (uint64_t i = whole; i < n; ++i) best = better(s[i], best) ? s[i] : best;
  dst.Data()[0] = best;
  if (!index) return;
  uint32_t at = 0;
  while (at + 1 < n && s[at] != best) ++at;
  std::memcpy(dst.Data() + 1, &at, 4);
}

}  // namespace detail

// dst[0] = the extreme; with_index: dst[1] holds the bits of its lowest index. work: two floats per 64
// elements.
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, bool with_index = false, Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "ReduceMax takes float");
  detail::ReduceExtreme("ReduceMax", dst, src, work, count, with_index, site,
                        [](float a, float b) { return a > b; });
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, bool with_index = false, Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "ReduceMin takes float");
  detail::ReduceExtreme("ReduceMin", dst, src, work, count, with_index, site,
                        [](float a, float b) { return a < b; });
}

// The order of additions is this backend's own; sums of whole numbers below 2^24 are exact in any order.
template <typename T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, Site site = Site()) {
  static_assert(std::is_same<T, float>::value, "ReduceSum takes float");
  if (count <= 0) return;
  Instruction op("ReduceSum", avsg_cpu::kVector, site);
  const uint64_t n = static_cast<uint64_t>(count);
  op.Read(src.GetView(), n * 4);
  op.Clobber(work.GetView(), 0, ((n + 63) / 64 + 7) / 8 * 32);
  op.Write(dst.GetView(), 4, 4);
  detail::CostReduce(op, n, false);
  const float* s = src.Data();
  float lanes[16] = {};
  const uint64_t whole = n / 16 * 16;
  for (uint64_t i = 0; i < whole; i += 16) {
    for (int j = 0; j < 16; ++j) lanes[j] += s[i + j];
  }
  float sum = 0;
  for (uint64_t i = whole; i < n; ++i) sum += s[i];
  for (int j = 0; j < 16; ++j) sum += lanes[j];
  dst.Data()[0] = sum;
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_CAST_REDUCE_H
