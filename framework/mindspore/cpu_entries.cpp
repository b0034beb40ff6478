// SPDX-License-Identifier: Apache-2.0
// The functions behind ops.Custom(func_type="aot") on a CPU: each takes its tensors in the order of its
// comment, inputs, then outputs, and calls the C ABI. A refusal is thrown, and nothing has changed then.
#include <cstring>

#include "avsg_layout.h"
#include "cpu_arguments.h"
#include "cpu_values.h"

namespace sparse_gather {
namespace {

using Payloads = std::vector<avsg_payload>;

void Call(int code) {
  if (code != AVSG_OK) Refuse(avsg_last_error());
}

// topk_tokens [B, Q, K], verified_lens, seq_lens, leases, rows [B]
avsg_step NextStep(Arguments* arguments) {
  const TensorArgument topk_tokens = arguments->Next();
  avsg_step step{sizeof(avsg_step),
                 topk_tokens.Size(0),
                 topk_tokens.Size(1),
                 topk_tokens.Int32(),
                 nullptr,
                 nullptr,
                 nullptr,
                 nullptr};
  step.verified_lens = arguments->Next().Int32();
  step.seq_lens = arguments->Next().Int32();
  step.leases = arguments->Next().Int32();
  step.rows = arguments->Next().Int32();
  return step;
}

// The seven outputs of a match.
avsg_plan NextPlan(Arguments* arguments, const avsg_step& step) {
  avsg_plan plan{};
  plan.struct_bytes = sizeof(plan);
  plan.num_entries = step.num_entries;
  plan.num_queries = step.num_queries;
  for (int32_t** field : {&plan.slots, &plan.miss_tokens, &plan.miss_slots, &plan.num_misses, &plan.counters,
                          &plan.rows, &plan.verified_lens}) {
    *field = arguments->Next().WrittenInt32();
  }
  return plan;
}

// miss_tokens, miss_slots [B, Q*K], num_misses, rows, verified_lens [B]: what a load needs of a plan
avsg_plan NextMisses(Arguments* arguments) {
  const TensorArgument miss_tokens = arguments->Next();
  avsg_plan plan{};
  plan.struct_bytes = sizeof(plan);
  plan.num_entries = miss_tokens.Size(0);
  plan.num_queries = miss_tokens.Size(1) / arguments->Config().top_k;
  plan.miss_tokens = miss_tokens.WrittenInt32();
  for (int32_t** field : {&plan.miss_slots, &plan.num_misses, &plan.rows, &plan.verified_lens})
    *field = arguments->Next().WrittenInt32();
  return plan;
}

// block_table [B, max_blocks]; the rest of the struct follows from a host_kv
avsg_blocks BlocksOf(const TensorArgument& block_table, const TensorArgument& host_kv) {
  return avsg_blocks{sizeof(avsg_blocks), block_table.Size(0), block_table.Size(1),
                     host_kv.Size(1),     host_kv.shape[0],    block_table.Int32()};
}

// host_kv [num_blocks, block_size, ...], then device_kv [num_rows * S, ...], then fresh [B, Q, ...], one per
// payload
Payloads NextPayloads(Arguments* arguments, bool has_fresh, TensorArgument* first_host_kv) {
  Payloads payloads;
  int i = 0;
  for (const TensorArgument& host_kv : arguments->NextPayloads()) {
    if (i == 0) *first_host_kv = host_kv;
    void* host = arguments->Registered("host_kv", host_kv, kFieldHostAddresses + i++);
    payloads.push_back(avsg_payload{sizeof(avsg_payload), 0, host_kv.RowBytes(2), host, nullptr, nullptr});
  }
  i = 0;
  for (const TensorArgument& device_kv : arguments->NextPayloads()) {
    payloads[i].device_kv = arguments->Registered("device_kv", device_kv, kFieldDeviceAddresses + i);
    ++i;
  }
  if (!has_fresh) return payloads;
  i = 0;
  for (const TensorArgument& fresh : arguments->NextPayloads()) payloads[i++].fresh = fresh.data;
  return payloads;
}

void Match(Arguments* arguments) {
  const avsg_step step = NextStep(arguments);
  void* state = arguments->Registered("state", arguments->Next(), kFieldStateAddress);
  avsg_plan plan = NextPlan(arguments, step);
  if (arguments->ChecksValues()) CheckStep(arguments->Config(), step);
  Call(avsg_match(&arguments->Config(), &step, state, &plan, arguments->Workspace(), nullptr));
}

void Load(Arguments* arguments, bool has_fresh) {
  const avsg_plan plan = NextMisses(arguments);
  const TensorArgument block_table = arguments->Next();
  void* state = arguments->Registered("state", arguments->Next(), kFieldStateAddress);
  TensorArgument host_kv{};
  const Payloads payloads = NextPayloads(arguments, has_fresh, &host_kv);
  const avsg_blocks blocks = BlocksOf(block_table, host_kv);
  int32_t* load_counters = arguments->Next().WrittenInt32();
  if (arguments->ChecksValues()) CheckLoad(arguments->Config(), plan, blocks, has_fresh);
  Call(avsg_load(&arguments->Config(), &plan, &blocks, payloads.data(), arguments->NumPayloads(), state,
                 load_counters, arguments->Workspace(), nullptr));
}

void StepFused(Arguments* arguments, bool has_fresh) {
  const avsg_step step = NextStep(arguments);
  const TensorArgument block_table = arguments->Next();
  void* state = arguments->Registered("state", arguments->Next(), kFieldStateAddress);
  TensorArgument host_kv{};
  const Payloads payloads = NextPayloads(arguments, has_fresh, &host_kv);
  const avsg_blocks blocks = BlocksOf(block_table, host_kv);
  avsg_plan plan = NextPlan(arguments, step);
  int32_t* load_counters = arguments->Next().WrittenInt32();
  if (arguments->ChecksValues()) {
    CheckStep(arguments->Config(), step);
    CheckStepBlocks(arguments->Config(), step, blocks, has_fresh);
  }
  Call(avsg_step_fused(&arguments->Config(), &step, state, &plan, &blocks, payloads.data(),
                       arguments->NumPayloads(), load_counters, arguments->Workspace(), nullptr));
}

void Store(Arguments* arguments) {
  const TensorArgument positions = arguments->Next();
  const int32_t* entries = arguments->Next().Int32();
  const TensorArgument block_table = arguments->Next();
  std::vector<avsg_store_payload> payloads;
  for (const TensorArgument& new_rows : arguments->NextPayloads()) {
    payloads.push_back(
        avsg_store_payload{sizeof(avsg_store_payload), 0, new_rows.RowBytes(1), nullptr, new_rows.data});
  }
  TensorArgument host_kv{};
  int i = 0;
  for (const TensorArgument& tensor : arguments->NextPayloads()) {
    host_kv = tensor;
    payloads[i].host_kv = arguments->Registered("host_kv", tensor, kFieldHostAddresses + i);
    ++i;
  }
  const avsg_blocks blocks = BlocksOf(block_table, host_kv);
  int32_t* store_counters = arguments->Next().WrittenInt32();
  if (arguments->ChecksValues()) CheckStore(blocks, positions.Int32(), entries, positions.Size(0));
  Call(avsg_store(&arguments->Config(), &blocks, payloads.data(), arguments->NumPayloads(), positions.Int32(),
                  entries, positions.Size(0), store_counters, arguments->Workspace(), nullptr));
}

}  // namespace
}  // namespace sparse_gather

#define AVSG_AOT_ENTRY(name, call)                                                                      \
  extern "C" int name(int num_params, void** params, int* ndims, int64_t** shapes, const char** dtypes, \
                      void* /*stream*/, void* /*extra*/) {                                              \
    sparse_gather::Arguments arguments(num_params, params, ndims, shapes, dtypes);                      \
    sparse_gather::call;                                                                                \
    return 0;                                                                                           \
  }

// config, step (5), state -> plan (7)
AVSG_AOT_ENTRY(AvsgMindSporeMatch, Match(&arguments))
// config, misses (5), block_table, state, host_kv.., device_kv.. -> load_counters
AVSG_AOT_ENTRY(AvsgMindSporeLoad, Load(&arguments, false))
// the same with fresh.. after device_kv
AVSG_AOT_ENTRY(AvsgMindSporeLoadFresh, Load(&arguments, true))
// config, step (5), block_table, state, host_kv.., device_kv.. -> plan (7), load_counters
AVSG_AOT_ENTRY(AvsgMindSporeStep, StepFused(&arguments, false))
// the same with fresh.. after device_kv
AVSG_AOT_ENTRY(AvsgMindSporeStepFresh, StepFused(&arguments, true))
// config, positions, entries, block_table, new_rows.., host_kv.. -> store_counters
AVSG_AOT_ENTRY(AvsgMindSporeStore, Store(&arguments))
