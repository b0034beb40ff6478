// SPDX-License-Identifier: Apache-2.0
// The AVSG library as scripts/bench.py measures it: calls of the C ABI, without Python in between.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "avsg.h"
#include "avsg_layout.h"
#include "bench_common.h"

namespace bench {
namespace {

constexpr int32_t kFinal = sparse_gather::kMaxTokens;  // every token's KV is final: nothing is invalidated

// A loaded library, the state and the plan of one call.
class Library {
 public:
  Library(const char* path, const avsg_config& config, int32_t num_entries) : config_(config) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) Fail(dlerror());
    sizes_ = reinterpret_cast<decltype(&avsg_sizes)>(dlsym(handle, "avsg_sizes"));
    match_ = reinterpret_cast<decltype(&avsg_match)>(dlsym(handle, "avsg_match"));
    fused_ = reinterpret_cast<decltype(&avsg_step_fused)>(dlsym(handle, "avsg_step_fused"));
    error_ = reinterpret_cast<decltype(&avsg_last_error)>(dlsym(handle, "avsg_last_error"));
    avsg_size_report report = {};
    report.struct_bytes = sizeof(report);
    Check(sizes_(&config_, &report));
    stride_ = report.state_stride_bytes;
    state_ = Zeroed(report.state_bytes);
    workspace_ = Zeroed(report.workspace_bytes);
    const size_t width = static_cast<size_t>(num_entries) * config.top_k;
    slots_.resize(width);
    miss_tokens_.resize(width);
    miss_slots_.resize(width);
    num_misses_.resize(num_entries);
    counters_.resize(num_entries * sparse_gather::kNumCounters);
    plan_rows_.resize(num_entries);
    lens_.assign(num_entries, kFinal);
    plan_lens_.resize(num_entries);
    leases_.assign(num_entries, 1);
    plan_ = {sizeof(avsg_plan),  num_entries,         1,
             slots_.data(),      miss_tokens_.data(), miss_slots_.data(),
             num_misses_.data(), counters_.data(),    plan_rows_.data(),
             plan_lens_.data()};
  }
  ~Library() {
    std::free(state_);
    std::free(workspace_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void Match(const int32_t* topk_tokens, const int32_t* rows) {
    const avsg_step step = Step(topk_tokens, rows);
    Check(match_(&config_, &step, state_, &plan_, workspace_, nullptr));
  }
  void StepFused(const int32_t* topk_tokens, const int32_t* rows, const avsg_blocks& blocks,
                 const avsg_payload& payload) {
    const avsg_step step = Step(topk_tokens, rows);
    int32_t load_counters[sparse_gather::kNumLoadCounters];
    Check(fused_(&config_, &step, state_, &plan_, &blocks, &payload, 1, load_counters, workspace_, nullptr));
  }
  const std::vector<int32_t>& slots() const { return slots_; }
  const std::vector<int32_t>& num_misses() const { return num_misses_; }
  const int32_t* slot_token(int32_t row) const {
    return reinterpret_cast<const int32_t*>(static_cast<char*>(state_) + row * stride_ +
                                            sparse_gather::SlotTokenOffset());
  }

 private:
  [[noreturn]] static void Fail(const char* message) {
    std::fprintf(stderr, "bench: %s\n", message);
    std::exit(1);
  }
  void Check(int error) const {
    if (error != AVSG_OK) Fail(error_());
  }
  static void* Zeroed(int64_t bytes) {
    void* memory = std::aligned_alloc(512, (bytes + 1023) / 512 * 512);
    if (memory == nullptr) Fail("out of memory");
    std::memset(memory, 0, bytes);
    return memory;
  }
  avsg_step Step(const int32_t* topk_tokens, const int32_t* rows) const {
    return {sizeof(avsg_step), plan_.num_entries, 1,   topk_tokens, lens_.data(),
            lens_.data(),      leases_.data(),    rows};
  }

  decltype(&avsg_sizes) sizes_;
  decltype(&avsg_match) match_;
  decltype(&avsg_step_fused) fused_;
  decltype(&avsg_last_error) error_;
  avsg_config config_;
  avsg_plan plan_;
  int64_t stride_ = 0;
  void* state_ = nullptr;
  void* workspace_ = nullptr;
  std::vector<int32_t> slots_, miss_tokens_, miss_slots_, num_misses_, counters_, plan_rows_, lens_,
      plan_lens_, leases_;
};

avsg_config Config(int32_t num_rows, int32_t num_slots, int32_t top_k, int32_t num_cores) {
  return {sizeof(avsg_config), num_rows, num_slots, top_k, 1, sparse_gather::kMaxLife, num_cores};
}

}  // namespace
}  // namespace bench

extern "C" {

// One request a call; the rows take turns, so that neither caches nor branch predictors know the next one.
void bench_match_library(const char* path, const bench::Data* data, int64_t* nanoseconds,
                         bench::Result* result) {
  bench::Library library(path, bench::Config(data->num_rows, data->num_slots, data->top_k, 0), 1);
  *result = bench::Result{0, 0, 0};
  for (int32_t step = 0; step < data->num_steps; ++step) {
    for (int32_t row = 0; row < data->num_rows; ++row) {
      const int32_t* tokens = data->At(step, row);
      const int64_t time = bench::Nanoseconds([&] { library.Match(tokens, &row); });
      result->num_wrong +=
          bench::CountWrong(tokens, library.slots(), library.slot_token(row), data->num_slots);
      if (step < data->num_warm_steps) continue;
      result->num_misses += library.num_misses()[0];
      nanoseconds[result->num_calls++] = time;
    }
  }
}

// Match and copy of all requests in one call; as bench_copy_all, but device_kv is [num_requests * num_slots,
// row_bytes].
int64_t bench_step_library(const char* path, const bench::LoadData* data, const int32_t* topk_tokens,
                           int32_t num_steps, int32_t num_threads, int64_t* nanoseconds,
                           int64_t* num_misses) {
  const bench::LoadData& d = *data;
  bench::Library library(path, bench::Config(d.num_requests, d.num_slots, d.top_k, num_threads),
                         d.num_requests);
  const avsg_blocks blocks = {sizeof(avsg_blocks), d.num_requests,    d.max_blocks,
                              d.block_size,        d.num_host_blocks, d.block_table};
  const avsg_payload payload = {sizeof(avsg_payload), 0, d.row_bytes, d.host_kv, d.device_kv, nullptr};
  std::vector<int32_t> rows(d.num_requests);
  for (int32_t row = 0; row < d.num_requests; ++row) rows[row] = row;
  std::vector<int64_t> device_rows(static_cast<size_t>(d.num_requests) * d.top_k);
  int64_t num_wrong = 0;
  for (int32_t step = 0; step < num_steps; ++step) {
    const int32_t* tokens = topk_tokens + static_cast<int64_t>(step) * d.num_requests * d.top_k;
    nanoseconds[step] = bench::Nanoseconds([&] { library.StepFused(tokens, rows.data(), blocks, payload); });
    num_misses[step] = 0;
    for (int32_t count : library.num_misses()) num_misses[step] += count;
    if (step + 1 < num_steps) continue;
    for (size_t i = 0; i < device_rows.size(); ++i) {
      const int32_t slot = library.slots()[i];
      device_rows[i] = slot < 0 ? -1 : static_cast<int64_t>(i) / d.top_k * d.num_slots + slot;
    }
    num_wrong = bench::CountWrongRows(d, tokens, device_rows.data());
  }
  return num_wrong;
}

}  // extern "C"
