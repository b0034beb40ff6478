// SPDX-License-Identifier: Apache-2.0
// The plain C++ baselines of scripts/bench.py: two ways to match, and copying every selected row.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench_common.h"

namespace bench {
namespace {

// GatherSelection's method: sort the selected and the held tokens, merge, and let the misses take free slots.
// It holds K slots; with more, free slots are taken in turn. kRadix sorts by two counting passes instead of
// std::sort.
template <bool kRadix>
class DualPointer {
 public:
  DualPointer(int32_t top_k, int32_t num_slots) : slot_token_(num_slots, -1), kept_(num_slots), hit_(top_k) {}

  int32_t Match(const int32_t* tokens, int32_t top_k, int32_t* slots) {
    Sort(tokens, top_k, &selected_);
    Sort(slot_token_.data(), static_cast<int32_t>(slot_token_.size()), &held_);
    std::fill(kept_.begin(), kept_.end(), 0);
    std::fill(hit_.begin(), hit_.end(), 0);
    Merge(slots);
    return Place(tokens, top_k, slots);
  }
  const int32_t* slot_token() const { return slot_token_.data(); }

 private:
  // Keys are token << 32 | position; descending, so that empty slots (-1) come last.
  void Sort(const int32_t* tokens, int32_t count, std::vector<int64_t>* keys) {
    keys->resize(count);
    for (int32_t i = 0; i < count; ++i) (*keys)[i] = (int64_t{tokens[i]} << 32) | i;
    if (!kRadix) {
      std::sort(keys->begin(), keys->end(), [](int64_t a, int64_t b) { return a > b; });
      return;
    }
    scratch_.resize(count);
    for (int32_t shift : {0, 11}) {  // 22 bits hold token + 1
      int32_t start[2049] = {0};
      for (int64_t key : *keys) ++start[Digit(key, shift) + 1];
      for (int32_t d = 1; d <= 2048; ++d) start[d] += start[d - 1];
      for (int64_t key : *keys) scratch_[start[Digit(key, shift)]++] = key;
      keys->swap(scratch_);
    }
  }
  static int32_t Digit(int64_t key, int32_t shift) { return 2047 - ((((key >> 32) + 1) >> shift) & 2047); }

  void Merge(int32_t* slots) {
    size_t i = 0, j = 0;
    while (i < selected_.size() && j < held_.size()) {
      const int64_t token = selected_[i] >> 32, held = held_[j] >> 32;
      if (token < 0 || held < 0) return;
      if (token == held) {
        const int32_t position = static_cast<int32_t>(selected_[i++]),
                      slot = static_cast<int32_t>(held_[j++]);
        slots[position] = slot;
        hit_[position] = 1;
        kept_[slot] = 1;
      } else if (token > held) {
        ++i;
      } else {
        ++j;
      }
    }
  }

  int32_t Place(const int32_t* tokens, int32_t top_k, int32_t* slots) {
    const int32_t num_slots = static_cast<int32_t>(slot_token_.size());
    int32_t num_misses = 0;
    for (int32_t i = 0; i < top_k; ++i) {
      if (hit_[i]) continue;
      while (kept_[next_]) next_ = next_ + 1 == num_slots ? 0 : next_ + 1;
      kept_[next_] = 1;
      slot_token_[next_] = tokens[i];
      slots[i] = next_;
      ++num_misses;
    }
    return num_misses;
  }

  std::vector<int32_t> slot_token_;
  std::vector<char> kept_, hit_;
  std::vector<int64_t> selected_, held_, scratch_;
  int32_t next_ = 0;
};

// The textbook LRU: a hash map to the places in a list, most recent first.
class MapAndList {
 public:
  MapAndList(int32_t, int32_t num_slots) : slot_token_(num_slots, -1) {
    where_.reserve(num_slots);
    for (int32_t slot = num_slots - 1; slot >= 0; --slot) order_.push_back(slot);
  }

  int32_t Match(const int32_t* tokens, int32_t top_k, int32_t* slots) {
    misses_.clear();
    for (int32_t i = 0; i < top_k; ++i) {
      const auto found = where_.find(tokens[i]);
      if (found == where_.end()) {
        misses_.push_back(i);
        continue;
      }
      order_.splice(order_.begin(), order_, found->second);
      slots[i] = *found->second;
    }
    for (int32_t i : misses_) {
      const auto victim = std::prev(order_.end());
      const int32_t slot = *victim;
      if (slot_token_[slot] >= 0) where_.erase(slot_token_[slot]);
      slot_token_[slot] = tokens[i];
      order_.splice(order_.begin(), order_, victim);
      where_[tokens[i]] = order_.begin();
      slots[i] = slot;
    }
    return static_cast<int32_t>(misses_.size());
  }
  const int32_t* slot_token() const { return slot_token_.data(); }

 private:
  std::vector<int32_t> slot_token_;
  std::list<int32_t> order_;
  std::unordered_map<int32_t, std::list<int32_t>::iterator> where_;
  std::vector<int32_t> misses_;
};

template <class Method>
void MeasureMatch(const Data& data, int64_t* nanoseconds, Result* result) {
  std::vector<Method> rows;
  rows.reserve(data.num_rows);
  for (int32_t row = 0; row < data.num_rows; ++row) rows.emplace_back(data.top_k, data.num_slots);
  std::vector<int32_t> slots(data.top_k);
  *result = Result{0, 0, 0};
  for (int32_t step = 0; step < data.num_steps; ++step) {
    for (int32_t row = 0; row < data.num_rows; ++row) {
      const int32_t* tokens = data.At(step, row);
      int32_t num_misses = 0;
      const int64_t time =
          Nanoseconds([&] { num_misses = rows[row].Match(tokens, data.top_k, slots.data()); });
      result->num_wrong += CountWrong(tokens, slots, rows[row].slot_token(), data.num_slots);
      if (step < data.num_warm_steps) continue;
      result->num_misses += num_misses;
      nanoseconds[result->num_calls++] = time;
    }
  }
}

// Copies all selected rows of all requests with persistent threads, each an equal contiguous share.
class CopyAll {
 public:
  CopyAll(const LoadData& data, int32_t num_threads) : data_(data), num_threads_(num_threads) {
    for (int32_t thread = 1; thread < num_threads; ++thread)
      threads_.emplace_back([this, thread] { Work(thread); });
  }
  ~CopyAll() {
    stop_ = true;
    ++round_;
    for (std::thread& thread : threads_) thread.join();
  }

  void Copy(const int32_t* topk_tokens) {
    topk_tokens_ = topk_tokens;
    pending_ = num_threads_ - 1;
    ++round_;
    CopyShare(0);
    while (pending_ > 0) std::this_thread::yield();
  }

 private:
  void Work(int32_t thread) {
    for (int32_t seen = 0;;) {
      while (round_ == seen) std::this_thread::yield();
      ++seen;
      if (stop_) return;
      CopyShare(thread);
      --pending_;
    }
  }

  void CopyShare(int32_t thread) {
    const int64_t num_rows = int64_t{data_.num_requests} * data_.top_k;
    for (int64_t i = thread * num_rows / num_threads_; i < (thread + 1) * num_rows / num_threads_; ++i) {
      const int32_t token = topk_tokens_[i];
      const int32_t* blocks = data_.block_table + i / data_.top_k * data_.max_blocks;
      const int64_t row =
          int64_t{blocks[token / data_.block_size]} * data_.block_size + token % data_.block_size;
      std::memcpy(data_.device_kv + i * data_.row_bytes, data_.host_kv + row * data_.row_bytes,
                  data_.row_bytes);
    }
  }

  const LoadData data_;
  const int32_t num_threads_;
  const int32_t* topk_tokens_ = nullptr;
  std::atomic<int32_t> round_{0}, pending_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace
}  // namespace bench

extern "C" {

// method: 0 dual pointer with std::sort, 1 dual pointer with radix sort, 2 std::unordered_map and LRU list.
void bench_match_baseline(int32_t method, const bench::Data* data, int64_t* nanoseconds,
                          bench::Result* result) {
  if (method == 0) bench::MeasureMatch<bench::DualPointer<false>>(*data, nanoseconds, result);
  if (method == 1) bench::MeasureMatch<bench::DualPointer<true>>(*data, nanoseconds, result);
  if (method == 2) bench::MeasureMatch<bench::MapAndList>(*data, nanoseconds, result);
}

// topk_tokens [num_steps, num_requests, top_k]; device_kv [num_requests * top_k, row_bytes]; nanoseconds
// [num_steps]. Returns the number of rows that differ from the host's after the last step.
int64_t bench_copy_all(const bench::LoadData* data, const int32_t* topk_tokens, int32_t num_steps,
                       int32_t num_threads, int64_t* nanoseconds) {
  bench::CopyAll copy(*data, num_threads);
  const int64_t num_rows = int64_t{data->num_requests} * data->top_k;
  for (int32_t step = 0; step < num_steps; ++step) {
    const int32_t* tokens = topk_tokens + step * num_rows;
    nanoseconds[step] = bench::Nanoseconds([&] { copy.Copy(tokens); });
  }
  std::vector<int64_t> rows(num_rows);
  for (int64_t i = 0; i < num_rows; ++i) rows[i] = i;
  return bench::CountWrongRows(*data, topk_tokens + (num_steps - 1) * num_rows, rows.data());
}

}  // extern "C"
