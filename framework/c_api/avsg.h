/* SPDX-License-Identifier: Apache-2.0
 * The C ABI of AVSG, implemented by libavsg_cpu.so, libavsg_cpu_checked.so and libavsg_npu.so.
 *
 * The caller owns all memory. Every call returns 0 or a positive error code; avsg_last_error() then holds one
 * sentence: what, what was given, what is allowed. Nothing is written when a call is refused. Values that
 * only the device can see (tokens, lengths, leases, rows, block ids) are treated as SPEC.md says and never
 * make a call read or write outside the memory it was given. All integers on the device are int32, all
 * tensors contiguous; shapes stand behind each pointer. */
#ifndef AVSG_H
#define AVSG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AVSG_ABI_VERSION 1

enum avsg_error {
  AVSG_OK = 0,
  AVSG_INVALID_ARGUMENT = 1, /* a value, size or pointer that the call refuses */
  AVSG_UNSUPPORTED = 2,      /* valid, but this library or device cannot do it */
  AVSG_OUT_OF_MEMORY = 3,
  AVSG_RULE_VIOLATED = 4, /* checked build: the kernel broke a rule of the device; the sentence names it */
  AVSG_INTERNAL = 5
};

/* Every struct starts with its own size, sizeof of it exactly, so that fields can be added later; `reserved`
 * is 0. */
typedef struct avsg_config {
  uint32_t struct_bytes;
  int32_t num_rows;    /* rows of the state, >= 1 */
  int32_t num_slots;   /* S, multiple of 64 */
  int32_t top_k;       /* K, multiple of 8 */
  int32_t num_queries; /* most queries of a step; num_queries * top_k <= num_slots */
  int32_t max_life;    /* L, 1..2000 */
  int32_t num_cores;   /* 0: all of the device */
} avsg_config;

typedef struct avsg_size_report {
  uint32_t struct_bytes;
  int32_t num_buckets; /* NB */
  int32_t probe_rounds;
  int32_t lag_min;
  int32_t num_cores;
  int32_t max_num_slots;   /* the largest S that fits the on-chip buffer with this top_k */
  int64_t state_row_bytes; /* without the stride's padding */
  int64_t state_stride_bytes;
  int64_t state_bytes; /* num_rows * state_stride_bytes */
  int64_t workspace_bytes;
  int64_t ub_bytes; /* on-chip buffer that a match takes */
} avsg_size_report;

typedef struct avsg_step {
  uint32_t struct_bytes;
  int32_t num_entries;          /* B >= 1 */
  int32_t num_queries;          /* Q of this step, 1..config.num_queries */
  const int32_t* topk_tokens;   /* [B, Q, K] */
  const int32_t* verified_lens; /* [B] */
  const int32_t* seq_lens;      /* [B] */
  const int32_t* leases;        /* [B] */
  const int32_t* rows;          /* [B], outside 0..num_rows-1: inactive */
} avsg_step;

typedef struct avsg_plan {
  uint32_t struct_bytes;
  int32_t num_entries;
  int32_t num_queries;
  int32_t* slots;         /* [B, Q, K], packed, then -1 */
  int32_t* miss_tokens;   /* [B, Q*K], unspecified past num_misses */
  int32_t* miss_slots;    /* [B, Q*K] */
  int32_t* num_misses;    /* [B] */
  int32_t* counters;      /* [B, 8] */
  int32_t* rows;          /* [B] the step's row, -1 where the entry was inactive */
  int32_t* verified_lens; /* [B] V, the clamped length */
} avsg_plan;

/* Where a token's host row is: block_table[entry, token / block_size] * block_size + token % block_size. */
typedef struct avsg_blocks {
  uint32_t struct_bytes;
  int32_t num_entries;        /* B, lines of block_table */
  int32_t max_blocks;         /* block ids in a line */
  int32_t block_size;         /* tokens in a block */
  int64_t num_host_blocks;    /* blocks of every host_kv */
  const int32_t* block_table; /* [B, max_blocks] */
} avsg_blocks;

/* One of up to four pairs of buffers; row_bytes is a multiple of 16. */
typedef struct avsg_payload {
  uint32_t struct_bytes;
  uint32_t reserved;
  int64_t row_bytes;
  const void* host_kv; /* [num_host_blocks, block_size, row_bytes], device alias */
  void* device_kv;     /* [num_rows * S, row_bytes] */
  const void* fresh;   /* [B, Q, row_bytes] or NULL; all payloads of a call or none */
} avsg_payload;

typedef struct avsg_store_payload {
  uint32_t struct_bytes;
  uint32_t reserved;
  int64_t row_bytes;
  void* host_kv;        /* [num_host_blocks, block_size, row_bytes], device alias */
  const void* new_rows; /* [T, row_bytes] */
} avsg_store_payload;

typedef struct avsg_host_options {
  uint32_t struct_bytes;
  int32_t huge_pages; /* 1: huge pages when the system has them, ordinary pages otherwise */
} avsg_host_options;

uint32_t avsg_abi_version(void);
const char* avsg_library_name(void); /* "cpu", "cpu-checked", "npu" */
const char* avsg_last_error(void);   /* of this thread; "" after a call that succeeded */

int avsg_sizes(const avsg_config* config, avsg_size_report* report);

/* state: [num_rows, state_stride_bytes], zeroed once before its first use. workspace: workspace_bytes, any
 * content; calls that may run at the same time, on two streams, need one each. Both at a multiple of 32
 * bytes. stream: NULL on the CPU libraries, where a call has finished when it returns. */
int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
               void* workspace, void* stream);

/* load_counters: int32 [2], rows copied and bad blocks. The plan's slots and counters are not read and may be
 * NULL. */
int avsg_load(const avsg_config* config, const avsg_plan* plan, const avsg_blocks* blocks,
              const avsg_payload* payloads, int32_t num_payloads, void* state, int32_t* load_counters,
              void* workspace, void* stream);

/* Match and load in one launch. */
int avsg_step_fused(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
                    const avsg_blocks* blocks, const avsg_payload* payloads, int32_t num_payloads,
                    int32_t* load_counters, void* workspace, void* stream);

/* store_counters: int32 [2], rows stored and skipped. positions, entries: int32 [T], T = num_new_rows >= 1.
 */
int avsg_store(const avsg_config* config, const avsg_blocks* blocks, const avsg_store_payload* payloads,
               int32_t num_payloads, const int32_t* positions, const int32_t* entries, int32_t num_new_rows,
               int32_t* store_counters, void* workspace, void* stream);

/* Page-aligned, zeroed memory that the device can address. *host is for the CPU, *device_alias for the calls
 * above (the same on the CPU libraries). options may not be NULL, and only what was given out can be freed.
 * With an NPU a forked child does not have this memory. */
int avsg_host_alloc(int64_t bytes, const avsg_host_options* options, void** host, void** device_alias);
int avsg_host_free(void* host);

#ifdef __cplusplus
}
#endif

#endif /* AVSG_H */
