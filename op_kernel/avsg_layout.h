// SPDX-License-Identifier: Apache-2.0
// The contract: every constant, memory layout and tiling struct that two rooms share (SPEC.md,
// layout version 1).
#ifndef AVSG_LAYOUT_H
#define AVSG_LAYOUT_H

#include <cstdint>

namespace sparse_gather {

// --- Constants of SPEC.md
constexpr int32_t kMaxTokens = 1 << 20;      // tokens are 0 <= x < kMaxTokens
constexpr int32_t kMaxStep = (1 << 24) - 1;  // stamps are float32 and must stay exact
constexpr int32_t kProbeRounds = 4;          // R when S >= 2K
constexpr int32_t kProbeRoundsSmall = 8;     // R when S < 2K
constexpr int32_t kLinkRounds = 2;
constexpr int32_t kLagMin = 4;       // LAG_MIN when S >= 2K
constexpr int32_t kLagMinSmall = 1;  // LAG_MIN when S < 2K
constexpr int32_t kLagMax = 16;
constexpr int32_t kMaxLife = 2000;  // default and upper bound of L
constexpr int32_t kHashA = 1597;
constexpr int32_t kHashB = 1213;
constexpr int32_t kHashC = 2477;
constexpr int32_t kEmptyToken = -1;
constexpr int32_t kPadToken = -1;  // any negative token in top_k is padding; this one fills outputs
constexpr int32_t kEmptyFingerprint = 0xFFFF;  // EMPTY_WORD is kEmptyFingerprint << 16 | S
constexpr int32_t kMagic = 0x41565347;
constexpr int32_t kLayoutVersion = 1;
constexpr int32_t kMaxSlots = 65408;  // S is a multiple of kSlotMultiple
constexpr int32_t kSlotMultiple = 64;
constexpr int32_t kTopKMultiple = 8;
constexpr int32_t kRowBytesMultiple = 16;  // bytes of one KV row
constexpr int32_t kMaxPayloads = 4;

// --- State of one row: header, slot_token, slot_stamp, bucket_word, little-endian, without gaps
constexpr int32_t kHeaderWords = 128;     // int32
constexpr int32_t kSlotTail = 8;          // entry S of slot_token is the sentinel, S+1..S+7 fill 32 bytes
constexpr int32_t kStrideMultiple = 512;  // bytes

enum HeaderWord : int32_t {
  kHeaderMagic = 0,
  kHeaderVersion = 1,
  kHeaderLease = 2,
  kHeaderStep = 3,
  kHeaderFloor = 4,
  kHeaderHigh = 5,
  kHeaderPoison = 6,
  kHeaderSlots = 7,
};

// --- Counters and flags
enum Counter : int32_t {  // int32 [8] per batch entry
  kCounterValid = 0,
  kCounterHits = 1,
  kCounterMisses = 2,
  kCounterBadTokens = 3,
  kCounterInvalidated = 4,
  kCounterUnlinked = 5,
  kCounterFloorAdvance = 6,
  kCounterFlags = 7,
  kNumCounters = 8,
};

enum Flag : int32_t {
  kFlagReset = 1,
  kFlagPromisedStamped = 2,
  kFlagRowOutOfRange = 4,
  kFlagRowNamedTwice = 8,
  kFlagBadToken = 16,
};

enum LoadCounter : int32_t { kLoadRowsCopied = 0, kLoadBadBlocks = 1, kNumLoadCounters = 2 };
enum StoreCounter : int32_t { kStoreRowsStored = 0, kStoreSkipped = 1, kNumStoreCounters = 2 };

// --- Sizes that follow from S and K
// lg: NB = 1 << lg is the smallest power of two >= 2S.
inline int32_t NumBucketsLog2(int32_t num_slots) {
  int32_t lg = 1;
  while ((int64_t{1} << lg) < int64_t{2} * num_slots) ++lg;
  return lg;
}
inline int64_t SlotTokenOffset() { return int64_t{4} * kHeaderWords; }
inline int64_t SlotStampOffset(int32_t num_slots) {
  return SlotTokenOffset() + int64_t{4} * (num_slots + kSlotTail);
}
inline int64_t BucketWordOffset(int32_t num_slots) {
  return SlotStampOffset(num_slots) + int64_t{4} * (num_slots + kSlotTail);
}
inline int64_t StateRowBytes(int32_t num_slots) {
  return BucketWordOffset(num_slots) + (int64_t{4} << NumBucketsLog2(num_slots));
}
inline int64_t StateStrideBytes(int32_t num_slots) {
  return (StateRowBytes(num_slots) + kStrideMultiple - 1) / kStrideMultiple * kStrideMultiple;
}

// --- Tiling structs: host to kernel. Offsets are bytes in UB
// UB of Match: one line a buffer. K64 is top_k rounded up to 64.
struct MatchUb {
  uint32_t header;       // int32 [128]
  uint32_t slot_token;   // int32 [S+8]
  uint32_t slot_stamp;   // float [S+8]
  uint32_t bucket_word;  // uint32 [NB+8]; word NB takes the links that found no target
  uint32_t lane_bytes;   // int32 [link_tile]: 4k
  uint32_t small;        // int32 [64]: constants, the entry's inputs and its short outputs
  uint32_t hit_mask;     // bits [max(K64, (R+1) * link_tile, 1024)]
  uint32_t work_mask;    // the same
  uint32_t slot_mask;    // bits [S]
  uint32_t lists;        // int32 [K64] valid tokens, then the lists of the misses: see op_kernel/avsg_match.h
  uint32_t lists_bytes;
  uint32_t slots;        // int32 [K64] bucket offsets, then slots
  uint32_t miss_tokens;  // int32 [K64] probe strides, then the missed tokens
  uint32_t scratch;      // whatever one phase needs
  uint32_t scratch_bytes;
  uint32_t total;
};

constexpr int32_t kSortLength = 2048;  // a list to be sorted is filled up to 32 * 4 * 4 * 4 elements

struct MatchTiling {
  int32_t num_rows;
  int32_t num_slots;    // S
  int32_t top_k;        // K
  int32_t num_queries;  // Q of this call
  int32_t max_life;     // L
  int32_t num_entries;  // batch entries of this call
  int32_t num_cores;
  int32_t num_buckets_log2;  // lg
  int32_t probe_rounds;      // R
  int32_t lag_min;
  int32_t link_tile;       // misses linked at once
  int32_t mark_min_slots;  // from this many on, slots are marked by sorting, not by scalar stores
  int64_t state_stride_bytes;
  MatchUb ub;
};

struct LoadTiling {
  int32_t num_rows;
  int32_t num_slots;
  int32_t num_queries;  // Q of the plan
  int32_t plan_width;   // Q*K, entries of one plan line
  int32_t num_entries;
  int32_t num_cores;
  int32_t num_payloads;
  int32_t has_fresh;
  int32_t block_size;  // tokens in a host block
  int32_t max_blocks;  // block ids in a line of block_table
  int64_t num_host_blocks;
  int64_t state_stride_bytes;
  int64_t row_bytes[kMaxPayloads];
};

struct StoreTiling {
  int32_t num_entries;
  int32_t num_new_rows;  // T
  int32_t num_cores;
  int32_t num_payloads;
  int32_t block_size;
  int32_t max_blocks;
  int64_t num_host_blocks;
  int64_t row_bytes[kMaxPayloads];
};

// UB of Load and Store; in the fused entry it lies behind Match's.
constexpr int32_t kCopyWindow = 64;  // plan entries, and batch entries, that are fetched together
struct CopyUb {
  uint32_t window;       // kCopyWindowBytes
  uint32_t rows;         // ring of num_buffers chunks
  uint32_t chunk_bytes;  // a row is copied in chunks of at most this; multiple of 32
  uint32_t num_buffers;  // 2..kMaxCopyBuffers
  uint32_t search;       // Store only: kStoreSearchBytes
  uint32_t total;
};
constexpr int32_t kBlockIdWords =
    8 * kCopyWindow;  // an entry's block ids, or a 32-byte block for each of a window
constexpr int32_t kCopyWindowBytes = 4 * (5 * kCopyWindow + kBlockIdWords + 16);
constexpr int32_t kMaxCopyBuffers = 6;  // event ids 0..5; 7 belongs to vector_util.h
constexpr int32_t kStoreSearch = 1024;  // new rows searched at once for a later write of the same token
constexpr int32_t kStoreSearchBytes =
    4 * 3 * kStoreSearch + 3 * kStoreSearch / 8;  // three lists, three masks

struct AvsgTiling {  // fused entry
  MatchTiling match;
  LoadTiling load;
  CopyUb copy;
};
struct AvsgMatchTiling {
  MatchTiling match;
};
struct AvsgLoadTiling {
  LoadTiling load;
  CopyUb copy;
};
struct AvsgStoreTiling {
  StoreTiling store;
  CopyUb copy;
};

// --- Device workspace
constexpr int32_t kPartialBytes = 512;  // one core's partial load or store counters, a line of its own
constexpr int32_t kMaxCores = 64;
constexpr int64_t kWorkspaceBytes = int64_t{kPartialBytes} * kMaxCores;

}  // namespace sparse_gather

#endif  // AVSG_LAYOUT_H
