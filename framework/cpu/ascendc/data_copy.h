// SPDX-License-Identifier: Apache-2.0
// DataCopy and DataCopyPad: the DMA between device memory and the unified buffer, and copies inside it.
#ifndef AVSG_CPU_ASCENDC_DATA_COPY_H
#define AVSG_CPU_ASCENDC_DATA_COPY_H

#include "arithmetic.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

constexpr uint32_t kMaxBlocks = 4095;
constexpr uint32_t kMaxBlockBytes = 2097151;

inline View Behind(const View& view, uint64_t bytes) {
  return View{view.address + bytes, view.bytes - static_cast<int64_t>(bytes)};
}

// Whole 32-byte blocks of `count` elements; what is left over does not move.
template <typename T>
inline uint64_t WholeBlocks(Instruction& op, uint32_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  op.Require(bytes % 32 == 0, "copy-granularity",
             "moves whole 32-byte blocks: the last %d of %llu bytes do not move",
             static_cast<int>(bytes % 32), static_cast<unsigned long long>(bytes));
  return bytes / 32 * 32;
}

template <typename T>
inline void CheckBlocks(Instruction& op, const DataCopyExtParams& p) {
  op.Require(p.blockCount <= kMaxBlocks, "copy-limits", "blockCount %d, at most 4095", p.blockCount);
  op.Require(p.blockLen <= kMaxBlockBytes, "copy-limits", "blockLen %u, at most 2097151", p.blockLen);
  op.Require(p.blockLen % sizeof(T) == 0, "copy-limits",
             "blockLen %u is not a multiple of the element's %d bytes", p.blockLen,
             static_cast<int>(sizeof(T)));
}

}  // namespace detail

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
                     Site site = Site()) {
  Instruction op("DataCopy", avsg_cpu::kMte2, site);
  const uint64_t bytes = detail::WholeBlocks<T>(op, count);
  if (bytes == 0) return;
  src.CheckFits(op, bytes);
  op.ReadGm(src.GetPhyAddr(), bytes);
  op.Write(dst.GetView(), bytes);
  op.Dma(bytes, true);
  op.CopyIn(dst.GetView().address, reinterpret_cast<const uint8_t*>(src.GetPhyAddr()), bytes);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                     Site site = Site()) {
  Instruction op("DataCopy", avsg_cpu::kMte3, site);
  const uint64_t bytes = detail::WholeBlocks<T>(op, count);
  if (bytes == 0) return;
  dst.CheckFits(op, bytes);
  op.Read(src.GetView(), bytes);
  op.WriteGm(dst.GetPhyAddr(), bytes, src.GetView().address);
  op.Dma(bytes, false);
  std::memcpy(static_cast<void*>(const_cast<T*>(dst.GetPhyAddr())), static_cast<const void*>(src.Data()),
              bytes);
}

// Inside the unified buffer the vector pipe copies.
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                     Site site = Site()) {
  Instruction op("DataCopy", avsg_cpu::kVector, site);
  const uint64_t bytes = detail::WholeBlocks<T>(op, count);
  if (bytes == 0) return;
  op.OverlapNone(dst.GetView(), bytes, src.GetView(), bytes);
  op.Read(src.GetView(), bytes);
  op.Write(dst.GetView(), bytes);
  op.Vector((bytes + 255) / 256, static_cast<double>((bytes + 255) / 256));
  std::memcpy(static_cast<void*>(dst.Data()), static_cast<const void*>(src.Data()), bytes);
}

// Blocks of blockLen bytes from anywhere in GM; in UB each starts on 32 bytes and what fills its last 32 is
// undefined unless isPad.
template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                        const DataCopyPadExtParams<T>& pad, Site site = Site()) {
  Instruction op("DataCopyPad", avsg_cpu::kMte2, site);
  detail::CheckBlocks<T>(op, p);
  op.Require(pad.leftPadding * sizeof(T) <= 32 && pad.rightPadding * sizeof(T) <= 32, "copy-limits",
             "paddings of %d and %d elements, at most 32 bytes each", pad.leftPadding, pad.rightPadding);
  if (p.blockCount == 0 || p.blockLen == 0) return;
  const uint64_t left = pad.leftPadding * sizeof(T);
  const uint64_t used = left + p.blockLen + pad.rightPadding * sizeof(T);
  const uint64_t rounded = (used + 31) / 32 * 32;
  const uint64_t dst_step = rounded + uint64_t{p.dstStride} * 32;
  const uint64_t src_step = uint64_t{p.blockLen} + p.srcStride;
  src.CheckFits(op, src_step * (p.blockCount - 1) + p.blockLen);
  const uint8_t* from = reinterpret_cast<const uint8_t*>(src.GetPhyAddr());
  for (uint64_t b = 0; b < p.blockCount; ++b) {
    const View at = detail::Behind(dst.GetView(), b * dst_step);
    op.ReadGm(from + b * src_step, p.blockLen);
    if (!pad.isPad) op.Clobber(at, 0, rounded);
    op.Write(pad.isPad ? at : detail::Behind(at, left), pad.isPad ? rounded : p.blockLen, pad.isPad ? 32 : 1);
    if (pad.isPad) {
      for (uint64_t i = 0; i + sizeof(T) <= rounded; i += sizeof(T)) {
        std::memcpy(at.address + i, &pad.paddingValue, sizeof(T));
      }
    }
    op.CopyIn(at.address + left, from + b * src_step, p.blockLen);
  }
  op.Dma(uint64_t{p.blockLen} * p.blockCount, true);
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p,
                        Site site = Site()) {
  Instruction op("DataCopyPad", avsg_cpu::kMte3, site);
  detail::CheckBlocks<T>(op, p);
  if (p.blockCount == 0 || p.blockLen == 0) return;
  const uint64_t src_step = (uint64_t{p.blockLen} + 31) / 32 * 32 + uint64_t{p.srcStride} * 32;
  const uint64_t dst_step = uint64_t{p.blockLen} + p.dstStride;
  dst.CheckFits(op, dst_step * (p.blockCount - 1) + p.blockLen);
  uint8_t* to = reinterpret_cast<uint8_t*>(const_cast<T*>(dst.GetPhyAddr()));
  for (uint64_t b = 0; b < p.blockCount; ++b) {
    const View at = detail::Behind(src.GetView(), b * src_step);
    op.Read(at, p.blockLen);
    op.WriteGm(to + b * dst_step, p.blockLen, at.address);
    op.CopyOut(to + b * dst_step, at.address, p.blockLen);
  }
  op.Dma(uint64_t{p.blockLen} * p.blockCount, false);
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_DATA_COPY_H
