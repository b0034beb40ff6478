// SPDX-License-Identifier: Apache-2.0
// What Load and Store share: a window of plan entries with their block ids, and a ring of UB buffers for row
// copies.
#ifndef AVSG_ROW_COPY_H
#define AVSG_ROW_COPY_H

#include "avsg_layout.h"
#include "vector_util.h"

namespace sparse_gather {

// What a core knows of the plan: a window of plan entries, their block ids, a tile of batch entries. int32
// all.
class CopyWindow {
 public:
  __aicore__ inline CopyWindow(const CopyUb& at, TBuf<TPosition::VECCALC>& ub)
      : words_(ub.GetWithOffset<int32_t>(kCopyWindowBytes / 4, at.window)) {
    // Block ids that are not fetched are read all the same, by the sum of the cores.
    Duplicate(words_, 0, kCopyWindowBytes / 4);
    Sync<HardEvent::V_MTE2>();
    Sync<HardEvent::V_S>();
  }

  __aicore__ inline LocalTensor<int32_t> tokens() const { return words_; }
  __aicore__ inline LocalTensor<int32_t> slots() const { return words_[kCopyWindow]; }
  __aicore__ inline LocalTensor<int32_t> num_misses() const { return words_[2 * kCopyWindow]; }
  __aicore__ inline LocalTensor<int32_t> rows() const { return words_[3 * kCopyWindow]; }
  __aicore__ inline LocalTensor<int32_t> verified_lens() const { return words_[4 * kCopyWindow]; }
  __aicore__ inline LocalTensor<int32_t> block_ids() const { return words_[5 * kCopyWindow]; }
  __aicore__ inline LocalTensor<int32_t> poison() const { return words_[5 * kCopyWindow + kBlockIdWords]; }
  __aicore__ inline LocalTensor<int32_t> pair() const { return words_[5 * kCopyWindow + kBlockIdWords + 8]; }

  __aicore__ inline void Fetch(const LocalTensor<int32_t>& dst, GM_ADDR src, int64_t first,
                               int32_t count) const {
    CopyIn(dst, Global<int32_t>(src, 4 * first), 4 * count);
  }

  // Host row of a token whose block id stands at word `at`, -1 if the block is bad. The id was fetched if it
  // lies in the table.
  __aicore__ inline int64_t HostRow(int32_t at, int32_t token, int32_t block_size, int32_t max_blocks,
                                    int64_t num_host_blocks) const {
    const int32_t block = token / block_size;
    if (block >= max_blocks) return -1;
    const int32_t id = block_ids().GetValue(at);
    if (id < 0 || id >= num_host_blocks) return -1;
    return int64_t{id} * block_size + token - block * block_size;
  }

  // counters[0..1] = the sum of first and second over all cores. Every core must call it.
  __aicore__ inline void SumOverCores(GM_ADDR workspace, GM_ADDR counters, int32_t first, int32_t second,
                                      int32_t num_cores) const {
    const LocalTensor<int32_t> pair = this->pair();
    pair.SetValue(0, first);
    pair.SetValue(1, second);
    Sync<HardEvent::S_MTE3>();
    CopyOut(Global<int32_t>(workspace, int64_t{kPartialBytes} * GetBlockIdx()), pair, 8);
    SyncAll();
    if (GetBlockIdx() != 0) return;
    const LocalTensor<int32_t> pairs = block_ids();
    DataCopyPad(pairs, Global<int32_t>(workspace),
                DataCopyExtParams(static_cast<uint16_t>(num_cores), 8, kPartialBytes - 8, 0, 0),
                DataCopyPadExtParams<int32_t>(false, 0, 0, 0));
    Sync<HardEvent::MTE2_S>();
    int32_t sums[2] = {0, 0};
    for (int32_t core = 0; core < num_cores; ++core) {
      sums[0] += pairs.GetValue(8 * core);
      sums[1] += pairs.GetValue(8 * core + 1);
    }
    Sync<HardEvent::MTE3_S>();
    pair.SetValue(0, sums[0]);
    pair.SetValue(1, sums[1]);
    Sync<HardEvent::S_MTE3>();
    CopyOut(Global<int32_t>(counters), pair, 8);
  }

 private:
  LocalTensor<int32_t> words_;
};

// Rows pass through UB in chunks, around a ring of buffers: all but one are arriving or wait to leave, while
// the oldest leaves. Buffer i owns event id i of both directions: MTE2_MTE3 says that it is full, MTE3_MTE2
// that it is free.
class RowRing {
 public:
  __aicore__ inline RowRing(const CopyUb& at, TBuf<TPosition::VECCALC>& ub)
      : bytes_(ub.GetWithOffset<uint8_t>(at.num_buffers * at.chunk_bytes, at.rows)),
        chunk_bytes_(at.chunk_bytes),
        num_buffers_(static_cast<int32_t>(at.num_buffers)) {}

  __aicore__ inline void Copy(GM_ADDR to, GM_ADDR from, int64_t row_bytes) {
    for (int64_t done = 0; done < row_bytes; done += chunk_bytes_) {
      if (num_full_ == num_buffers_ - 1) Leave();
      const event_t event = static_cast<event_t>(next_);
      if (num_leaving_ + num_full_ == num_buffers_) {
        WaitFlag<HardEvent::MTE3_MTE2>(event);
        num_leaving_ -= 1;
      }
      to_[next_] = to + done;
      to_bytes_[next_] = ChunkOf(row_bytes - done);
      CopyIn(bytes_[next_ * chunk_bytes_], Global<uint8_t>(from, done), to_bytes_[next_]);
      SetFlag<HardEvent::MTE2_MTE3>(event);
      next_ = Behind(next_, 1);
      num_full_ += 1;
    }
  }

  __aicore__ inline void Zero(GM_ADDR to, int64_t row_bytes) {
    Drain();
    Sync<HardEvent::MTE3_V>();
    Duplicate(bytes_.ReinterpretCast<int32_t>(), 0, static_cast<int32_t>(chunk_bytes_ / 4));
    Sync<HardEvent::V_MTE3>();
    for (int64_t done = 0; done < row_bytes; done += chunk_bytes_) {
      CopyOut(Global<uint8_t>(to, done), bytes_, ChunkOf(row_bytes - done));
    }
    Sync<HardEvent::MTE3_MTE2>();
  }

  // All copies have left UB.
  __aicore__ inline void Drain() {
    while (num_full_ > 0) Leave();
    for (; num_leaving_ > 0; --num_leaving_) {
      WaitFlag<HardEvent::MTE3_MTE2>(static_cast<event_t>(Behind(next_, num_buffers_ - num_leaving_)));
    }
  }

 private:
  __aicore__ inline uint32_t ChunkOf(int64_t bytes_left) const {
    return static_cast<uint32_t>(bytes_left < chunk_bytes_ ? bytes_left : chunk_bytes_);
  }
  __aicore__ inline int32_t Behind(int32_t buffer, int32_t count) const {
    return buffer + count < num_buffers_ ? buffer + count : buffer + count - num_buffers_;
  }
  // Sends off the oldest full buffer.
  __aicore__ inline void Leave() {
    const int32_t oldest = Behind(next_, num_buffers_ - num_full_);
    const event_t event = static_cast<event_t>(oldest);
    WaitFlag<HardEvent::MTE2_MTE3>(event);
    CopyOut(Global<uint8_t>(to_[oldest]), bytes_[oldest * chunk_bytes_], to_bytes_[oldest]);
    SetFlag<HardEvent::MTE3_MTE2>(event);
    num_full_ -= 1;
    num_leaving_ += 1;
  }

  LocalTensor<uint8_t> bytes_;
  int64_t chunk_bytes_;
  int32_t num_buffers_;
  GM_ADDR to_[kMaxCopyBuffers];  // where the chunk in each buffer goes
  uint32_t to_bytes_[kMaxCopyBuffers];
  int32_t next_ = 0;
  int32_t num_full_ = 0;     // the buffers before next_
  int32_t num_leaving_ = 0;  // the buffers before those, sent off and not waited for
};

}  // namespace sparse_gather

#endif  // AVSG_ROW_COPY_H
