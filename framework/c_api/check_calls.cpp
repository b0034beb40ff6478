// SPDX-License-Identifier: Apache-2.0
// What each call of the C ABI refuses; shapes are those of avsg.h.
#include "avsg_layout.h"
#include "check.h"

namespace sparse_gather {
namespace {

constexpr int64_t kWordBytes = 4;
constexpr uintptr_t kNoAlignment = 1;

bool Config(Check* check, const avsg_config* config, const Platform& platform) {
  if (!check->Known("avsg_config", config) || !check->InRange("num_cores", config->num_cores, 0, kMaxCores))
    return false;
  const std::string error = CheckPoolShape(ShapeOf(*config), platform);
  return error.empty() || check->Refuse("%s", error.c_str());
}

bool Queries(Check* check, const char* of, const avsg_config& config, int32_t num_entries,
             int32_t num_queries) {
  if (num_entries < 1)
    return check->Refuse("num_entries of %s is %d, allowed is 1 or more.", of, num_entries);
  if (num_queries >= 1 && num_queries <= config.num_queries) return true;
  return check->Refuse("num_queries of %s is %d, allowed is 1 to %d, the num_queries of avsg_config.", of,
                       num_queries, config.num_queries);
}

bool Workspace(Check* check, const Call& call) {
  return check->Written("workspace", call.workspace, {call.workspace_bytes}, 1, kStateAlignment);
}

bool State(Check* check, const Call& call) {
  return check->Written("state", call.state,
                        {call.config->num_rows, StateStrideBytes(call.config->num_slots)}, 1,
                        kStateAlignment);
}

bool Step(Check* check, const Call& call) {
  const avsg_step* step = call.step;
  if (!check->Known("avsg_step", step)) return false;
  if (!Queries(check, "avsg_step", *call.config, step->num_entries, step->num_queries)) return false;
  const int64_t entries = step->num_entries;
  return check->Read("topk_tokens", step->topk_tokens, {entries, step->num_queries, call.config->top_k},
                     kWordBytes, kInt32Alignment) &&
         check->Read("verified_lens of avsg_step", step->verified_lens, {entries}, kWordBytes,
                     kInt32Alignment) &&
         check->Read("seq_lens", step->seq_lens, {entries}, kWordBytes, kInt32Alignment) &&
         check->Read("leases", step->leases, {entries}, kWordBytes, kInt32Alignment) &&
         check->Read("rows of avsg_step", step->rows, {entries}, kWordBytes, kInt32Alignment);
}

bool WrittenPlan(Check* check, const Call& call) {
  const avsg_plan* plan = call.plan;
  if (!check->Known("avsg_plan", plan)) return false;
  if (plan->num_entries != call.step->num_entries || plan->num_queries != call.step->num_queries) {
    return check->Refuse(
        "avsg_plan is for %d entries of %d queries, avsg_step has %d of %d; they must be equal.",
        plan->num_entries, plan->num_queries, call.step->num_entries, call.step->num_queries);
  }
  const int64_t entries = plan->num_entries;
  const int64_t width = int64_t{plan->num_queries} * call.config->top_k;
  return check->Written("slots", plan->slots, {entries, width}, kWordBytes, kInt32Alignment) &&
         check->Written("miss_tokens", plan->miss_tokens, {entries, width}, kWordBytes, kInt32Alignment) &&
         check->Written("miss_slots", plan->miss_slots, {entries, width}, kWordBytes, kInt32Alignment) &&
         check->Written("num_misses", plan->num_misses, {entries}, kWordBytes, kInt32Alignment) &&
         check->Written("counters", plan->counters, {entries, kNumCounters}, kWordBytes, kInt32Alignment) &&
         check->Written("rows of avsg_plan", plan->rows, {entries}, kWordBytes, kInt32Alignment) &&
         check->Written("verified_lens of avsg_plan", plan->verified_lens, {entries}, kWordBytes,
                        kInt32Alignment);
}

// What load needs of a plan; slots and counters may be gone.
bool ReadPlan(Check* check, const Call& call) {
  const avsg_plan* plan = call.plan;
  if (!check->Known("avsg_plan", plan)) return false;
  if (!Queries(check, "avsg_plan", *call.config, plan->num_entries, plan->num_queries)) return false;
  const int64_t entries = plan->num_entries;
  const int64_t width = int64_t{plan->num_queries} * call.config->top_k;
  return check->Read("miss_tokens", plan->miss_tokens, {entries, width}, kWordBytes, kInt32Alignment) &&
         check->Read("miss_slots", plan->miss_slots, {entries, width}, kWordBytes, kInt32Alignment) &&
         check->Read("num_misses", plan->num_misses, {entries}, kWordBytes, kInt32Alignment) &&
         check->Read("rows of avsg_plan", plan->rows, {entries}, kWordBytes, kInt32Alignment) &&
         check->Read("verified_lens of avsg_plan", plan->verified_lens, {entries}, kWordBytes,
                     kInt32Alignment);
}

bool Blocks(Check* check, const avsg_blocks* blocks) {
  return check->Known("avsg_blocks", blocks) &&
         check->InRange("block_size", blocks->block_size, 1, INT32_MAX) &&
         check->InRange("max_blocks", blocks->max_blocks, 1, INT32_MAX) &&
         check->InRange("num_host_blocks", blocks->num_host_blocks, 1, INT64_MAX) &&
         check->InRange("num_entries of avsg_blocks", blocks->num_entries, 1, INT32_MAX) &&
         check->Read("block_table", blocks->block_table, {blocks->num_entries, blocks->max_blocks},
                     kWordBytes, kInt32Alignment);
}

bool RowBytes(Check* check, int payload, uint32_t reserved, int64_t row_bytes) {
  if (reserved != 0) return check->Refuse("payloads[%d].reserved is %u, allowed is 0.", payload, reserved);
  if (row_bytes > 0 && row_bytes % kRowBytesMultiple == 0) return true;
  return check->Refuse("payloads[%d].row_bytes is %lld, allowed are positive multiples of %d; pad the row.",
                       payload, static_cast<long long>(row_bytes), kRowBytesMultiple);
}

template <typename Payload>
bool NumPayloads(Check* check, const Payload* payloads, int32_t num_payloads) {
  if (!check->InRange("num_payloads", num_payloads, 1, kMaxPayloads)) return false;
  if (payloads == nullptr) return check->Refuse("payloads is NULL; pass %d structs.", num_payloads);
  return true;
}

bool LoadPayloads(Check* check, const Call& call) {
  if (!NumPayloads(check, call.payloads, call.num_payloads)) return false;
  const avsg_blocks& blocks = *call.blocks;
  for (int i = 0; i < call.num_payloads; ++i) {
    const avsg_payload& payload = call.payloads[i];
    if (!check->Known("avsg_payload", &payload) || !RowBytes(check, i, payload.reserved, payload.row_bytes))
      return false;
    if ((payload.fresh == nullptr) != (call.payloads[0].fresh == nullptr)) {
      return check->Refuse(
          "fresh is given for payloads[%d] but not for payloads[%d]; give it for all or for none.",
          payload.fresh == nullptr ? 0 : i, payload.fresh == nullptr ? i : 0);
    }
    check->Read({"host_kv", i}, payload.host_kv,
                {blocks.num_host_blocks, blocks.block_size, payload.row_bytes}, 1, kNoAlignment);
    check->Written({"device_kv", i}, payload.device_kv,
                   {call.config->num_rows, call.config->num_slots, payload.row_bytes}, 1, kNoAlignment);
    if (payload.fresh == nullptr) continue;
    check->Read({"fresh", i}, payload.fresh,
                {call.plan->num_entries, call.plan->num_queries, payload.row_bytes}, 1, kNoAlignment);
  }
  return check->Error().empty();
}

bool StorePayloads(Check* check, const Call& call) {
  if (!NumPayloads(check, call.store_payloads, call.num_payloads)) return false;
  const avsg_blocks& blocks = *call.blocks;
  for (int i = 0; i < call.num_payloads; ++i) {
    const avsg_store_payload& payload = call.store_payloads[i];
    if (!check->Known("avsg_store_payload", &payload) ||
        !RowBytes(check, i, payload.reserved, payload.row_bytes))
      return false;
    check->Written({"host_kv", i}, payload.host_kv,
                   {blocks.num_host_blocks, blocks.block_size, payload.row_bytes}, 1, kNoAlignment);
    check->Read({"new_rows", i}, payload.new_rows, {call.num_new_rows, payload.row_bytes}, 1, kNoAlignment);
  }
  return check->Error().empty();
}

// Everything of a load but its plan and state.
bool Copies(Check* check, const Call& call) {
  if (!Blocks(check, call.blocks)) return false;
  if (call.blocks->num_entries != call.plan->num_entries) {
    return check->Refuse("num_entries of avsg_blocks is %d, avsg_plan has %d; they must be equal.",
                         call.blocks->num_entries, call.plan->num_entries);
  }
  return LoadPayloads(check, call) &&
         check->Written("load_counters", call.counters, {kNumLoadCounters}, kWordBytes, kInt32Alignment);
}

}  // namespace

PoolShape ShapeOf(const avsg_config& config) {
  return {config.num_rows, config.num_slots, config.top_k, config.num_queries, config.max_life};
}

std::string CheckSizes(const Platform& platform, const avsg_config* config, const avsg_size_report* report) {
  Check check;
  if (Config(&check, config, platform)) check.Known("avsg_size_report", report);
  return check.Error();
}

std::string CheckMatch(const Call& call) {
  Check check;
  Config(&check, call.config, *call.platform) && Step(&check, call) && State(&check, call) &&
      WrittenPlan(&check, call) && Workspace(&check, call) && check.NoOverlap();
  return check.Error();
}

std::string CheckLoad(const Call& call) {
  Check check;
  Config(&check, call.config, *call.platform) && ReadPlan(&check, call) && Copies(&check, call) &&
      State(&check, call) && Workspace(&check, call) && check.NoOverlap();
  return check.Error();
}

std::string CheckStepFused(const Call& call) {
  Check check;
  Config(&check, call.config, *call.platform) && Step(&check, call) && State(&check, call) &&
      WrittenPlan(&check, call) && Copies(&check, call) && Workspace(&check, call) && check.NoOverlap();
  return check.Error();
}

std::string CheckStore(const Call& call) {
  Check check;
  if (Config(&check, call.config, *call.platform) && Blocks(&check, call.blocks) &&
      check.InRange("num_new_rows", call.num_new_rows, 1, INT32_MAX) && StorePayloads(&check, call)) {
    const int64_t count = call.num_new_rows;
    check.Read("positions", call.positions, {count}, kWordBytes, kInt32Alignment) &&
        check.Read("entries", call.entries, {count}, kWordBytes, kInt32Alignment) &&
        check.Written("store_counters", call.counters, {kNumStoreCounters}, kWordBytes, kInt32Alignment) &&
        Workspace(&check, call) && check.NoOverlap();
  }
  return check.Error();
}

}  // namespace sparse_gather
