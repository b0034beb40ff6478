// SPDX-License-Identifier: Apache-2.0
// LocalTensor, GlobalTensor, TBuf and TPipe: memory of one core and of the device.
#ifndef AVSG_CPU_ASCENDC_TENSOR_H
#define AVSG_CPU_ASCENDC_TENSOR_H

#include "instruction.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {

using avsg_cpu::Instruction;
using avsg_cpu::RepeatCount;
using avsg_cpu::Site;
using avsg_cpu::Strides;
using avsg_cpu::View;

template <typename T>
class LocalTensor {
 public:
  LocalTensor() = default;

  T GetValue(const uint32_t index, Site site = Site()) const {
    Instruction op("GetValue", avsg_cpu::kScalar, site);
    op.Read((*this)[index].GetView(), sizeof(T), sizeof(T));
    op.UbScalar(false);
    T value;
    std::memcpy(&value, address_ + static_cast<uint64_t>(index) * sizeof(T), sizeof(T));
    return value;
  }
  template <typename V>
  void SetValue(const uint32_t index, const V value, Site site = Site()) const {
    Instruction op("SetValue", avsg_cpu::kScalar, site);
    op.Write((*this)[index].GetView(), sizeof(T), sizeof(T));
    op.UbScalar(true);
    const T element = static_cast<T>(value);
    std::memcpy(address_ + static_cast<uint64_t>(index) * sizeof(T), &element, sizeof(T));
  }
  LocalTensor operator[](const uint32_t offset) const {
    const int64_t skip = static_cast<int64_t>(offset) * static_cast<int64_t>(sizeof(T));
    return LocalTensor(address_ + skip, bytes_ - skip);
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return LocalTensor<U>(address_, bytes_);
  }
  uint32_t GetSize() const { return static_cast<uint32_t>(bytes_ / static_cast<int64_t>(sizeof(T))); }

  View GetView() const { return View{address_, bytes_}; }
  T* Data() const { return reinterpret_cast<T*>(address_); }

 private:
  template <typename U>
  friend class LocalTensor;
  template <TPosition>
  friend class TBuf;
  LocalTensor(uint8_t* address, int64_t bytes) : address_(address), bytes_(bytes) {}

  uint8_t* address_ = nullptr;
  int64_t bytes_ = 0;
};

template <typename T>
class GlobalTensor {
 public:
  void SetGlobalBuffer(T* buffer, uint64_t size) {
    address_ = buffer;
    size_ = static_cast<int64_t>(size);
    sized_ = true;
  }
  void SetGlobalBuffer(T* buffer) {
    address_ = buffer;
    sized_ = false;
  }
  const T* GetPhyAddr() const { return address_; }
  T* GetPhyAddr(const uint64_t offset) const { return address_ + offset; }
  uint64_t GetSize() const { return static_cast<uint64_t>(size_); }
  GlobalTensor operator[](const uint64_t offset) const {
    GlobalTensor rest = *this;
    rest.address_ += offset;
    rest.size_ -= static_cast<int64_t>(offset);
    return rest;
  }
  T GetValue(const uint64_t offset, Site site = Site()) const {
    Instruction op("GlobalTensor::GetValue", avsg_cpu::kScalar, site);
    (*this)[offset].CheckFits(op, sizeof(T));
    op.ReadGm(address_ + offset, sizeof(T));
    op.GmScalar();
    T value;
    std::memcpy(&value, static_cast<const void*>(address_ + offset), sizeof(T));
    return value;
  }
  void SetValue(const uint64_t offset, T value, Site site = Site()) {
    Instruction op("GlobalTensor::SetValue", avsg_cpu::kScalar, site);
    (*this)[offset].CheckFits(op, sizeof(T));
    op.WriteGm(address_ + offset, sizeof(T), &value);
    op.GmScalar();
    std::memcpy(static_cast<void*>(address_ + offset), &value, sizeof(T));
  }

  // A tensor that was given a size is never used beyond it.
  void CheckFits(Instruction& op, uint64_t bytes) const {
    op.Require(!sized_ || (size_ >= 0 && bytes <= static_cast<uint64_t>(size_) * sizeof(T)),
               "global-tensor-bounds", "takes %llu bytes where %lld elements of the global tensor are left",
               static_cast<unsigned long long>(bytes), static_cast<long long>(size_));
  }

 private:
  T* address_ = nullptr;
  int64_t size_ = 0;  // elements left; negative past the end
  bool sized_ = false;
};

template <TPosition pos = TPosition::VECCALC>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get(Site site = Site()) {
    return GetWithOffset<T>(static_cast<uint32_t>(bytes_ / sizeof(T)), 0, site);
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t length, Site site = Site()) {
    return GetWithOffset<T>(length, 0, site);
  }
  // length in elements, offset in bytes.
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t length, uint32_t offset, Site site = Site()) {
    Instruction op("TBuf::Get", avsg_cpu::kScalar, site);
    const uint64_t bytes = static_cast<uint64_t>(length) * sizeof(T);
    op.Require(offset + bytes <= bytes_, "buffer-bounds",
               "asks for %llu bytes at offset %u of a buffer of %u", static_cast<unsigned long long>(bytes),
               offset, bytes_);
    return LocalTensor<T>(address_ + offset, static_cast<int64_t>(bytes));
  }

 private:
  friend class TPipe;
  uint8_t* address_ = nullptr;
  uint32_t bytes_ = 0;
};

class TPipe {
 public:
  // bytes are rounded up to 32.
  template <TPosition pos>
  bool InitBuffer(TBuf<pos>& buffer, uint32_t bytes, Site site = Site()) {
    Instruction op("TPipe::InitBuffer", avsg_cpu::kScalar, site);
    const uint64_t rounded = (static_cast<uint64_t>(bytes) + 31) / 32 * 32;
    op.Require(next_ + rounded <= avsg_cpu::kUsableUbBytes, "ub-size",
               "asks for %llu bytes after %u of the %u usable bytes",
               static_cast<unsigned long long>(rounded), next_, avsg_cpu::kUsableUbBytes);
    if (next_ + rounded > avsg_cpu::kUbBytes) __builtin_trap();
    buffer.address_ = avsg_cpu::this_core->ub + next_;
    buffer.bytes_ = static_cast<uint32_t>(rounded);
    next_ += static_cast<uint32_t>(rounded);
    return true;
  }

  // The lowest id that is not allocated; it stays free.
  TEventID FetchEventID(HardEvent event) const { return Lowest(taken_[static_cast<int>(event)]); }
  template <HardEvent event>
  TEventID FetchEventID() const {
    return FetchEventID(event);
  }
  template <HardEvent event>
  TEventID AllocEventID(Site site = Site()) {
    uint8_t& taken = taken_[static_cast<int>(event)];
    Instruction op("TPipe::AllocEventID", avsg_cpu::kScalar, site);
    op.Require(taken != 0xFF, "event-ids", "all 8 events of this pair of pipes are allocated");
    const TEventID id = Lowest(taken);
    taken = static_cast<uint8_t>(taken | 1u << id);
    return id;
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id, Site site = Site()) {
    uint8_t& taken = taken_[static_cast<int>(event)];
    Instruction op("TPipe::ReleaseEventID", avsg_cpu::kScalar, site);
    op.Require(id >= 0 && id < 8 && (taken >> id & 1), "event-ids", "event %d is not allocated", id);
    taken = static_cast<uint8_t>(taken & ~(1u << id));
  }

 private:
  static TEventID Lowest(uint8_t taken) {
    for (int id = 0; id < 8; ++id) {
      if (!(taken >> id & 1)) return static_cast<TEventID>(id);
    }
    return 7;
  }
  uint32_t next_ = 0;
  uint8_t taken_[32] = {};
};

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_TENSOR_H
