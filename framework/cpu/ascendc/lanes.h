// SPDX-License-Identifier: Apache-2.0
// Vectors of the machine's width, and the few steps on them that need one instruction set or another.
#ifndef AVSG_CPU_ASCENDC_LANES_H
#define AVSG_CPU_ASCENDC_LANES_H

#include "types.h"

#if defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

#if defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <typename T>
struct VectorOf;
template <>
struct VectorOf<int32_t> {
  typedef int32_t type __attribute__((vector_size(kVectorBytes)));
  static constexpr int kLanes = kVectorBytes / 4;
};
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  static constexpr int kLanes = kVectorBytes / 4;
};

template <typename T>
inline typename VectorOf<T>::type Load(const T* p) {
  typename VectorOf<T>::type v;
  std::memcpy(&v, static_cast<const void*>(p), sizeof(v));
  return v;
}
template <typename T>
inline void Store(T* p, typename VectorOf<T>::type v) {
  std::memcpy(static_cast<void*>(p), &v, sizeof(v));
}
template <typename T>
inline typename VectorOf<T>::type Splat(T value) {
  return typename VectorOf<T>::type{} + value;
}

using Int32Vector = VectorOf<int32_t>::type;

// Bit i is the sign of lane i; lanes are 0 or -1.
inline uint32_t SignBits(Int32Vector lanes) {
#if defined(__AVX2__)
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(lanes)));
#elif defined(__SSE4_1__)
  return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(lanes)));
#elif defined(__aarch64__)
  const uint32x4_t weights = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(reinterpret_cast<uint32x4_t>(lanes), weights));
#else
  return static_cast<uint32_t>((lanes[0] & 1) | (lanes[1] & 2) | (lanes[2] & 4) | (lanes[3] & 8));
#endif
}

// Lane i is -1 where bit i is set, else 0.
inline Int32Vector LanesOf(uint32_t bits) {
#if defined(__AVX2__)
  const Int32Vector weights = {1, 2, 4, 8, 16, 32, 64, 128};
#else
  const Int32Vector weights = {1, 2, 4, 8};
#endif
  return (Splat<int32_t>(static_cast<int32_t>(bits)) & weights) == weights;
}

// Row b lists the positions of the bits set in b, ascending, one per byte; the rest of the row is 0.
struct PositionTable {
  uint64_t rows[256];
};
constexpr PositionTable MakePositionTable() {
  PositionTable table = {};
  for (int b = 0; b < 256; ++b) {
    int n = 0;
    for (int i = 0; i < 8; ++i) {
      if (b >> i & 1) table.rows[b] |= static_cast<uint64_t>(i) << (8 * n++);
    }
  }
  return table;
}
static constexpr PositionTable kPositions = MakePositionTable();

#if defined(__SSE4_1__)

// The lanes of 8 consecutive elements that `bits` selects, moved to the front; writes all 8.
inline void Compact8(uint32_t* dst, const uint32_t* src, uint32_t bits) {
  const __m128i row = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kPositions.rows[bits]));
#if defined(__AVX2__)
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst),
                      _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(row)));
#else
  (void)row;
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + 4));
  const __m128i bytes = _mm_set1_epi32(0x03020100);
  const auto shuffle = [&bytes](__m128i x, uint32_t nibble) {
    const __m128i positions = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kPositions.rows[nibble]));
    const __m128i lanes = _mm_mullo_epi32(_mm_cvtepu8_epi32(positions), _mm_set1_epi32(0x04040404));
    return _mm_shuffle_epi8(x, _mm_add_epi8(lanes, bytes));
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), shuffle(low, bits & 15));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + __builtin_popcount(bits & 15)), shuffle(high, bits >> 4));
#endif
}
inline void Compact8(uint16_t* dst, const uint16_t* src, uint32_t bits) {
  const __m128i row = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kPositions.rows[bits]));
  const __m128i even = _mm_add_epi8(row, row);
  const __m128i bytes = _mm_unpacklo_epi8(even, _mm_add_epi8(even, _mm_set1_epi8(1)));
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm_shuffle_epi8(x, bytes));
}

#else

template <typename T>
inline void Compact8(T* dst, const T* src, uint32_t bits) {
  T kept[8];
  for (int i = 0; i < 8; ++i) kept[i] = src[kPositions.rows[bits] >> (8 * i) & 7];
  std::memcpy(dst, kept, sizeof(kept));
}

#endif

}  // namespace detail
}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_LANES_H
