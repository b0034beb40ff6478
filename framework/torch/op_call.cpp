// SPDX-License-Identifier: Apache-2.0
// Reading the arguments of each operator in the order of ops.cpp's schemas; shapes are those of avsg.h.
#include "op_call.h"

#include "copies.h"

namespace sparse_gather {
namespace {

constexpr int64_t kAlignment = 32;  // of state and workspace, in bytes
constexpr int kPoolInts = 3;        // num_slots, num_queries, max_life of match and step
constexpr int kLoadInts = 2;        // num_slots, top_k of load

int32_t NumSlots(const Arguments& arguments, int num_last) {
  const int32_t num_slots = arguments.LastInt(num_last, 0);
  if (num_slots <= kMaxSlots && num_slots % kSlotMultiple == 0) return num_slots;
  RefuseValue("num_slots", std::to_string(num_slots),
              "a multiple of " + std::to_string(kSlotMultiple) + " up to " + std::to_string(kMaxSlots),
              "pass the number of the PoolConfig");
}

// topk_tokens [B, Q, K], verified_lens, seq_lens, leases, rows [B]
void ReadStepInputs(Arguments* arguments, OpCall* call) {
  const Argument topk = arguments->Next();
  const int32_t num_queries = arguments->LastInt(kPoolInts, 1);
  if (topk.tensor.dim() != 3 || topk.Size(0) < 1 || topk.Size(1) < 1 || topk.Size(1) > num_queries ||
      topk.Size(2) < 1) {
    RefuseValue(
        "topk_tokens.shape", topk.ShapeText(),
        "[B, Q, K] with B and K of 1 or more and Q of 1 to num_queries = " + std::to_string(num_queries),
        "pad shorter selections with -1");
  }
  avsg_step& step = call->step;
  step.struct_bytes = sizeof(step);
  step.topk_tokens = arguments->Int32Memory(topk);
  const int64_t entries = step.num_entries = topk.Size32(0);
  step.num_queries = static_cast<int32_t>(topk.Size(1));
  for (const int32_t** line : {&step.verified_lens, &step.seq_lens, &step.leases, &step.rows})
    *line = arguments->NextInt32({entries}, "[B]");
  call->config = avsg_config{sizeof(avsg_config),
                             0,
                             NumSlots(*arguments, kPoolInts),
                             topk.Size32(2),
                             num_queries,
                             arguments->LastInt(kPoolInts, 2),
                             0};
}

// uint8 [num_rows, stride]
void ReadState(Arguments* arguments, OpCall* call) {
  const Argument state = arguments->Next();
  const int64_t stride = StateStrideBytes(call->config.num_slots);
  if (state.tensor.dim() != 2 || state.Size(0) < 1 || state.Size(1) != stride) {
    RefuseValue("state.shape", state.ShapeText(),
                "[num_rows, " + std::to_string(stride) +
                    "] for num_slots = " + std::to_string(call->config.num_slots),
                "pass the state of a pool with these slots");
  }
  call->state = arguments->Bytes(state, kAlignment);
  call->config.num_rows = state.Size32(0);
}

void ReadWorkspace(Arguments* arguments, OpCall* call) {
  const Argument workspace = arguments->Next();
  call->workspace_bytes = workspace.RowBytes(0);
  if (call->workspace_bytes < kWorkspaceBytes) {
    RefuseValue("workspace", std::to_string(call->workspace_bytes) + " bytes",
                std::to_string(kWorkspaceBytes) + " bytes or more", "pass the workspace of the TorchPool");
  }
  call->workspace = arguments->Bytes(workspace, kAlignment);
}

// The seven outputs of a match.
void ReadWrittenPlan(Arguments* arguments, OpCall* call) {
  avsg_plan& plan = call->plan;
  plan.struct_bytes = sizeof(plan);
  const int64_t entries = plan.num_entries = call->step.num_entries;
  const int64_t queries = plan.num_queries = call->step.num_queries;
  const int64_t width = queries * call->config.top_k;
  plan.slots = arguments->NextInt32({entries, queries, call->config.top_k}, "[B, Q, K]");
  plan.miss_tokens = arguments->NextInt32({entries, width}, "[B, Q*K]");
  plan.miss_slots = arguments->NextInt32({entries, width}, "[B, Q*K]");
  plan.num_misses = arguments->NextInt32({entries}, "[B]");
  plan.counters = arguments->NextInt32({entries, kNumCounters}, "[B, 8]");
  plan.rows = arguments->NextInt32({entries}, "[B]");
  plan.verified_lens = arguments->NextInt32({entries}, "[B]");
}

// miss_tokens, miss_slots [B, Q*K], num_misses, plan_rows, plan_verified_lens [B]: what load needs of a plan
void ReadMisses(Arguments* arguments, OpCall* call) {
  const Argument tokens = arguments->Next();
  const int32_t top_k = arguments->LastInt(kLoadInts, 1);
  if (tokens.tensor.dim() != 2 || tokens.Size(0) < 1 || tokens.Size(1) < 1 || tokens.Size(1) % top_k != 0) {
    RefuseValue("miss_tokens.shape", tokens.ShapeText(),
                "[B, Q*K] with B and Q of 1 or more and K = " + std::to_string(top_k),
                "pass the plan of a match with this top_k");
  }
  avsg_plan& plan = call->plan;
  plan.struct_bytes = sizeof(plan);
  const int64_t entries = plan.num_entries = tokens.Size32(0);
  const int64_t width = tokens.Size(1);
  plan.num_queries = tokens.Size32(1) / top_k;
  plan.miss_tokens = arguments->Int32Memory(tokens);
  plan.miss_slots = arguments->NextInt32({entries, width}, "[B, Q*K]");
  for (int32_t** line : {&plan.num_misses, &plan.rows, &plan.verified_lens})
    *line = arguments->NextInt32({entries}, "[B]");
  call->config = avsg_config{
      sizeof(avsg_config), 0, NumSlots(*arguments, kLoadInts), top_k, plan.num_queries, kMaxLife, 0};
}

// host_kv, fresh (may be empty), device_kv, state. The state's rows give device_kv's, so it is read first.
void ReadPayloads(Arguments* arguments, OpCall* call) {
  const c10::List<at::Tensor> host_kv = FirstList(arguments, call);
  const int32_t count = call->num_payloads;
  for (int i = 0; i < count; ++i) {
    const Argument host{arguments->ListName(), i, host_kv[i]};
    void* const memory = HostKv(arguments, host, call);
    call->payloads[i] = avsg_payload{sizeof(avsg_payload), 0, host.RowBytes(2), memory, nullptr, nullptr};
  }
  const c10::List<at::Tensor> fresh = arguments->NextList();
  if (!fresh.empty()) CheckCount(arguments->ListName(), fresh.size(), count);
  for (int i = 0; i < static_cast<int>(fresh.size()); ++i) {
    call->payloads[i].fresh =
        Rows(arguments, {arguments->ListName(), i, fresh[i]},
             {call->plan.num_entries, call->plan.num_queries}, "[B, Q, ...]", call->payloads[i].row_bytes);
  }
  const c10::List<at::Tensor> device_kv = arguments->NextList();
  const char* const name = arguments->ListName();
  CheckCount(name, device_kv.size(), count);
  ReadState(arguments, call);
  const int64_t num_rows = int64_t{call->config.num_rows} * call->config.num_slots;
  for (int i = 0; i < count; ++i) {
    call->payloads[i].device_kv = Rows(arguments, {name, i, device_kv[i]}, {num_rows},
                                       "[num_rows * num_slots, ...]", call->payloads[i].row_bytes);
  }
}

}  // namespace

OpCall ReadMatch(Arguments* arguments) {
  OpCall call{};
  ReadStepInputs(arguments, &call);
  ReadState(arguments, &call);
  ReadWrittenPlan(arguments, &call);
  ReadWorkspace(arguments, &call);
  return call;
}

OpCall ReadLoad(Arguments* arguments) {
  OpCall call{};
  ReadMisses(arguments, &call);
  ReadBlockTable(arguments, call.plan.num_entries, &call);
  ReadPayloads(arguments, &call);
  call.counters = arguments->NextInt32({kNumLoadCounters}, "[2]");
  ReadWorkspace(arguments, &call);
  return call;
}

OpCall ReadStep(Arguments* arguments) {
  OpCall call{};
  ReadStepInputs(arguments, &call);
  call.plan.num_entries = call.step.num_entries;
  call.plan.num_queries = call.step.num_queries;
  ReadBlockTable(arguments, call.step.num_entries, &call);
  ReadPayloads(arguments, &call);
  ReadWrittenPlan(arguments, &call);
  call.counters = arguments->NextInt32({kNumLoadCounters}, "[2]");
  ReadWorkspace(arguments, &call);
  return call;
}

OpCall ReadStore(Arguments* arguments) {
  OpCall call{};
  const Argument positions = arguments->Next();
  if (positions.tensor.dim() != 1 || positions.Size(0) < 1) {
    RefuseValue("positions.shape", positions.ShapeText(), "[T] with T of 1 or more",
                "pass one position per new row");
  }
  const int64_t num_new_rows = call.num_new_rows = positions.Size32(0);
  call.positions = arguments->Int32Memory(positions);
  call.entries = arguments->NextInt32({num_new_rows}, "[T]");
  ReadBlockTable(arguments, 0, &call);
  const c10::List<at::Tensor> new_rows = FirstList(arguments, &call);
  const char* const name = arguments->ListName();
  const c10::List<at::Tensor> host_kv = arguments->NextList();
  CheckCount(arguments->ListName(), host_kv.size(), call.num_payloads);
  for (int i = 0; i < call.num_payloads; ++i) {
    const Argument host{arguments->ListName(), i, host_kv[i]};
    void* const memory = HostKv(arguments, host, &call);
    const int64_t row_bytes = host.RowBytes(2);
    const void* const rows = Rows(arguments, {name, i, new_rows[i]}, {num_new_rows}, "[T, ...]", row_bytes);
    call.store_payloads[i] = avsg_store_payload{sizeof(avsg_store_payload), 0, row_bytes, memory, rows};
  }
  call.counters = arguments->NextInt32({kNumStoreCounters}, "[2]");
  ReadWorkspace(arguments, &call);
  // A store has no pool; the C ABI wants a valid one.
  call.config = avsg_config{sizeof(avsg_config), 1, kSlotMultiple, kTopKMultiple, 1, kMaxLife, 0};
  return call;
}

int RunMatch(const Library& library, OpCall* call, void* stream) {
  return library.match(&call->config, &call->step, call->state, &call->plan, call->workspace, stream);
}

int RunLoad(const Library& library, OpCall* call, void* stream) {
  return library.load(&call->config, &call->plan, &call->blocks, call->payloads, call->num_payloads,
                      call->state, call->counters, call->workspace, stream);
}

int RunStep(const Library& library, OpCall* call, void* stream) {
  return library.step_fused(&call->config, &call->step, call->state, &call->plan, &call->blocks,
                            call->payloads, call->num_payloads, call->counters, call->workspace, stream);
}

int RunStore(const Library& library, OpCall* call, void* stream) {
  return library.store(&call->config, &call->blocks, call->store_payloads, call->num_payloads,
                       call->positions, call->entries, call->num_new_rows, call->counters, call->workspace,
                       stream);
}

}  // namespace sparse_gather
