// SPDX-License-Identifier: Apache-2.0
// Tiling of Match, Load, Store and the fused entry.
#include "tiling.h"

#include <algorithm>

namespace sparse_gather {
namespace {

constexpr int64_t kUbBytes = 184 * 1024;
constexpr int32_t kMarkMinSlots =
    640;  // by the cost model: 10,600 cycles for a sort, 17 for a store and its loads
constexpr Platform kPlatforms[] = {
    {"ascend910b", 48, kUbBytes, kMarkMinSlots},
    {"ascend910_93", 48, kUbBytes, kMarkMinSlots},
    {"cpu", 48, kUbBytes, 0},
};
constexpr int64_t kSmallestCopyBytes = kCopyWindowBytes + 2 * 2048;
constexpr int64_t kMaxChunkBytes = 16 * 1024;

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::string Number(int64_t value) { return std::to_string(value); }

// Hands out UB front to back in 32-byte steps.
class Carver {
 public:
  uint32_t Take(int64_t bytes) {
    const int64_t offset = used_;
    used_ += RoundUp(bytes, 32);
    return static_cast<uint32_t>(offset);
  }
  int64_t used() const { return used_; }

 private:
  int64_t used_ = 0;
};

int32_t ProbeRounds(int32_t num_slots, int32_t top_k) {
  return num_slots < 2 * top_k ? kProbeRoundsSmall : kProbeRounds;
}

// Bytes of the scratch that link needs: bucket offsets [R+2 tiles], words, fingerprints, tokens, stamps [R+1
// tiles].
int64_t LinkScratchBytes(int32_t rounds, int32_t link_tile) {
  return int64_t{4} * link_tile * (5 * rounds + 7);
}

// Merged (key, tag) pairs and three words an element beside them; see MarkSlots.
int64_t MarkScratchBytes(int32_t num_slots) { return 32 + int64_t{20} * (kSortLength + num_slots); }

MatchUb CarveMatch(int32_t num_slots, int32_t top_k, int32_t rounds, int32_t link_tile,
                   int64_t scratch_bytes) {
  const int64_t k64 = RoundUp(top_k, 64);
  MatchUb ub = {};
  Carver carver;
  ub.header = carver.Take(4 * kHeaderWords);
  ub.slot_token = carver.Take(4 * (num_slots + kSlotTail));
  ub.slot_stamp = carver.Take(4 * (num_slots + kSlotTail));
  ub.bucket_word = carver.Take((int64_t{4} << NumBucketsLog2(num_slots)) + 32);
  ub.lane_bytes = carver.Take(4 * link_tile);
  ub.small = carver.Take(256);
  const int64_t mask_bits = std::max({k64, int64_t{link_tile} * (rounds + 1), int64_t{1024}});
  ub.hit_mask = carver.Take(mask_bits / 8);
  ub.work_mask = carver.Take(mask_bits / 8);
  ub.slot_mask = carver.Take(num_slots / 8);
  // victims uint16 [K + S/2]; later victims uint16 [K64] and positions uint16 [K64] or link targets int32
  // [K64]
  ub.lists_bytes = static_cast<uint32_t>(RoundUp(std::max(2 * (k64 + num_slots / 2), 6 * k64), 32));
  ub.lists = carver.Take(ub.lists_bytes);
  ub.slots = carver.Take(4 * k64);
  ub.miss_tokens = carver.Take(4 * k64);
  ub.scratch_bytes = static_cast<uint32_t>(RoundUp(scratch_bytes, 32));
  ub.scratch = carver.Take(ub.scratch_bytes);
  ub.total = static_cast<uint32_t>(carver.used());
  return ub;
}

// Largest link tile first; marking by sort only where its scratch fits too. False if even the smallest does
// not fit.
bool FitMatch(int32_t num_slots, int32_t top_k, const Platform& platform, MatchTiling* tiling) {
  const int32_t rounds = ProbeRounds(num_slots, top_k);
  const int64_t k64 = RoundUp(top_k, 64);
  const int64_t base = std::max(8 * k64, int64_t{2} * num_slots);
  const bool may_mark = platform.mark_min_slots > 0 && num_slots < 2 * top_k &&
                        top_k >= platform.mark_min_slots && top_k <= kSortLength;
  for (bool mark : {may_mark, false}) {
    for (int32_t tile : {256, 128, 64}) {
      if (tile > k64 && tile > 64) continue;
      const int64_t scratch =
          std::max({base, LinkScratchBytes(rounds, tile), mark ? MarkScratchBytes(num_slots) : int64_t{0}});
      const MatchUb ub = CarveMatch(num_slots, top_k, rounds, tile, scratch);
      if (ub.total + kSmallestCopyBytes > platform.ub_bytes) continue;
      tiling->link_tile = tile;
      tiling->mark_min_slots = mark ? platform.mark_min_slots : top_k + 1;
      tiling->ub = ub;
      return true;
    }
  }
  return false;
}

std::string CheckCores(int32_t num_cores, const Platform& platform) {
  if (num_cores >= 1 && num_cores <= kMaxCores) return "";
  return "num_cores is " + Number(num_cores) + ", allowed are 1 to " + Number(kMaxCores) + " on " +
         platform.name + "; give 0 to use all cores of the device.";
}

std::string CheckCopyShape(const CopyShape& copy) {
  if (copy.num_entries < 1) return "num_entries is " + Number(copy.num_entries) + ", at least 1 is needed.";
  if (copy.block_size < 1)
    return "block_size is " + Number(copy.block_size) + ", at least 1 token is needed.";
  if (copy.max_blocks < 1)
    return "max_blocks is " + Number(copy.max_blocks) + ", at least 1 block id is needed.";
  if (copy.num_host_blocks < 1) {
    return "num_host_blocks is " + Number(copy.num_host_blocks) + ", at least 1 block is needed.";
  }
  if (copy.num_payloads < 1 || copy.num_payloads > kMaxPayloads) {
    return "num_payloads is " + Number(copy.num_payloads) + ", allowed are 1 to " + Number(kMaxPayloads) +
           ".";
  }
  for (int32_t p = 0; p < copy.num_payloads; ++p) {
    if (copy.row_bytes[p] < kRowBytesMultiple || copy.row_bytes[p] % kRowBytesMultiple != 0) {
      return "row_bytes of payload " + Number(p) + " is " + Number(copy.row_bytes[p]) +
             ", a positive multiple of 16 is needed; pad the row.";
    }
  }
  return "";
}

// Chunks hold a whole row if two of them fit.
void CarveCopy(const CopyShape& copy, int64_t begin, int64_t end, CopyUb* ub) {
  const int64_t longest = *std::max_element(copy.row_bytes, copy.row_bytes + copy.num_payloads);
  ub->window = static_cast<uint32_t>(begin);
  ub->rows = static_cast<uint32_t>(begin + kCopyWindowBytes);
  const int64_t bytes = end - ub->rows;
  ub->chunk_bytes =
      static_cast<uint32_t>(std::min({RoundUp(longest, 32), kMaxChunkBytes, bytes / 2 / 32 * 32}));
  ub->num_buffers = static_cast<uint32_t>(std::min<int64_t>(bytes / ub->chunk_bytes, kMaxCopyBuffers));
  ub->search = 0;
  ub->total = ub->rows + ub->num_buffers * ub->chunk_bytes;
}

void FillLoad(const PoolShape& shape, const CopyShape& copy, int32_t num_cores, LoadTiling* load) {
  *load = LoadTiling{};
  load->num_rows = shape.num_rows;
  load->num_slots = shape.num_slots;
  load->num_queries = copy.step_queries;
  load->plan_width = copy.step_queries * shape.top_k;
  load->num_entries = copy.num_entries;
  load->num_cores = num_cores;
  load->num_payloads = copy.num_payloads;
  load->has_fresh = copy.has_fresh ? 1 : 0;
  load->block_size = copy.block_size;
  load->max_blocks = copy.max_blocks;
  load->num_host_blocks = copy.num_host_blocks;
  load->state_stride_bytes = StateStrideBytes(shape.num_slots);
  std::copy(copy.row_bytes, copy.row_bytes + copy.num_payloads, load->row_bytes);
}

}  // namespace

const Platform* FindPlatform(const std::string& name) {
  for (const Platform& platform : kPlatforms) {
    if (name == platform.name) return &platform;
  }
  return nullptr;
}

int32_t LargestNumSlots(int32_t top_k, const Platform& platform) {
  MatchTiling tiling = {};
  for (int32_t num_slots = kMaxSlots; num_slots >= kSlotMultiple; num_slots -= kSlotMultiple) {
    if (num_slots >= top_k && FitMatch(num_slots, top_k, platform, &tiling)) return num_slots;
  }
  return 0;
}

std::string CheckPoolShape(const PoolShape& shape, const Platform& platform) {
  if (shape.num_rows < 1) return "num_rows is " + Number(shape.num_rows) + ", at least 1 row is needed.";
  if (shape.num_slots < kSlotMultiple || shape.num_slots > kMaxSlots ||
      shape.num_slots % kSlotMultiple != 0) {
    return "num_slots is " + Number(shape.num_slots) + ", allowed are multiples of 64 from 64 to " +
           Number(kMaxSlots) + ".";
  }
  if (shape.top_k < kTopKMultiple || shape.top_k % kTopKMultiple != 0) {
    return "top_k is " + Number(shape.top_k) + ", a positive multiple of 8 is needed; pad top_k with -1.";
  }
  if (shape.num_queries < 1) return "num_queries is " + Number(shape.num_queries) + ", at least 1 is needed.";
  if (int64_t{shape.num_queries} * shape.top_k > shape.num_slots) {
    return "num_queries * top_k is " + Number(int64_t{shape.num_queries} * shape.top_k) +
           ", more than num_slots = " + Number(shape.num_slots) +
           "; take more slots or fewer speculative tokens.";
  }
  if (shape.max_life < 1 || shape.max_life > kMaxLife) {
    return "max_life is " + Number(shape.max_life) + ", allowed are 1 to " + Number(kMaxLife) + " steps.";
  }
  MatchTiling tiling = {};
  if (FitMatch(shape.num_slots, shape.top_k, platform, &tiling)) return "";
  const int32_t largest = LargestNumSlots(shape.top_k, platform);
  return "num_slots = " + Number(shape.num_slots) + " with top_k = " + Number(shape.top_k) +
         " does not fit the on-chip buffer (" + Number(platform.ub_bytes) + " usable bytes of UB); " +
         (largest > 0 ? "the largest num_slots that fits this top_k is " + Number(largest) + "."
                      : "no num_slots fits this top_k, take a smaller one.");
}

std::string MakeMatchTiling(const PoolShape& shape, int32_t num_entries, int32_t step_queries,
                            const Platform& platform, int32_t num_cores, MatchTiling* tiling) {
  std::string error = CheckPoolShape(shape, platform);
  if (error.empty()) error = CheckCores(num_cores, platform);
  if (!error.empty()) return error;
  if (num_entries < 1) return "num_entries is " + Number(num_entries) + ", at least 1 is needed.";
  if (step_queries < 1 || step_queries > shape.num_queries) {
    return "the step has " + Number(step_queries) +
           " queries, allowed are 1 to num_queries = " + Number(shape.num_queries) + ".";
  }
  *tiling = MatchTiling{};
  tiling->num_rows = shape.num_rows;
  tiling->num_slots = shape.num_slots;
  tiling->top_k = shape.top_k;
  tiling->num_queries = step_queries;
  tiling->max_life = shape.max_life;
  tiling->num_entries = num_entries;
  tiling->num_cores = num_cores;
  tiling->num_buckets_log2 = NumBucketsLog2(shape.num_slots);
  tiling->probe_rounds = ProbeRounds(shape.num_slots, shape.top_k);
  tiling->lag_min = shape.num_slots < 2 * shape.top_k ? kLagMinSmall : kLagMin;
  tiling->state_stride_bytes = StateStrideBytes(shape.num_slots);
  FitMatch(shape.num_slots, shape.top_k, platform, tiling);
  return "";
}

std::string MakeLoadTiling(const PoolShape& shape, const CopyShape& copy, const Platform& platform,
                           int32_t num_cores, AvsgLoadTiling* tiling) {
  std::string error = CheckPoolShape(shape, platform);
  if (error.empty()) error = CheckCores(num_cores, platform);
  if (error.empty()) error = CheckCopyShape(copy);
  if (!error.empty()) return error;
  FillLoad(shape, copy, num_cores, &tiling->load);
  CarveCopy(copy, 0, platform.ub_bytes, &tiling->copy);
  return "";
}

std::string MakeFusedTiling(const PoolShape& shape, const CopyShape& copy, const Platform& platform,
                            int32_t num_cores, AvsgTiling* tiling) {
  std::string error =
      MakeMatchTiling(shape, copy.num_entries, copy.step_queries, platform, num_cores, &tiling->match);
  if (error.empty()) error = CheckCopyShape(copy);
  if (!error.empty()) return error;
  FillLoad(shape, copy, num_cores, &tiling->load);
  CarveCopy(copy, tiling->match.ub.total, platform.ub_bytes, &tiling->copy);
  return "";
}

std::string MakeStoreTiling(const CopyShape& copy, int32_t num_new_rows, const Platform& platform,
                            int32_t num_cores, AvsgStoreTiling* tiling) {
  std::string error = CheckCores(num_cores, platform);
  if (error.empty()) error = CheckCopyShape(copy);
  if (!error.empty()) return error;
  if (num_new_rows < 1) return "num_new_rows is " + Number(num_new_rows) + ", at least 1 is needed.";
  tiling->store = StoreTiling{};
  tiling->store.num_entries = copy.num_entries;
  tiling->store.num_new_rows = num_new_rows;
  tiling->store.num_cores = num_cores;
  tiling->store.num_payloads = copy.num_payloads;
  tiling->store.block_size = copy.block_size;
  tiling->store.max_blocks = copy.max_blocks;
  tiling->store.num_host_blocks = copy.num_host_blocks;
  std::copy(copy.row_bytes, copy.row_bytes + copy.num_payloads, tiling->store.row_bytes);
  CarveCopy(copy, 0, platform.ub_bytes - kStoreSearchBytes, &tiling->copy);
  tiling->copy.search = tiling->copy.total;
  tiling->copy.total += kStoreSearchBytes;
  return "";
}

}  // namespace sparse_gather
