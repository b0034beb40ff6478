// SPDX-License-Identifier: Apache-2.0
// libcust_opapi.so of the fake CANN: the aclnn functions of the operators with the parameters that op_host
// gives them. They unpack and check the descriptors and let libavsg_cpu.so do the work.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "fake_package.h"

namespace {

struct Everything {
  avsg_config config = {sizeof(avsg_config), 0, 0, 0, 0, 2000, 2};
  avsg_step step = {sizeof(avsg_step), 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
  avsg_plan plan = {sizeof(avsg_plan), 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  avsg_blocks blocks = {sizeof(avsg_blocks), 0, 0, 0, 0, nullptr};
  avsg_payload payloads[4] = {};
  avsg_store_payload store_payloads[4] = {};
  int num_payloads = 0;
  uint8_t* state = nullptr;
  int32_t* counters = nullptr;
  int32_t* positions = nullptr;
  int32_t* entries = nullptr;
};

int64_t Size(const aclTensor* tensor, size_t axis) {
  return tensor != nullptr && axis < tensor->shape.size() ? tensor->shape[axis] : 0;
}

// A fault for tests of the acceptance script: the named output is wrong in one bit.
void Plant(const char* what, void* bytes) {
  const char* wrong = std::getenv("FAKE_WRONG");
  if (wrong != nullptr && std::strcmp(wrong, what) == 0) static_cast<uint8_t*>(bytes)[0] ^= 1;
}

void TakeState(const aclTensor* state, int64_t num_slots, Arguments* arguments, Everything* all) {
  all->config.num_rows = static_cast<int32_t>(Size(state, 0));
  all->config.num_slots = static_cast<int32_t>(num_slots);
  int64_t buckets = 1;
  while (buckets < 2 * num_slots) buckets *= 2;
  const int64_t stride = (512 + 8 * (num_slots + 8) + 4 * buckets + 511) / 512 * 512;
  arguments->Take("stateRef", state, {-1, stride}, &all->state, kUint8);
}

void TakeStep(const aclTensor* topk, const aclTensor* verified, const aclTensor* lens,
              const aclTensor* leases, const aclTensor* rows, Arguments* arguments, Everything* all) {
  const int64_t entries = Size(topk, 0);
  all->config.top_k = static_cast<int32_t>(Size(topk, 2));
  all->step.num_entries = all->plan.num_entries = static_cast<int32_t>(entries);
  all->step.num_queries = all->plan.num_queries = static_cast<int32_t>(Size(topk, 1));
  arguments->Take("topkTokens", topk, {-1, -1, -1}, &all->step.topk_tokens);
  arguments->Take("verifiedLens", verified, {entries}, &all->step.verified_lens);
  arguments->Take("seqLens", lens, {entries}, &all->step.seq_lens);
  arguments->Take("leases", leases, {entries}, &all->step.leases);
  arguments->Take("rows", rows, {entries}, &all->step.rows);
}

void TakeMisses(const aclTensor* tokens, const aclTensor* slots, const aclTensor* num, const aclTensor* rows,
                const aclTensor* verified, int64_t entries, int64_t width, Arguments* arguments,
                Everything* all) {
  arguments->Take("missTokens", tokens, {entries, width}, &all->plan.miss_tokens);
  arguments->Take("missSlots", slots, {entries, width}, &all->plan.miss_slots);
  arguments->Take("numMisses", num, {entries}, &all->plan.num_misses);
  arguments->Take("planRows", rows, {entries}, &all->plan.rows);
  arguments->Take("planVerifiedLens", verified, {entries}, &all->plan.verified_lens);
}

void TakeBlocks(const aclTensor* table, const aclTensorList* host, Arguments* arguments, Everything* all) {
  all->blocks.num_entries = static_cast<int32_t>(Size(table, 0));
  all->blocks.max_blocks = static_cast<int32_t>(Size(table, 1));
  arguments->Take("blockTable", table, {-1, -1}, &all->blocks.block_table);
  if (host == nullptr || host->tensors.size() > 4) return arguments->Refuse("hostKv is no list of 1 to 4");
  all->num_payloads = static_cast<int>(host->tensors.size());
  all->blocks.num_host_blocks = Size(host->tensors[0], 0);
  all->blocks.block_size = static_cast<int32_t>(Size(host->tensors[0], 1));
}

void TakeCopies(const aclTensor* table, const aclTensorList* host, const aclTensorList* fresh,
                const aclTensorList* device, bool has_fresh, Arguments* arguments, Everything* all) {
  TakeBlocks(table, host, arguments, all);
  const size_t count = static_cast<size_t>(all->num_payloads);
  if (fresh == nullptr || device == nullptr || fresh->tensors.size() != count ||
      device->tensors.size() != count)
    return arguments->Refuse("hostKv, fresh and deviceKvRef are lists of different lengths");
  for (size_t i = 0; i < count; ++i) {
    const int64_t row_bytes = Size(host->tensors[i], 2);
    avsg_payload& payload = all->payloads[i];
    payload = {sizeof(avsg_payload), 0, row_bytes, nullptr, nullptr, nullptr};
    arguments->Take("hostKv", host->tensors[i], {all->blocks.num_host_blocks, all->blocks.block_size, -1},
                    &payload.host_kv, kUint8);
    arguments->Take("deviceKvRef", device->tensors[i],
                    {all->config.num_rows, all->config.num_slots, row_bytes}, &payload.device_kv, kUint8);
    if (has_fresh)
      arguments->Take("fresh", fresh->tensors[i], {all->plan.num_entries, all->plan.num_queries, row_bytes},
                      &payload.fresh, kUint8);
  }
}

std::string attributes;  // of the last call, in their order

void Record(std::initializer_list<int64_t> values) {
  attributes.clear();
  for (int64_t value : values) attributes += (attributes.empty() ? "" : " ") + std::to_string(value);
}

void SetLimits(int64_t num_queries, int64_t max_life, Everything* all) {
  all->config.num_queries = static_cast<int32_t>(num_queries);
  all->config.max_life = static_cast<int32_t>(max_life);
}

}  // namespace

extern "C" {

// For tests.
const char* FakeAttributes() { return attributes.c_str(); }

int32_t aclnnAvsgMatchGetWorkspaceSize(const aclTensor* topk, const aclTensor* verified,
                                       const aclTensor* lens, const aclTensor* leases, const aclTensor* rows,
                                       aclTensor* state, int64_t num_slots, int64_t num_queries,
                                       int64_t max_life, const aclTensor* slots, const aclTensor* miss_tokens,
                                       const aclTensor* miss_slots, const aclTensor* num_misses,
                                       const aclTensor* counters, const aclTensor* plan_rows,
                                       const aclTensor* plan_verified, uint64_t* workspace_bytes,
                                       aclOpExecutor** executor) {
  auto all = std::make_shared<Everything>();
  Arguments arguments;
  Record({num_slots, num_queries, max_life});
  SetLimits(num_queries, max_life, all.get());
  TakeState(state, num_slots, &arguments, all.get());
  TakeStep(topk, verified, lens, leases, rows, &arguments, all.get());
  const int64_t entries = all->step.num_entries;
  TakeMisses(miss_tokens, miss_slots, num_misses, plan_rows, plan_verified, entries,
             int64_t{all->step.num_queries} * all->config.top_k, &arguments, all.get());
  arguments.Take("slots", slots, {entries, all->step.num_queries, all->config.top_k}, &all->plan.slots);
  arguments.Take("counters", counters, {entries, 8}, &all->plan.counters);
  const auto call = [all](void* workspace) {
    const int code = Cpu().match(&all->config, &all->step, all->state, &all->plan, workspace, nullptr);
    Plant("slots", all->plan.slots);
    Plant("state", all->state + 512);
    return code;
  };
  return Prepare("aclnnAvsgMatchGetWorkspaceSize", arguments, call, workspace_bytes, executor);
}

int32_t aclnnAvsgLoadGetWorkspaceSize(const aclTensor* miss_tokens, const aclTensor* miss_slots,
                                      const aclTensor* num_misses, const aclTensor* plan_rows,
                                      const aclTensor* plan_verified, const aclTensor* block_table,
                                      const aclTensorList* host_kv, const aclTensorList* fresh,
                                      aclTensorList* device_kv, aclTensor* state, int64_t num_slots,
                                      int64_t top_k, int64_t num_queries, int64_t max_life, bool has_fresh,
                                      const aclTensor* load_counters, uint64_t* workspace_bytes,
                                      aclOpExecutor** executor) {
  auto all = std::make_shared<Everything>();
  Arguments arguments;
  Record({num_slots, top_k, num_queries, max_life, has_fresh});
  SetLimits(num_queries, max_life, all.get());
  TakeState(state, num_slots, &arguments, all.get());
  all->config.top_k = static_cast<int32_t>(top_k);
  all->plan.num_entries = static_cast<int32_t>(Size(miss_tokens, 0));
  all->plan.num_queries = static_cast<int32_t>(Size(miss_tokens, 1) / top_k);
  TakeMisses(miss_tokens, miss_slots, num_misses, plan_rows, plan_verified, all->plan.num_entries,
             all->plan.num_queries * top_k, &arguments, all.get());
  TakeCopies(block_table, host_kv, fresh, device_kv, has_fresh, &arguments, all.get());
  arguments.Take("loadCounters", load_counters, {2}, &all->counters);
  const auto call = [all](void* workspace) {
    const int code = Cpu().load(&all->config, &all->plan, &all->blocks, all->payloads, all->num_payloads,
                                all->state, all->counters, workspace, nullptr);
    Plant("device_kv", all->payloads[0].device_kv);
    return code;
  };
  return Prepare("aclnnAvsgLoadGetWorkspaceSize", arguments, call, workspace_bytes, executor);
}

int32_t aclnnAvsgStoreGetWorkspaceSize(const aclTensor* positions, const aclTensor* entries,
                                       const aclTensor* block_table, const aclTensorList* new_rows,
                                       aclTensorList* host_kv, const aclTensor* store_counters,
                                       uint64_t* workspace_bytes, aclOpExecutor** executor) {
  auto all = std::make_shared<Everything>();
  Arguments arguments;
  TakeBlocks(block_table, host_kv, &arguments, all.get());
  const int64_t count = Size(positions, 0);
  arguments.Take("positions", positions, {count}, &all->positions);
  arguments.Take("entries", entries, {count}, &all->entries);
  arguments.Take("storeCounters", store_counters, {2}, &all->counters);
  if (new_rows == nullptr || new_rows->tensors.size() != static_cast<size_t>(all->num_payloads))
    return FakeError(161002, "newRows and hostKvRef are lists of different lengths");
  for (int i = 0; i < all->num_payloads; ++i) {
    const int64_t row_bytes = Size(host_kv->tensors[i], 2);
    avsg_store_payload& payload = all->store_payloads[i];
    payload = {sizeof(avsg_store_payload), 0, row_bytes, nullptr, nullptr};
    arguments.Take("hostKvRef", host_kv->tensors[i],
                   {all->blocks.num_host_blocks, all->blocks.block_size, row_bytes}, &payload.host_kv,
                   kUint8);
    arguments.Take("newRows", new_rows->tensors[i], {count, 1, row_bytes}, &payload.new_rows, kUint8);
  }
  all->config = {sizeof(avsg_config), 1, 64, 8, 1, 2000, 2};
  const auto call = [all, count](void* workspace) {
    return Cpu().store(&all->config, &all->blocks, all->store_payloads, all->num_payloads, all->positions,
                       all->entries, static_cast<int32_t>(count), all->counters, workspace, nullptr);
  };
  return Prepare("aclnnAvsgStoreGetWorkspaceSize", arguments, call, workspace_bytes, executor);
}

int32_t aclnnAvsgGetWorkspaceSize(const aclTensor* topk, const aclTensor* verified, const aclTensor* lens,
                                  const aclTensor* leases, const aclTensor* rows,
                                  const aclTensor* block_table, const aclTensorList* host_kv,
                                  const aclTensorList* fresh, aclTensorList* device_kv, aclTensor* state,
                                  int64_t num_slots, int64_t num_queries, int64_t max_life, bool has_fresh,
                                  const aclTensor* slots, const aclTensor* miss_tokens,
                                  const aclTensor* miss_slots, const aclTensor* num_misses,
                                  const aclTensor* counters, const aclTensor* plan_rows,
                                  const aclTensor* plan_verified, const aclTensor* load_counters,
                                  uint64_t* workspace_bytes, aclOpExecutor** executor) {
  auto all = std::make_shared<Everything>();
  Arguments arguments;
  Record({num_slots, num_queries, max_life, has_fresh});
  SetLimits(num_queries, max_life, all.get());
  TakeState(state, num_slots, &arguments, all.get());
  TakeStep(topk, verified, lens, leases, rows, &arguments, all.get());
  const int64_t entries = all->step.num_entries;
  TakeMisses(miss_tokens, miss_slots, num_misses, plan_rows, plan_verified, entries,
             int64_t{all->step.num_queries} * all->config.top_k, &arguments, all.get());
  arguments.Take("slots", slots, {entries, all->step.num_queries, all->config.top_k}, &all->plan.slots);
  arguments.Take("counters", counters, {entries, 8}, &all->plan.counters);
  TakeCopies(block_table, host_kv, fresh, device_kv, has_fresh, &arguments, all.get());
  arguments.Take("loadCounters", load_counters, {2}, &all->counters);
  const auto call = [all](void* workspace) {
    return Cpu().fused(&all->config, &all->step, all->state, &all->plan, &all->blocks, all->payloads,
                       all->num_payloads, all->counters, workspace, nullptr);
  };
  return Prepare("aclnnAvsgGetWorkspaceSize", arguments, call, workspace_bytes, executor);
}

int32_t aclnnAvsgMatch(void* workspace, uint64_t bytes, aclOpExecutor* executor, void* stream) {
  return LaunchFake("aclnnAvsgMatch", workspace, bytes, executor, stream);
}
int32_t aclnnAvsgLoad(void* workspace, uint64_t bytes, aclOpExecutor* executor, void* stream) {
  return LaunchFake("aclnnAvsgLoad", workspace, bytes, executor, stream);
}
#ifndef FAKE_OLD_PACKAGE
int32_t aclnnAvsgStore(void* workspace, uint64_t bytes, aclOpExecutor* executor, void* stream) {
  return LaunchFake("aclnnAvsgStore", workspace, bytes, executor, stream);
}
#endif
int32_t aclnnAvsg(void* workspace, uint64_t bytes, aclOpExecutor* executor, void* stream) {
  return LaunchFake("aclnnAvsg", workspace, bytes, executor, stream);
}

}  // extern "C"
