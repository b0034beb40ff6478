/* SPDX-License-Identifier: Apache-2.0
 * A C99 caller of the C ABI: some fused steps with pseudo-random top-k; prints a checksum of all it holds. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "avsg.h"

enum { kRows = 2, kSlots = 128, kTopK = 64, kQueries = 2, kEntries = 2, kSteps = 24 };
enum { kBlockSize = 16, kBlocks = 64, kMaxBlocks = 32, kRowBytes = 48, kWidth = kQueries * kTopK };

static uint32_t random_state = 12345;
static uint32_t Random(uint32_t limit) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % limit;
}

static uint32_t Sum(uint32_t sum, const void* data, size_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  size_t i;
  for (i = 0; i < bytes; ++i) sum = (sum ^ at[i]) * 16777619u;
  return sum;
}

static void* Zeros(int64_t bytes) {
  void* memory = aligned_alloc(512, ((size_t)bytes + 511) / 512 * 512);
  if (memory == NULL) exit(2);
  return memset(memory, 0, (size_t)bytes);
}

typedef int (*SizesCall)(const avsg_config*, avsg_size_report*);
typedef int (*StepCall)(const avsg_config*, const avsg_step*, void*, avsg_plan*, const avsg_blocks*,
                        const avsg_payload*, int32_t, int32_t*, void*, void*);
typedef const char* (*ErrorCall)(void);

static int32_t topk_tokens[kEntries * kWidth], slots[kEntries * kWidth], miss_tokens[kEntries * kWidth];
static int32_t miss_slots[kEntries * kWidth], block_table[kEntries * kMaxBlocks], counters[kEntries * 8];
static int32_t num_misses[kEntries], plan_rows[kEntries], plan_lens[kEntries], load_counters[2];
static int32_t leases[kEntries] = {7, 9}, rows[kEntries] = {1, 0}, verified_lens[kEntries],
               seq_lens[kEntries];

static uint32_t Step(StepCall call, const avsg_config* config, void* state, void* workspace,
                     const avsg_payload* payload, int step, uint32_t sum) {
  const avsg_step arguments = {sizeof(avsg_step), kEntries, kQueries, topk_tokens,
                               verified_lens,     seq_lens, leases,   rows};
  avsg_plan plan = {sizeof(avsg_plan), kEntries,   kQueries, slots,     miss_tokens,
                    miss_slots,        num_misses, counters, plan_rows, plan_lens};
  const avsg_blocks blocks = {sizeof(avsg_blocks), kEntries, kMaxBlocks, kBlockSize, kBlocks, block_table};
  int i;
  for (i = 0; i < kEntries; ++i) {
    verified_lens[i] = 300 + step;
    seq_lens[i] = verified_lens[i] + kQueries - 1;
  }
  for (i = 0; i < kEntries * kWidth; ++i) topk_tokens[i] = (int32_t)Random(i % 4 == 0 ? 300 : 60);
  if (call(config, &arguments, state, &plan, &blocks, payload, 1, load_counters, workspace, NULL) != 0)
    return 0;
  sum = Sum(sum, slots, sizeof(slots));
  sum = Sum(sum, num_misses, sizeof(num_misses));
  sum = Sum(sum, counters, sizeof(counters));
  return Sum(sum, load_counters, sizeof(load_counters));
}

int main(int argc, char** argv) {
  const avsg_config config = {sizeof(avsg_config), kRows, kSlots, kTopK, kQueries, 2000, 3};
  avsg_size_report sizes = {sizeof(avsg_size_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  avsg_payload payload = {sizeof(avsg_payload), 0, kRowBytes, NULL, NULL, NULL};
  unsigned char* host_kv = (unsigned char*)Zeros(kBlocks * kBlockSize * kRowBytes);
  void* device_kv = Zeros(kRows * kSlots * kRowBytes);
  SizesCall sizes_call;
  StepCall step_call;
  void *state, *workspace;
  uint32_t sum = 2166136261u;
  int i;
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  *(void**)&sizes_call = dlsym(library, "avsg_sizes");
  *(void**)&step_call = dlsym(library, "avsg_step_fused");
  if (sizes_call(&config, &sizes) != 0) return 1;
  for (i = 0; i < kBlocks * kBlockSize * kRowBytes; ++i) host_kv[i] = (unsigned char)Random(256);
  for (i = 0; i < kEntries * kMaxBlocks; ++i) block_table[i] = (int32_t)Random(kBlocks);
  payload.host_kv = host_kv;
  payload.device_kv = device_kv;
  state = Zeros(sizes.state_bytes);
  workspace = Zeros(sizes.workspace_bytes);
  for (i = 0; i < kSteps; ++i) {
    sum = Step(step_call, &config, state, workspace, &payload, i, sum);
    if (sum == 0) {
      ErrorCall error_call;
      *(void**)&error_call = dlsym(library, "avsg_last_error");
      return fprintf(stderr, "%s\n", error_call()), 1;
    }
  }
  for (i = 0; i < kRows; ++i) { /* the stride's padding is unspecified */
    sum = Sum(sum, (char*)state + i * sizes.state_stride_bytes, (size_t)sizes.state_row_bytes);
  }
  sum = Sum(sum, device_kv, kRows * kSlots * kRowBytes);
  printf("%08x %d\n", (unsigned)sum, num_misses[0]);
  return 0;
}
