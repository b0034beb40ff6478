// SPDX-License-Identifier: Apache-2.0
// Keywords, enumerations and parameter structs of Ascend C 8.1 with their published names, defaults and
// values.
#ifndef AVSG_CPU_ASCENDC_TYPES_H
#define AVSG_CPU_ASCENDC_TYPES_H

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../level.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define GM_ADDR uint8_t*

#define KERNEL_TASK_TYPE_DEFAULT(type)
#define REGISTER_TILING_DEFAULT(Struct) \
  using AvsgTilingDefault = Struct;     \
  static_assert(std::is_trivially_copyable<Struct>::value, "a tiling struct is copied byte by byte")
#define GET_TILING_DATA(name, address) GET_TILING_DATA_WITH_STRUCT(AvsgTilingDefault, name, address)
#define GET_TILING_DATA_WITH_STRUCT(Struct, name, address) \
  Struct name;                                             \
  std::memcpy(static_cast<void*>(&name), address, sizeof(Struct))

enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL };
enum event_t { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {

using TEventID = int8_t;

enum class TPosition : uint8_t { GM = 0, VECIN = 9, VECOUT = 10, VECCALC = 11 };

// Source and destination pipe of an event.
enum class HardEvent : uint8_t {
  MTE2_V = 4,
  V_MTE2 = 5,
  MTE3_V = 6,
  V_MTE3 = 7,
  V_V = 10,
  MTE3_MTE2 = 19,
  MTE2_MTE3 = 20,
  S_V = 21,
  V_S = 22,
  S_MTE2 = 23,
  MTE2_S = 24,
  S_MTE3 = 25,
  MTE3_S = 26,
};

enum class RoundMode : uint8_t {
  CAST_NONE = 0,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD
};
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src_stride, uint32_t dst_stride, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(src_stride), dstStride(dst_stride), rsv(reserved) {}
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;   // bytes
  uint32_t srcStride = 0;  // gap between blocks: bytes in GM, 32-byte units in UB
  uint32_t dstStride = 0;
  uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool is_pad, uint8_t left, uint8_t right, T value)
      : isPad(is_pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0;  // elements
  uint8_t rightPadding = 0;
  T paddingValue = 0;
};

struct DataCopyParams {
  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src_stride, uint16_t dst_stride)
      : blockCount(count), blockLen(len), srcStride(src_stride), dstStride(dst_stride) {}
  uint16_t blockCount = 1;
  uint16_t blockLen = 0;  // all in 32-byte units
  uint16_t srcStride = 0;
  uint16_t dstStride = 0;
};

// Strides in 32-byte blocks: Blk between the eight blocks of a repeat, Rep between repeats.
struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dst_blk, uint8_t src0_blk, uint8_t src1_blk, uint8_t dst_rep, uint8_t src0_rep,
                     uint8_t src1_rep)
      : dstBlkStride(dst_blk),
        src0BlkStride(src0_blk),
        src1BlkStride(src1_blk),
        dstRepStride(dst_rep),
        src0RepStride(src0_rep),
        src1RepStride(src1_rep) {}
  uint32_t blockNumber = 8;
  uint8_t dstBlkStride = 1;
  uint8_t src0BlkStride = 1;
  uint8_t src1BlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t src0RepStride = 8;
  uint8_t src1RepStride = 8;
};

struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dst_blk, uint16_t src_blk, uint8_t dst_rep, uint8_t src_rep)
      : dstBlkStride(dst_blk), srcBlkStride(src_blk), dstRepStride(dst_rep), srcRepStride(src_rep) {}
  uint32_t blockNumber = 8;
  uint16_t dstBlkStride = 1;
  uint16_t srcBlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t srcRepStride = 8;
};

struct GatherMaskParams {
  GatherMaskParams() = default;
  GatherMaskParams(uint8_t src0_blk, uint16_t repeats, uint16_t src0_rep, uint8_t src1_rep)
      : src0BlockStride(src0_blk),
        repeatTimes(repeats),
        src0RepeatStride(src0_rep),
        src1RepeatStride(src1_rep) {}
  uint8_t src0BlockStride = 1;
  uint16_t repeatTimes = 0;
  uint16_t src0RepeatStride = 8;
  uint8_t src1RepeatStride = 8;
};

struct MrgSort4Info {
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspend, uint16_t valid_bit, uint16_t repeats)
      : ifExhaustedSuspension(suspend), validBit(valid_bit), repeatTimes(static_cast<uint8_t>(repeats)) {
    for (int i = 0; i < 4; ++i) elementLengths[i] = lengths[i];
  }
  uint16_t elementLengths[4] = {0, 0, 0, 0};  // (score, index) pairs of 8 bytes
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0;
  uint8_t repeatTimes = 1;
};

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_TYPES_H
