// SPDX-License-Identifier: Apache-2.0
// The calls on an NPU: each checks its arguments, describes the caller's memory to aclnn and launches its
// operator on the stream. Every call has an executor of its own: nothing is cached, so a stream may be
// captured into a graph, whose replays then skip all of this.
#include <string>

#include "acl_error.h"
#include "avsg_layout.h"
#include "calls.h"
#include "descriptors.h"
#include "last_error.h"
#include "runtime.h"

namespace sparse_gather {
namespace {

// What the first half of an aclnn call gives and its second half takes.
struct Prepared {
  uint64_t workspace_bytes = 0;
  aclOpExecutor* executor = nullptr;
};

struct StepTensors {
  StepTensors(const Call& call, Descriptors* d)
      : topk_tokens(d->Int32(call.step->topk_tokens, {B(call), call.step->num_queries, call.config->top_k})),
        verified_lens(d->Int32(call.step->verified_lens, {B(call)})),
        seq_lens(d->Int32(call.step->seq_lens, {B(call)})),
        leases(d->Int32(call.step->leases, {B(call)})),
        rows(d->Int32(call.step->rows, {B(call)})) {}
  static int64_t B(const Call& call) { return call.step->num_entries; }
  aclTensor* topk_tokens;
  aclTensor* verified_lens;
  aclTensor* seq_lens;
  aclTensor* leases;
  aclTensor* rows;
};

// What match writes; load reads all but slots and counters, which may be gone then.
struct PlanTensors {
  PlanTensors(const Call& call, Descriptors* d, bool whole)
      : miss_tokens(d->Int32(call.plan->miss_tokens, {B(call), Width(call)})),
        miss_slots(d->Int32(call.plan->miss_slots, {B(call), Width(call)})),
        num_misses(d->Int32(call.plan->num_misses, {B(call)})),
        rows(d->Int32(call.plan->rows, {B(call)})),
        verified_lens(d->Int32(call.plan->verified_lens, {B(call)})) {
    if (!whole) return;
    slots = d->Int32(call.plan->slots, {B(call), call.plan->num_queries, call.config->top_k});
    counters = d->Int32(call.plan->counters, {B(call), kNumCounters});
  }
  static int64_t B(const Call& call) { return call.plan->num_entries; }
  static int64_t Width(const Call& call) { return int64_t{call.plan->num_queries} * call.config->top_k; }
  aclTensor* miss_tokens;
  aclTensor* miss_slots;
  aclTensor* num_misses;
  aclTensor* rows;
  aclTensor* verified_lens;
  aclTensor* slots = nullptr;
  aclTensor* counters = nullptr;
};

struct CopyTensors {
  CopyTensors(const Call& call, Descriptors* d) : has_fresh(call.payloads[0].fresh != nullptr) {
    const void* data[3][kMaxPayloads];
    int64_t row_bytes[kMaxPayloads];
    for (int i = 0; i < call.num_payloads; ++i) {
      data[0][i] = call.payloads[i].host_kv;
      data[1][i] = call.payloads[i].device_kv;
      data[2][i] = call.payloads[i].fresh;
      row_bytes[i] = call.payloads[i].row_bytes;
    }
    const avsg_blocks& blocks = *call.blocks;
    block_table = d->Int32(blocks.block_table, {blocks.num_entries, blocks.max_blocks});
    host_kv = d->Rows(data[0], call.num_payloads, blocks.num_host_blocks, blocks.block_size, row_bytes);
    device_kv = d->Rows(data[1], call.num_payloads, call.config->num_rows, call.config->num_slots, row_bytes);
    fresh = host_kv;  // stands in for a list that is not given, see AvsgApi
    if (has_fresh)
      fresh = d->Rows(data[2], call.num_payloads, call.plan->num_entries, call.plan->num_queries, row_bytes);
  }
  aclTensor* block_table = nullptr;
  aclTensorList* host_kv = nullptr;
  aclTensorList* device_kv = nullptr;
  aclTensorList* fresh = nullptr;
  bool has_fresh;
};

aclTensor* State(const Call& call, Descriptors* d) {
  return d->Bytes(call.state, {call.config->num_rows, StateStrideBytes(call.config->num_slots)});
}

int Incomplete() {
  return Fail(AVSG_OUT_OF_MEMORY,
              "CANN could not make the tensor descriptors; free host memory and call again.");
}

// "" or why this library cannot do what the arguments ask for.
std::string Unable(const avsg_config& config) {
  if (config.num_cores == 0 || config.num_cores == Device().num_cores) return "";
  return "num_cores is " + std::to_string(config.num_cores) + ", but the operators always take all " +
         std::to_string(Device().num_cores) + " vector cores of the device; pass 0.";
}

int Refuse(const std::string& error, const avsg_config* config) {
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  const std::string unable = Unable(*config);
  return unable.empty() ? AVSG_OK : Fail(AVSG_UNSUPPORTED, unable);
}

// Gives back an executor that no launch will take.
void Abandon(const AclApi& acl, aclOpExecutor* executor) {
  acl.set_repeatable(executor);
  acl.destroy_executor(executor);
}

// The second half of a call; `function` is the name of the first.
int Launch(const char* function, int32_t code, const Prepared& prepared, AvsgApi::Launch launch,
           const Call& call) {
  const AclApi& acl = TheRuntime().cann.acl;
  if (code != 0) return FailAcl(acl, function, code);
  if (prepared.workspace_bytes > static_cast<uint64_t>(call.workspace_bytes)) {
    Abandon(acl, prepared.executor);
    return Fail(AVSG_UNSUPPORTED,
                std::string(function) + " asks for " + std::to_string(prepared.workspace_bytes) +
                    " bytes of workspace, but avsg_sizes said " + std::to_string(call.workspace_bytes) +
                    "; install a package and a library of the same AVSG version.");
  }
  code = launch(call.workspace, prepared.workspace_bytes, prepared.executor, call.stream);
  if (code == 0) return Succeed();
  return FailAcl(acl, std::string(function).substr(0, std::string(function).find("GetWorkspace")).c_str(),
                 code);
}

int32_t PrepareMatch(const Cann& cann, const Call& call, Descriptors* d, Prepared* prepared) {
  const StepTensors step(call, d);
  const PlanTensors plan(call, d, true);
  aclTensor* state = State(call, d);
  if (!d->Complete()) return 0;
  return cann.avsg.match_size(step.topk_tokens, step.verified_lens, step.seq_lens, step.leases, step.rows,
                              state, call.config->num_slots, call.config->num_queries, call.config->max_life,
                              plan.slots, plan.miss_tokens, plan.miss_slots, plan.num_misses, plan.counters,
                              plan.rows, plan.verified_lens, &prepared->workspace_bytes, &prepared->executor);
}

}  // namespace

int AskWorkspaceBytes(const Cann& cann, int64_t* bytes) {
  alignas(kStateAlignment) static int32_t anywhere[8];
  avsg_config config = {sizeof(avsg_config), 1, kSlotMultiple, kTopKMultiple, 1, kMaxLife, 0};
  avsg_step step = {sizeof(avsg_step), 1, 1, anywhere, anywhere, anywhere, anywhere, anywhere};
  avsg_plan plan = {sizeof(avsg_plan), 1,        1,        anywhere, anywhere,
                    anywhere,          anywhere, anywhere, anywhere, anywhere};
  Call call;
  call.config = &config;
  call.step = &step;
  call.plan = &plan;
  call.state = anywhere;
  Descriptors descriptors(cann.acl);
  Prepared prepared;
  const int32_t code = PrepareMatch(cann, call, &descriptors, &prepared);
  if (!descriptors.Complete()) return Incomplete();
  if (code != 0) return FailAcl(cann.acl, "aclnnAvsgMatchGetWorkspaceSize", code);
  Abandon(cann.acl, prepared.executor);
  *bytes = static_cast<int64_t>(prepared.workspace_bytes);
  return AVSG_OK;
}

int Match(const Call& call) {
  const int refused = Refuse(CheckMatch(call), call.config);
  if (refused != AVSG_OK) return refused;
  const Cann& cann = TheRuntime().cann;
  Descriptors descriptors(cann.acl);
  Prepared prepared;
  const int32_t code = PrepareMatch(cann, call, &descriptors, &prepared);
  if (!descriptors.Complete()) return Incomplete();
  return Launch("aclnnAvsgMatchGetWorkspaceSize", code, prepared, cann.avsg.match, call);
}

int Load(const Call& call) {
  const int refused = Refuse(CheckLoad(call), call.config);
  if (refused != AVSG_OK) return refused;
  const Cann& cann = TheRuntime().cann;
  const avsg_config& config = *call.config;
  Descriptors descriptors(cann.acl);
  const PlanTensors plan(call, &descriptors, false);
  const CopyTensors copy(call, &descriptors);
  aclTensor* state = State(call, &descriptors);
  aclTensor* counters = descriptors.Int32(call.counters, {kNumLoadCounters});
  if (!descriptors.Complete()) return Incomplete();
  Prepared prepared;
  const int32_t code = cann.avsg.load_size(
      plan.miss_tokens, plan.miss_slots, plan.num_misses, plan.rows, plan.verified_lens, copy.block_table,
      copy.host_kv, copy.fresh, copy.device_kv, state, config.num_slots, config.top_k, config.num_queries,
      config.max_life, copy.has_fresh, counters, &prepared.workspace_bytes, &prepared.executor);
  return Launch("aclnnAvsgLoadGetWorkspaceSize", code, prepared, cann.avsg.load, call);
}

int StepFused(const Call& call) {
  const int refused = Refuse(CheckStepFused(call), call.config);
  if (refused != AVSG_OK) return refused;
  const Cann& cann = TheRuntime().cann;
  const avsg_config& config = *call.config;
  Descriptors descriptors(cann.acl);
  const StepTensors step(call, &descriptors);
  const PlanTensors plan(call, &descriptors, true);
  const CopyTensors copy(call, &descriptors);
  aclTensor* state = State(call, &descriptors);
  aclTensor* counters = descriptors.Int32(call.counters, {kNumLoadCounters});
  if (!descriptors.Complete()) return Incomplete();
  Prepared prepared;
  const int32_t code = cann.avsg.fused_size(
      step.topk_tokens, step.verified_lens, step.seq_lens, step.leases, step.rows, copy.block_table,
      copy.host_kv, copy.fresh, copy.device_kv, state, config.num_slots, config.num_queries, config.max_life,
      copy.has_fresh, plan.slots, plan.miss_tokens, plan.miss_slots, plan.num_misses, plan.counters,
      plan.rows, plan.verified_lens, counters, &prepared.workspace_bytes, &prepared.executor);
  return Launch("aclnnAvsgGetWorkspaceSize", code, prepared, cann.avsg.fused, call);
}

int Store(const Call& call) {
  const int refused = Refuse(CheckStore(call), call.config);
  if (refused != AVSG_OK) return refused;
  const Cann& cann = TheRuntime().cann;
  const void* new_rows[kMaxPayloads];
  const void* host_kv[kMaxPayloads];
  int64_t row_bytes[kMaxPayloads];
  for (int i = 0; i < call.num_payloads; ++i) {
    new_rows[i] = call.store_payloads[i].new_rows;
    host_kv[i] = call.store_payloads[i].host_kv;
    row_bytes[i] = call.store_payloads[i].row_bytes;
  }
  const avsg_blocks& blocks = *call.blocks;
  Descriptors descriptors(cann.acl);
  aclTensor* positions = descriptors.Int32(call.positions, {call.num_new_rows});
  aclTensor* entries = descriptors.Int32(call.entries, {call.num_new_rows});
  aclTensor* block_table = descriptors.Int32(blocks.block_table, {blocks.num_entries, blocks.max_blocks});
  aclTensorList* from = descriptors.Rows(new_rows, call.num_payloads, call.num_new_rows, 1, row_bytes);
  aclTensorList* to =
      descriptors.Rows(host_kv, call.num_payloads, blocks.num_host_blocks, blocks.block_size, row_bytes);
  aclTensor* counters = descriptors.Int32(call.counters, {kNumStoreCounters});
  if (!descriptors.Complete()) return Incomplete();
  Prepared prepared;
  const int32_t code = cann.avsg.store_size(positions, entries, block_table, from, to, counters,
                                            &prepared.workspace_bytes, &prepared.executor);
  return Launch("aclnnAvsgStoreGetWorkspaceSize", code, prepared, cann.avsg.store, call);
}

}  // namespace sparse_gather
