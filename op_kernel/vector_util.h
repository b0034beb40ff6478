// SPDX-License-Identifier: Apache-2.0
// Small idioms of the A2 vector core; the only place for a difference between chips.
#ifndef AVSG_VECTOR_UTIL_H
#define AVSG_VECTOR_UTIL_H

#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"

namespace sparse_gather {

using namespace AscendC;

constexpr int32_t kLanes = 64;             // 32-bit lanes of a repeat, the granularity of Compare
constexpr event_t kSyncEvent = EVENT_ID7;  // Load's ring owns the ids below

__aicore__ inline int32_t RoundUp(int32_t value, int32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
__aicore__ inline int32_t MinOf(int32_t a, int32_t b) { return a < b ? a : b; }
__aicore__ inline int32_t MaxOf(int32_t a, int32_t b) { return a > b ? a : b; }

__aicore__ inline int32_t BitsOf(float value) {
  union {
    float value;
    int32_t bits;
  } both = {value};
  return both.bits;
}

// The second pipe of kEvent waits for all that the first was given so far.
template <HardEvent kEvent>
__aicore__ inline void Sync() {
  SetFlag<kEvent>(kSyncEvent);
  WaitFlag<kEvent>(kSyncEvent);
}

// The next vector instruction may read what the last one wrote.
__aicore__ inline void Fence() { PipeBarrier<PIPE_V>(); }

template <typename T>
__aicore__ inline LocalTensor<uint32_t> AsUint(const LocalTensor<T>& tensor) {
  return tensor.template ReinterpretCast<uint32_t>();
}
template <typename T>
__aicore__ inline LocalTensor<int32_t> AsInt(const LocalTensor<T>& tensor) {
  return tensor.template ReinterpretCast<int32_t>();
}
template <typename T>
__aicore__ inline LocalTensor<float> AsFloat(const LocalTensor<T>& tensor) {
  return tensor.template ReinterpretCast<float>();
}
template <typename T>
__aicore__ inline LocalTensor<uint64_t> AsPairs(const LocalTensor<T>& tensor) {
  return tensor.template ReinterpretCast<uint64_t>();
}

// dst = the elements of src whose mask bit is set, in order; returns how many. dst and src must not overlap.
__aicore__ inline int32_t Compact(const LocalTensor<int32_t>& dst, const LocalTensor<int32_t>& src,
                                  const LocalTensor<uint8_t>& mask, int32_t count) {
  uint64_t kept = 0;
  GatherMask(dst, src, AsUint(mask), true, static_cast<uint32_t>(count), GatherMaskParams(1, 1, 0, 0), kept);
  return static_cast<int32_t>(kept);
}
__aicore__ inline int32_t Compact(const LocalTensor<int16_t>& dst, const LocalTensor<int16_t>& src,
                                  const LocalTensor<uint8_t>& mask, int32_t count) {
  uint64_t kept = 0;
  GatherMask(dst, src, mask.ReinterpretCast<uint16_t>(), true, static_cast<uint32_t>(count),
             GatherMaskParams(1, 1, 0, 0), kept);
  return static_cast<int32_t>(kept);
}

// dst &= src, dst |= src and dst = ~src on masks of num_bits bits (16-bit logic is all that A2 has).
__aicore__ inline void AndMask(const LocalTensor<uint8_t>& dst, const LocalTensor<uint8_t>& src,
                               int32_t num_bits) {
  const LocalTensor<uint16_t> halves = dst.ReinterpretCast<uint16_t>();
  And(halves, halves, src.ReinterpretCast<uint16_t>(), num_bits / 16);
}
__aicore__ inline void OrMask(const LocalTensor<uint8_t>& dst, const LocalTensor<uint8_t>& src,
                              int32_t num_bits) {
  const LocalTensor<uint16_t> halves = dst.ReinterpretCast<uint16_t>();
  Or(halves, halves, src.ReinterpretCast<uint16_t>(), num_bits / 16);
}
__aicore__ inline void NotMask(const LocalTensor<uint8_t>& dst, const LocalTensor<uint8_t>& src,
                               int32_t num_bits) {
  Not(dst.ReinterpretCast<uint16_t>(), src.ReinterpretCast<uint16_t>(), num_bits / 16);
}

// tensor = (tensor & (2^width - 1)) << up, without a constant tensor: fields are cut by two shifts.
__aicore__ inline void CutField(const LocalTensor<int32_t>& tensor, int32_t width, int32_t up,
                                int32_t count) {
  const LocalTensor<uint32_t> bits = AsUint(tensor);
  ShiftLeft(bits, bits, static_cast<uint32_t>(32 - width), count);
  Fence();
  ShiftRight(bits, bits, static_cast<uint32_t>(32 - width - up), count);
}

// Extends dst[0..have) = first + k * stride to `count` elements by doubling; have is a multiple of 32 bytes.
template <typename T>
__aicore__ inline void ExtendIota(const LocalTensor<T>& dst, int32_t have, int32_t count, int32_t stride) {
  for (int32_t done = have; done < count; done *= 2) {
    Fence();
    Adds(dst[done], dst, static_cast<T>(done * stride), MinOf(done, count - done));
  }
  Fence();
}

// A whole number of elements between GM and UB; GM at any address, UB at a multiple of 32, whose last block
// is filled with zeros.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t bytes) {
  const uint8_t missing = static_cast<uint8_t>((32 - bytes % 32) % 32 / sizeof(T));
  DataCopyPad(dst, src, DataCopyExtParams(1, bytes, 0, 0, 0),
              DataCopyPadExtParams<T>(missing > 0, 0, missing, 0));
}
template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t bytes) {
  DataCopyPad(dst, src, DataCopyExtParams(1, bytes, 0, 0, 0));
}
template <typename T>
__aicore__ inline GlobalTensor<T> Global(GM_ADDR address, int64_t byte_offset = 0) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address + byte_offset));
  return tensor;
}

// Tensor `index` of a dynamic input.
__aicore__ inline GM_ADDR TensorOf(GM_ADDR list, uint32_t index) {
  return reinterpret_cast<GM_ADDR>(ListTensorDesc(list).GetDataPtr<uint8_t>(index));
}

}  // namespace sparse_gather

#endif  // AVSG_VECTOR_UTIL_H
