// SPDX-License-Identifier: Apache-2.0
// Events, barriers, core numbers and the tensor list.
#ifndef AVSG_CPU_ASCENDC_SYNC_H
#define AVSG_CPU_ASCENDC_SYNC_H

#include "tensor.h"

namespace AscendC {
inline namespace AVSG_CPU_LEVEL {
namespace detail {

struct PipePair {
  avsg_cpu::Pipe from;
  avsg_cpu::Pipe to;
};
constexpr PipePair PipesOf(HardEvent event) {
  using namespace avsg_cpu;
  switch (event) {
    case HardEvent::MTE2_V:
      return {kMte2, kVector};
    case HardEvent::V_MTE2:
      return {kVector, kMte2};
    case HardEvent::MTE3_V:
      return {kMte3, kVector};
    case HardEvent::V_MTE3:
      return {kVector, kMte3};
    case HardEvent::V_V:
      return {kVector, kVector};
    case HardEvent::MTE3_MTE2:
      return {kMte3, kMte2};
    case HardEvent::MTE2_MTE3:
      return {kMte2, kMte3};
    case HardEvent::S_V:
      return {kScalar, kVector};
    case HardEvent::V_S:
      return {kVector, kScalar};
    case HardEvent::S_MTE2:
      return {kScalar, kMte2};
    case HardEvent::MTE2_S:
      return {kMte2, kScalar};
    case HardEvent::S_MTE3:
      return {kScalar, kMte3};
    case HardEvent::MTE3_S:
      return {kMte3, kScalar};
  }
  return {kScalar, kScalar};
}

}  // namespace detail

template <HardEvent event>
inline void SetFlag(int32_t id, Site site = Site()) {
  constexpr detail::PipePair pipes = detail::PipesOf(event);
  avsg_cpu::SetEvent(pipes.from, pipes.to, id, site);
}
template <HardEvent event>
inline void WaitFlag(int32_t id, Site site = Site()) {
  constexpr detail::PipePair pipes = detail::PipesOf(event);
  avsg_cpu::WaitEvent(pipes.from, pipes.to, id, site);
}

template <pipe_t pipe>
inline void PipeBarrier(Site site = Site()) {
  static_assert(pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3 || pipe == PIPE_ALL,
                "no barrier for this pipe");
  avsg_cpu::Barrier(pipe == PIPE_MTE2   ? avsg_cpu::kMte2
                    : pipe == PIPE_MTE3 ? avsg_cpu::kMte3
                                        : avsg_cpu::kVector,
                    pipe == PIPE_ALL, site);
}

// All vector cores of the launch; it includes PipeBarrier<PIPE_ALL>.
template <bool isAIVOnly = true>
inline void SyncAll(Site site = Site()) {
  static_assert(isAIVOnly, "a vector operator synchronises its vector cores only");
  avsg_cpu::Synchronize(site);
}

inline int64_t GetBlockIdx() { return avsg_cpu::this_core->index; }
inline int64_t GetBlockNum() { return avsg_cpu::this_core->num_cores; }

// Writes the scalar unit's cache lines back and drops them.
template <typename T, CacheLine line, DcciDst target>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& tensor, Site site = Site()) {
  const bool whole = line == CacheLine::ENTIRE_DATA_CACHE;
  avsg_cpu::CleanCache(whole ? nullptr : tensor.GetPhyAddr(), 64, site);
}

// Reads the list of a dynamic input: word 0 holds the distance in bytes from the list to its pointers.
class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  explicit ListTensorDesc(void* data, uint32_t length = 0xFFFFFFFF, uint32_t count = 0xFFFFFFFF,
                          Site site = Site()) {
    Init(data, length, count, site);
  }
  void Init(void* data, uint32_t length = 0xFFFFFFFF, uint32_t count = 0xFFFFFFFF, Site site = Site()) {
    const uint64_t* words = static_cast<const uint64_t*>(data);
    Instruction op("ListTensorDesc", avsg_cpu::kScalar, site);
    op.ReadGm(words, 16);
    op.GmScalar();
    op.GmScalar();
    const uint64_t pointers = words[0] / 8;
    const uint64_t dimensions = words[1] & 0xFFFFFFFF;
    const uint64_t words_each = dimensions == 0 ? 2 : 1 + dimensions;
    size_ = static_cast<uint32_t>(words[1] >> 32);
    if (size_ == 0) size_ = static_cast<uint32_t>(words[pointers - words_each] >> 32) + 1;
    pointers_ = words + pointers;
    op.Require(dimensions == 0 || size_ == (pointers - 1) / words_each, "tensor-list",
               "%u tensors do not match a distance of %llu bytes", size_,
               static_cast<unsigned long long>(words[0]));
    op.Require(count == 0xFFFFFFFF || count == size_, "tensor-list", "holds %u tensors, %u were expected",
               size_, count);
    (void)length;
  }
  template <typename T>
  T* GetDataPtr(uint32_t index, Site site = Site()) {
    Instruction op("ListTensorDesc::GetDataPtr", avsg_cpu::kScalar, site);
    op.Require(index < size_, "tensor-list", "tensor %u of %u", index, size_);
    op.ReadGm(pointers_ + index, 8);
    op.GmScalar();
    return reinterpret_cast<T*>(pointers_[index]);
  }
  uint32_t GetSize() const { return size_; }

 private:
  const uint64_t* pointers_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace AVSG_CPU_LEVEL
}  // namespace AscendC

#endif  // AVSG_CPU_ASCENDC_SYNC_H
