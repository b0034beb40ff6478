// SPDX-License-Identifier: Apache-2.0
// Checks the shapes and attributes of a call and hands them to the tiling.
#include "tiling_call.h"

#include <algorithm>
#include <limits>

namespace sparse_gather {
namespace {

constexpr int64_t kSelectBytes = 8 * 1024;  // what Select's modes 1 and 2 overwrite at the end of UB
constexpr int64_t kLeastUbBytes = 64 * 1024;

std::string Number(int64_t value) { return std::to_string(value); }

std::string Shape(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + Number(dims[i]);
  return text + "]";
}

int64_t Bytes(const TensorInfo& tensor, size_t first_dim = 0) {
  int64_t bytes = tensor.item_bytes;
  for (size_t i = first_dim; i < tensor.dims.size(); ++i) bytes *= tensor.dims[i];
  return bytes;
}

// Reads a call and keeps the first refusal; what is read after it has no meaning.
class Reader {
 public:
  explicit Reader(const OpCall& call) : call_(call) {}

  const std::string& error() const { return error_; }
  void Refuse(const std::string& sentence) {  // "" refuses nothing
    if (error_.empty()) error_ = sentence;
  }

  int32_t Narrow(const char* name, int64_t value) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    if (value >= -kMax && value <= kMax) return static_cast<int32_t>(value);
    Refuse(std::string(name) + " is " + Number(value) + ", at most " + Number(kMax) + " is allowed.");
    return 1;
  }
  int32_t Attr(const char* name, size_t attr) { return Narrow(name, call_.attrs[attr]); }

  // Dimensions of an input that is no list. expected: what its shape is called in a refusal.
  Dims Tensor(const char* name, size_t input, size_t rank, const char* expected) {
    const Dims dims = DimsOf(input);
    if (dims.size() == rank) return dims;
    Refuse(std::string(name) + " has shape " + Shape(dims) + ", " + expected + " is needed.");
    return Dims(rank, 1);
  }
  // An input [length].
  void Line(const char* name, size_t input, int64_t length, const char* length_name) {
    const Dims dims = DimsOf(input);
    if (dims == Dims{length}) return;
    Refuse(std::string(name) + " has shape " + Shape(dims) + ", [" + Number(length) +
           "] is needed: one value a " + length_name + ".");
  }

  Dims DimsOf(size_t input) const {
    return call_.inputs[input].empty() ? Dims{} : call_.inputs[input][0].dims;
  }
  const std::vector<TensorInfo>& List(const char* name, size_t input, size_t num_payloads) {
    const std::vector<TensorInfo>& list = call_.inputs[input];
    if (list.size() != num_payloads) {
      Refuse(std::string(name) + " has " + Number(static_cast<int64_t>(list.size())) +
             " tensors and host_kv has " + Number(static_cast<int64_t>(num_payloads)) +
             ": give every list one tensor a payload.");
    }
    return list;
  }
  // A list whose tensors hold num_rows rows each, whatever their shape.
  void Rows(const char* name, size_t input, const std::vector<int64_t>& row_bytes, int64_t num_rows,
            const char* rows_name) {
    const std::vector<TensorInfo>& list = List(name, input, row_bytes.size());
    for (size_t p = 0; error_.empty() && p < row_bytes.size(); ++p) {
      const int64_t needed = num_rows * row_bytes[p];
      if (Bytes(list[p]) == needed) continue;
      Refuse(std::string(name) + "[" + Number(static_cast<int64_t>(p)) + "] holds " + Number(Bytes(list[p])) +
             " bytes in shape " + Shape(list[p].dims) + ", " + Number(needed) + " are needed: " + rows_name +
             " = " + Number(num_rows) + " rows of " + Number(row_bytes[p]) + " bytes.");
    }
  }

  // host_kv and block_table of every copy; row_bytes outlives the shape.
  CopyShape Copy(size_t block_table, size_t host_kv, std::vector<int64_t>* row_bytes) {
    CopyShape copy = {};
    const Dims table = Tensor("block_table", block_table, 2, "[entries, max_blocks]");
    copy.num_entries = Narrow("the number of batch entries", table[0]);
    copy.max_blocks = Narrow("max_blocks", table[1]);
    const std::vector<TensorInfo>& list = call_.inputs[host_kv];
    for (size_t p = 0; p < list.size(); ++p) {
      const Dims& dims = list[p].dims;
      if (dims.size() < 2 || dims[0] != list[0].dims[0] || dims[1] != list[0].dims[1]) {
        Refuse("host_kv[" + Number(static_cast<int64_t>(p)) + "] has shape " + Shape(dims) +
               ", [num_blocks, block_size, ...] is needed, with the same blocks in all payloads.");
        return copy;
      }
      row_bytes->push_back(Bytes(list[p], 2));
    }
    if (list.empty()) {
      Refuse("host_kv is an empty list, 1 to " + Number(kMaxPayloads) + " payloads are needed.");
      return copy;
    }
    copy.num_host_blocks = list[0].dims[0];
    copy.block_size = Narrow("block_size", list[0].dims[1]);
    copy.num_payloads = Narrow("the number of payloads", static_cast<int64_t>(list.size()));
    copy.row_bytes = row_bytes->data();
    return copy;
  }

 private:
  const OpCall& call_;
  std::string error_;
};

struct Step {
  PoolShape pool;
  int32_t num_entries;
  int32_t step_queries;
};

// The pool's sizes, then the state that follows from them.
std::string CheckPool(const Dims& state, const PoolShape& pool, const Platform& platform) {
  const std::string error = CheckPoolShape(pool, platform);
  if (!error.empty()) return error;
  const Dims needed = {pool.num_rows, StateStrideBytes(pool.num_slots)};
  if (state == needed) return "";
  return "state has shape " + Shape(state) + ", [num_rows, " + Number(needed[1]) +
         "] is needed for num_slots = " + Number(pool.num_slots) + ": take the stride from avsg_sizes.";
}

// What Match and the fused operator share; C names their inputs.
template <typename C>
Step ReadStep(Reader* reader, const Platform& platform) {
  const Dims topk = reader->Tensor("topk_tokens", C::kTopkTokens, 3, "[entries, queries, top_k]");
  reader->Line("verified_lens", C::kVerifiedLens, topk[0], "batch entry");
  reader->Line("seq_lens", C::kSeqLens, topk[0], "batch entry");
  reader->Line("leases", C::kLeases, topk[0], "batch entry");
  reader->Line("rows", C::kRows, topk[0], "batch entry");
  Step step = {};
  step.num_entries = reader->Narrow("the number of batch entries", topk[0]);
  step.step_queries = reader->Narrow("the number of queries", topk[1]);
  const Dims state = reader->Tensor("state", C::kState, 2, "[num_rows, stride]");
  step.pool.num_rows = reader->Narrow("num_rows", state[0]);
  step.pool.num_slots = reader->Attr("num_slots", C::kNumSlots);
  step.pool.top_k = reader->Narrow("top_k", topk[2]);
  step.pool.num_queries = reader->Attr("num_queries", C::kNumQueries);
  step.pool.max_life = reader->Attr("max_life", C::kMaxLife);
  reader->Refuse(CheckPool(state, step.pool, platform));
  return step;
}

// The lists of a load and its block_table, which must have as many lines as the plan.
template <typename C>
CopyShape ReadCopy(Reader* reader, const Step& step, std::vector<int64_t>* row_bytes) {
  CopyShape copy = reader->Copy(C::kBlockTable, C::kHostKv, row_bytes);
  if (copy.num_entries != step.num_entries) {
    reader->Refuse("block_table has " + Number(copy.num_entries) + " lines, " + Number(step.num_entries) +
                   " are needed: one a batch entry.");
  }
  copy.step_queries = step.step_queries;
  copy.has_fresh = reader->Attr("has_fresh", C::kHasFresh) != 0;
  reader->Rows("device_kv", C::kDeviceKv, *row_bytes, int64_t{step.pool.num_rows} * step.pool.num_slots,
               "num_rows * num_slots");
  if (copy.has_fresh) {
    reader->Rows("fresh", C::kFresh, *row_bytes, int64_t{step.num_entries} * step.step_queries,
                 "entries * queries");
  }
  return copy;
}

}  // namespace

std::string FitPlatform(int64_t reported_ub_bytes, Platform* platform) {
  if (reported_ub_bytes < kLeastUbBytes) {
    return "the chip reports " + Number(reported_ub_bytes) + " bytes of UB, at least " +
           Number(kLeastUbBytes) + " are needed: take an Atlas A2 or A3.";
  }
  platform->ub_bytes = std::min(platform->ub_bytes, reported_ub_bytes - kSelectBytes);
  return "";
}

std::string TileMatchCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                          AvsgMatchTiling* tiling) {
  Reader reader(call);
  const Step step = ReadStep<MatchCall>(&reader, platform);
  if (!reader.error().empty()) return reader.error();
  return MakeMatchTiling(step.pool, step.num_entries, step.step_queries, platform, num_cores, &tiling->match);
}

std::string TileLoadCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                         AvsgLoadTiling* tiling) {
  using C = LoadCall;
  Reader reader(call);
  const Dims plan = reader.Tensor("miss_tokens", C::kMissTokens, 2, "[entries, queries * top_k]");
  const Dims miss_slots = reader.DimsOf(C::kMissSlots);
  if (miss_slots != plan) {
    reader.Refuse("miss_slots has shape " + Shape(miss_slots) + ", the shape " + Shape(plan) +
                  " of miss_tokens is needed.");
  }
  reader.Line("num_misses", C::kNumMisses, plan[0], "batch entry");
  reader.Line("plan_rows", C::kPlanRows, plan[0], "batch entry");
  reader.Line("plan_verified_lens", C::kPlanVerifiedLens, plan[0], "batch entry");
  Step step = {};
  step.num_entries = reader.Narrow("the number of batch entries", plan[0]);
  const Dims state = reader.Tensor("state", C::kState, 2, "[num_rows, stride]");
  step.pool = {reader.Narrow("num_rows", state[0]), reader.Attr("num_slots", C::kNumSlots),
               reader.Attr("top_k", C::kTopK), reader.Attr("num_queries", C::kNumQueries),
               reader.Attr("max_life", C::kMaxLife)};
  reader.Refuse(CheckPool(state, step.pool, platform));
  if (!reader.error().empty()) return reader.error();
  if (plan[1] < step.pool.top_k || plan[1] % step.pool.top_k != 0 ||
      plan[1] / step.pool.top_k > step.pool.num_queries) {
    return "miss_tokens has lines of " + Number(plan[1]) +
           ", a multiple of top_k = " + Number(step.pool.top_k) +
           " up to num_queries = " + Number(step.pool.num_queries) + " times is needed.";
  }
  step.step_queries = static_cast<int32_t>(plan[1] / step.pool.top_k);
  std::vector<int64_t> row_bytes;
  const CopyShape copy = ReadCopy<C>(&reader, step, &row_bytes);
  if (!reader.error().empty()) return reader.error();
  return MakeLoadTiling(step.pool, copy, platform, num_cores, tiling);
}

std::string TileStoreCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                          AvsgStoreTiling* tiling) {
  using C = StoreCall;
  Reader reader(call);
  const int64_t num_new_rows = reader.Tensor("positions", C::kPositions, 1, "[new rows]")[0];
  reader.Line("entries", C::kEntries, num_new_rows, "new row");
  std::vector<int64_t> row_bytes;
  const CopyShape copy = reader.Copy(C::kBlockTable, C::kHostKv, &row_bytes);
  reader.Rows("new_rows", C::kNewRows, row_bytes, num_new_rows, "the length of positions");
  const int32_t count = reader.Narrow("the length of positions", num_new_rows);
  if (!reader.error().empty()) return reader.error();
  return MakeStoreTiling(copy, count, platform, num_cores, tiling);
}

std::string TileFusedCall(const OpCall& call, const Platform& platform, int32_t num_cores,
                          AvsgTiling* tiling) {
  Reader reader(call);
  const Step step = ReadStep<FusedCall>(&reader, platform);
  std::vector<int64_t> row_bytes;
  const CopyShape copy = ReadCopy<FusedCall>(&reader, step, &row_bytes);
  if (!reader.error().empty()) return reader.error();
  return MakeFusedTiling(step.pool, copy, platform, num_cores, tiling);
}

std::vector<Dims> PlanDims(const Dims& topk_tokens) {
  const bool ranked = topk_tokens.size() == 3;
  const int64_t entries = ranked ? topk_tokens[0] : -1;
  const bool known = ranked && topk_tokens[1] >= 0 && topk_tokens[2] >= 0;
  const int64_t width = known ? topk_tokens[1] * topk_tokens[2] : -1;
  return {topk_tokens, {entries, width}, {entries, width}, {entries}, {entries, kNumCounters},
          {entries},   {entries}};
}

}  // namespace sparse_gather
