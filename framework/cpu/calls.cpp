// SPDX-License-Identifier: Apache-2.0
// The calls on the CPU: each checks its arguments, makes the tiling, launches its kernel and ends when the
// kernel has ended.
#include "calls.h"

#include <algorithm>
#include <string>

#include "arguments.h"
#include "last_error.h"
#include "launch.h"
#include "tiling.h"

namespace sparse_gather {
namespace {

constexpr int64_t kWordBytes = 4;

int Finish(const std::string& failure) {
  if (failure.empty()) return Succeed();
  // Only the checked build watches rules; the fast one can only lack memory for its cores.
  return Fail(AVSG_CPU_CHECKED ? AVSG_RULE_VIOLATED : AVSG_OUT_OF_MEMORY, failure);
}

// Refused calls end here, before anything is written.
std::string Refusal(const std::string& error, void* stream) {
  if (!error.empty() || stream == nullptr) return error;
  return "stream is not NULL, but the CPU libraries have no streams: a call has finished when it returns; "
         "pass NULL.";
}

Tensor State(const Call& call) {
  return {"state", call.state, call.config->num_rows * StateStrideBytes(call.config->num_slots)};
}

Tensor Workspace(const Call& call) { return {"workspace", call.workspace, call.workspace_bytes}; }

void AddStep(const avsg_config& config, const avsg_step& step, Arguments* arguments) {
  const int64_t entries_bytes = kWordBytes * step.num_entries;
  arguments->Input({"topk_tokens", step.topk_tokens, entries_bytes * step.num_queries * config.top_k});
  arguments->Input({"verified_lens", step.verified_lens, entries_bytes});
  arguments->Input({"seq_lens", step.seq_lens, entries_bytes});
  arguments->Input({"leases", step.leases, entries_bytes});
  arguments->Input({"rows", step.rows, entries_bytes});
}

void AddWrittenPlan(const avsg_config& config, const avsg_plan& plan, Arguments* arguments) {
  const int64_t entries_bytes = kWordBytes * plan.num_entries;
  const int64_t width_bytes = entries_bytes * plan.num_queries * config.top_k;
  arguments->Output({"slots", plan.slots, width_bytes});
  arguments->Output({"miss_tokens", plan.miss_tokens, width_bytes});
  arguments->Output({"miss_slots", plan.miss_slots, width_bytes});
  arguments->Output({"num_misses", plan.num_misses, entries_bytes});
  arguments->Output({"counters", plan.counters, entries_bytes * kNumCounters});
  arguments->Output({"plan rows", plan.rows, entries_bytes});
  arguments->Output({"plan verified_lens", plan.verified_lens, entries_bytes});
}

void AddReadPlan(const avsg_config& config, const avsg_plan& plan, Arguments* arguments) {
  const int64_t entries_bytes = kWordBytes * plan.num_entries;
  const int64_t width_bytes = entries_bytes * plan.num_queries * config.top_k;
  arguments->Input({"miss_tokens", plan.miss_tokens, width_bytes});
  arguments->Input({"miss_slots", plan.miss_slots, width_bytes});
  arguments->Input({"num_misses", plan.num_misses, entries_bytes});
  arguments->Input({"plan rows", plan.rows, entries_bytes});
  arguments->Input({"plan verified_lens", plan.verified_lens, entries_bytes});
}

void AddBlockTable(const avsg_blocks& blocks, Arguments* arguments) {
  arguments->Input({"block_table", blocks.block_table, kWordBytes * blocks.num_entries * blocks.max_blocks});
}

// block_table, host_kv, fresh, device_kv, state, device_kv_out, state_out.
void AddCopies(const Call& call, Arguments* arguments) {
  Tensor host_kv[kMaxPayloads];
  Tensor fresh[kMaxPayloads];
  Tensor device_kv[kMaxPayloads];
  for (int i = 0; i < call.num_payloads; ++i) {
    const avsg_payload& payload = call.payloads[i];
    const int64_t device_rows = int64_t{call.config->num_rows} * call.config->num_slots;
    const int64_t fresh_rows = int64_t{call.plan->num_entries} * call.plan->num_queries;
    host_kv[i] = {"host_kv", payload.host_kv,
                  call.blocks->num_host_blocks * call.blocks->block_size * payload.row_bytes};
    fresh[i] = {"fresh", payload.fresh, fresh_rows * payload.row_bytes};
    device_kv[i] = {"device_kv", payload.device_kv, device_rows * payload.row_bytes};
  }
  AddBlockTable(*call.blocks, arguments);
  arguments->InputList(host_kv, call.num_payloads);
  if (call.payloads[0].fresh != nullptr) {
    arguments->InputList(fresh, call.num_payloads);
  } else {
    arguments->Absent();
  }
  arguments->OutputList(device_kv, call.num_payloads);
  arguments->Output(State(call));
  arguments->OutputList(device_kv, call.num_payloads);
  arguments->Output(State(call));
}

template <typename Payload>
CopyShape ShapeOfCopy(const Call& call, const Payload* payloads, int64_t* row_bytes) {
  for (int i = 0; i < call.num_payloads; ++i) row_bytes[i] = payloads[i].row_bytes;
  CopyShape shape = {};
  shape.num_entries = call.blocks->num_entries;
  shape.block_size = call.blocks->block_size;
  shape.max_blocks = call.blocks->max_blocks;
  shape.num_host_blocks = call.blocks->num_host_blocks;
  shape.num_payloads = call.num_payloads;
  shape.row_bytes = row_bytes;
  return shape;
}

CopyShape ShapeOfLoad(const Call& call, int64_t* row_bytes) {
  CopyShape shape = ShapeOfCopy(call, call.payloads, row_bytes);
  shape.step_queries = call.plan->num_queries;
  shape.has_fresh = call.payloads[0].fresh != nullptr;
  return shape;
}

}  // namespace

int Ready() { return AVSG_OK; }

const Platform& Device() {
  // The checked library runs what a chip would run, the fast one what suits a CPU.
  static const Platform* platform = FindPlatform(AVSG_CPU_CHECKED ? "ascend910b" : "cpu");
  return *platform;
}

int32_t NumCores(const avsg_config& config) {
  return config.num_cores > 0 ? config.num_cores : avsg_cpu::NumHardwareThreads();
}

int64_t WorkspaceBytes() { return kWorkspaceBytes; }

int Match(const Call& call) {
  AvsgMatchTiling tiling = {};
  std::string error = Refusal(CheckMatch(call), call.stream);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  const avsg_step& step = *call.step;
  const int32_t num_cores = std::min(NumCores(*call.config), step.num_entries);
  error = MakeMatchTiling(ShapeOf(*call.config), step.num_entries, step.num_queries, Device(), num_cores,
                          &tiling.match);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  Arguments arguments;
  AddStep(*call.config, step, &arguments);
  arguments.Output(State(call));
  arguments.Output(State(call));
  AddWrittenPlan(*call.config, *call.plan, &arguments);
  arguments.Output(Workspace(call));
  arguments.Input({"tiling", &tiling, sizeof(tiling)});
  return Finish(arguments.Launch(num_cores, avsg_cpu::CurrentKernels().match));
}

int Load(const Call& call) {
  int64_t row_bytes[kMaxPayloads];
  AvsgLoadTiling tiling = {};
  std::string error = Refusal(CheckLoad(call), call.stream);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  const int32_t num_cores = NumCores(*call.config);
  error = MakeLoadTiling(ShapeOf(*call.config), ShapeOfLoad(call, row_bytes), Device(), num_cores, &tiling);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  Arguments arguments;
  AddReadPlan(*call.config, *call.plan, &arguments);
  AddCopies(call, &arguments);
  arguments.Output({"load_counters", call.counters, kWordBytes * kNumLoadCounters});
  arguments.Output(Workspace(call));
  arguments.Input({"tiling", &tiling, sizeof(tiling)});
  return Finish(arguments.Launch(num_cores, avsg_cpu::CurrentKernels().load));
}

int StepFused(const Call& call) {
  int64_t row_bytes[kMaxPayloads];
  AvsgTiling tiling = {};
  std::string error = Refusal(CheckStepFused(call), call.stream);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  const int32_t num_cores = NumCores(*call.config);
  error = MakeFusedTiling(ShapeOf(*call.config), ShapeOfLoad(call, row_bytes), Device(), num_cores, &tiling);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  Arguments arguments;
  AddStep(*call.config, *call.step, &arguments);
  AddCopies(call, &arguments);
  AddWrittenPlan(*call.config, *call.plan, &arguments);
  arguments.Output({"load_counters", call.counters, kWordBytes * kNumLoadCounters});
  arguments.Output(Workspace(call));
  arguments.Input({"tiling", &tiling, sizeof(tiling)});
  return Finish(arguments.Launch(num_cores, avsg_cpu::CurrentKernels().step));
}

int Store(const Call& call) {
  int64_t row_bytes[kMaxPayloads];
  AvsgStoreTiling tiling = {};
  std::string error = Refusal(CheckStore(call), call.stream);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  const int32_t num_cores = NumCores(*call.config);
  error = MakeStoreTiling(ShapeOfCopy(call, call.store_payloads, row_bytes), call.num_new_rows, Device(),
                          num_cores, &tiling);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  Tensor new_rows[kMaxPayloads];
  Tensor host_kv[kMaxPayloads];
  for (int i = 0; i < call.num_payloads; ++i) {
    const avsg_store_payload& payload = call.store_payloads[i];
    new_rows[i] = {"new_rows", payload.new_rows, call.num_new_rows * payload.row_bytes};
    host_kv[i] = {"host_kv", payload.host_kv,
                  call.blocks->num_host_blocks * call.blocks->block_size * payload.row_bytes};
  }
  Arguments arguments;
  arguments.Input({"positions", call.positions, kWordBytes * call.num_new_rows});
  arguments.Input({"entries", call.entries, kWordBytes * call.num_new_rows});
  AddBlockTable(*call.blocks, &arguments);
  arguments.InputList(new_rows, call.num_payloads);
  arguments.OutputList(host_kv, call.num_payloads);
  arguments.OutputList(host_kv, call.num_payloads);
  arguments.Output({"store_counters", call.counters, kWordBytes * kNumStoreCounters});
  arguments.Output(Workspace(call));
  arguments.Input({"tiling", &tiling, sizeof(tiling)});
  return Finish(arguments.Launch(num_cores, avsg_cpu::CurrentKernels().store));
}

}  // namespace sparse_gather
