// SPDX-License-Identifier: Apache-2.0
// A planted fault: the library at AVSG_REAL_LIBRARY without CLOSE, so that slots of drafts stay filled after
// the step.
#include "avsg_layout.h"
#include "real_library.h"

namespace {

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

extern "C" int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
                          void* workspace, void* stream) {
  const int code = FORWARD(avsg_match, config, step, state, plan, workspace, stream);
  if (code == AVSG_OK) UndoClose(*config, *plan, static_cast<char*>(state));
  return code;
}
