// SPDX-License-Identifier: Apache-2.0
// A planted fault: the library at AVSG_REAL_LIBRARY without CLOSE, so that slots of drafts stay filled after
// the step.
#include <dlfcn.h>

#include <cstring>

#include "avsg.h"
#include "avsg_layout.h"

namespace {

template <class Function>
Function* Real(Function*, const char* name) {
  static void* library = dlopen(AVSG_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void UndoClose(const avsg_config& config, const avsg_plan& plan, char* state) {
  const int64_t slots = config.num_slots;
  avsg_size_report report{};
  report.struct_bytes = sizeof(report);
  Real(&avsg_sizes, "avsg_sizes")(&config, &report);
  const int64_t width = int64_t{plan.num_queries} * config.top_k;
  for (int32_t entry = 0; entry < plan.num_entries; ++entry) {
    if (plan.rows[entry] < 0) continue;
    char* row = state + plan.rows[entry] * report.state_stride_bytes;
    int32_t* header = reinterpret_cast<int32_t*>(row);
    int32_t* token = header + 128;
    float* stamp = reinterpret_cast<float*>(token + slots + 8);
    for (int32_t k = 0; k < plan.num_misses[entry]; ++k) {
      const int32_t x = plan.miss_tokens[entry * width + k];
      const int32_t slot = plan.miss_slots[entry * width + k];
      if (x < plan.verified_lens[entry]) continue;
      token[slot] = x;
      stamp[slot] = static_cast<float>(header[3]);
    }
  }
}

}  // namespace

#define FORWARD(name, ...) Real(&name, #name)(__VA_ARGS__)

extern "C" {

const char* avsg_last_error(void) { return FORWARD(avsg_last_error); }

int avsg_sizes(const avsg_config* config, avsg_size_report* report) {
  return FORWARD(avsg_sizes, config, report);
}

int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
               void* workspace, void* stream) {
  const int code = FORWARD(avsg_match, config, step, state, plan, workspace, stream);
  if (code == AVSG_OK) UndoClose(*config, *plan, static_cast<char*>(state));
  return code;
}

int avsg_load(const avsg_config* config, const avsg_plan* plan, const avsg_blocks* blocks,
              const avsg_payload* payloads, int32_t num_payloads, void* state, int32_t* load_counters,
              void* workspace, void* stream) {
  return FORWARD(avsg_load, config, plan, blocks, payloads, num_payloads, state, load_counters, workspace,
                 stream);
}

int avsg_step_fused(const avsg_config*, const avsg_step*, void*, avsg_plan*, const avsg_blocks*,
                    const avsg_payload*, int32_t, int32_t*, void*, void*) {
  return AVSG_UNSUPPORTED;
}

int avsg_store(const avsg_config* config, const avsg_blocks* blocks, const avsg_store_payload* payloads,
               int32_t num_payloads, const int32_t* positions, const int32_t* entries, int32_t num_new_rows,
               int32_t* store_counters, void* workspace, void* stream) {
  return FORWARD(avsg_store, config, blocks, payloads, num_payloads, positions, entries, num_new_rows,
                 store_counters, workspace, stream);
}

}  // extern "C"
