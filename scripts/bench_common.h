// SPDX-License-Identifier: Apache-2.0
// What the measured parts of scripts/bench.py share: data, results, the clock and the check of slots.
#ifndef AVSG_BENCH_COMMON_H
#define AVSG_BENCH_COMMON_H

#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

// Top-k tokens [num_steps, num_rows, top_k]; the first num_warm_steps are not measured.
struct Data {
  const int32_t* topk_tokens;
  int32_t num_steps, num_warm_steps, num_rows, top_k, num_slots;
  const int32_t* At(int32_t step, int32_t row) const {
    return topk_tokens + (int64_t{step} * num_rows + row) * top_k;
  }
};

struct Result {
  int64_t num_wrong;  // slots that do not hold their token, or serve two tokens
  int64_t num_misses;
  int64_t num_calls;  // measured ones
};

template <class Function>
int64_t Nanoseconds(Function&& function) {
  const auto begin = Clock::now();
  function();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

inline int64_t CountWrong(const int32_t* tokens, const std::vector<int32_t>& slots, const int32_t* slot_token,
                          int32_t num_slots) {
  std::vector<char> used(num_slots, 0);
  int64_t wrong = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const int32_t slot = slots[i];
    const bool good = slot >= 0 && slot < num_slots && slot_token[slot] == tokens[i] && !used[slot];
    if (good) used[slot] = 1;
    wrong += !good;
  }
  return wrong;
}

// One step of num_requests decoding requests. host_kv [num_host_blocks, block_size, row_bytes],
// block_table [num_requests, max_blocks].
struct LoadData {
  const uint8_t* host_kv;
  uint8_t* device_kv;
  const int32_t* block_table;
  int64_t row_bytes, num_host_blocks;
  int32_t num_requests, top_k, num_slots, max_blocks, block_size;
};

// device_rows [num_requests, top_k]: where each selected token's row should be; negative is wrong.
inline int64_t CountWrongRows(const LoadData& data, const int32_t* topk_tokens, const int64_t* device_rows) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < int64_t{data.num_requests} * data.top_k; ++i) {
    const int32_t token = topk_tokens[i];
    const int32_t block = data.block_table[i / data.top_k * data.max_blocks + token / data.block_size];
    const int64_t host_row = int64_t{block} * data.block_size + token % data.block_size;
    wrong += device_rows[i] < 0 || std::memcmp(data.device_kv + device_rows[i] * data.row_bytes,
                                               data.host_kv + host_row * data.row_bytes, data.row_bytes) != 0;
  }
  return wrong;
}

}  // namespace bench

#endif  // AVSG_BENCH_COMMON_H
