// SPDX-License-Identifier: Apache-2.0
// The entry points of the C ABI, the same in every library.
#include <string>

#include "avsg_layout.h"
#include "calls.h"
#include "last_error.h"

namespace sparse_gather {
namespace {

Call CallOf(const avsg_config* config, void* workspace, void* stream) {
  Call call;
  call.platform = &Device();
  call.config = config;
  call.workspace = workspace;
  call.workspace_bytes = WorkspaceBytes();
  call.stream = stream;
  return call;
}

int Sizes(const avsg_config* config, avsg_size_report* report) {
  const std::string error = CheckSizes(Device(), config, report);
  if (!error.empty()) return Fail(AVSG_INVALID_ARGUMENT, error);
  MatchTiling tiling = {};
  const std::string unfit =
      MakeMatchTiling(ShapeOf(*config), 1, config->num_queries, Device(), NumCores(*config), &tiling);
  if (!unfit.empty()) return Fail(AVSG_INVALID_ARGUMENT, unfit);
  report->num_buckets = 1 << tiling.num_buckets_log2;
  report->probe_rounds = tiling.probe_rounds;
  report->lag_min = tiling.lag_min;
  report->num_cores = tiling.num_cores;
  report->max_num_slots = LargestNumSlots(config->top_k, Device());
  report->state_row_bytes = StateRowBytes(config->num_slots);
  report->state_stride_bytes = tiling.state_stride_bytes;
  report->state_bytes = config->num_rows * tiling.state_stride_bytes;
  report->workspace_bytes = WorkspaceBytes();
  report->ub_bytes = tiling.ub.total;
  return Succeed();
}

}  // namespace
}  // namespace sparse_gather

extern "C" {

uint32_t avsg_abi_version(void) { return AVSG_ABI_VERSION; }

const char* avsg_library_name(void) { return AVSG_LIBRARY_NAME; }

int avsg_sizes(const avsg_config* config, avsg_size_report* report) {
  return sparse_gather::WhenReady([&] { return sparse_gather::Sizes(config, report); });
}

int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
               void* workspace, void* stream) {
  return sparse_gather::WhenReady([&] {
    sparse_gather::Call call = sparse_gather::CallOf(config, workspace, stream);
    call.step = step;
    call.state = state;
    call.plan = plan;
    return sparse_gather::Match(call);
  });
}

int avsg_load(const avsg_config* config, const avsg_plan* plan, const avsg_blocks* blocks,
              const avsg_payload* payloads, int32_t num_payloads, void* state, int32_t* load_counters,
              void* workspace, void* stream) {
  return sparse_gather::WhenReady([&] {
    sparse_gather::Call call = sparse_gather::CallOf(config, workspace, stream);
    call.plan = plan;
    call.blocks = blocks;
    call.payloads = payloads;
    call.num_payloads = num_payloads;
    call.state = state;
    call.counters = load_counters;
    return sparse_gather::Load(call);
  });
}

int avsg_step_fused(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
                    const avsg_blocks* blocks, const avsg_payload* payloads, int32_t num_payloads,
                    int32_t* load_counters, void* workspace, void* stream) {
  return sparse_gather::WhenReady([&] {
    sparse_gather::Call call = sparse_gather::CallOf(config, workspace, stream);
    call.step = step;
    call.state = state;
    call.plan = plan;
    call.blocks = blocks;
    call.payloads = payloads;
    call.num_payloads = num_payloads;
    call.counters = load_counters;
    return sparse_gather::StepFused(call);
  });
}

int avsg_store(const avsg_config* config, const avsg_blocks* blocks, const avsg_store_payload* payloads,
               int32_t num_payloads, const int32_t* positions, const int32_t* entries, int32_t num_new_rows,
               int32_t* store_counters, void* workspace, void* stream) {
  return sparse_gather::WhenReady([&] {
    sparse_gather::Call call = sparse_gather::CallOf(config, workspace, stream);
    call.blocks = blocks;
    call.store_payloads = payloads;
    call.num_payloads = num_payloads;
    call.positions = positions;
    call.entries = entries;
    call.num_new_rows = num_new_rows;
    call.counters = store_counters;
    return sparse_gather::Store(call);
  });
}

}  // extern "C"
