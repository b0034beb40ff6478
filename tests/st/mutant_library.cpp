// SPDX-License-Identifier: Apache-2.0
// A planted fault: the library at AVSG_REAL_LIBRARY, but the first two slots of every plan are exchanged.
#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "avsg.h"

namespace {

template <class Function>
Function* Real(Function*, const char* name) {
  static void* library = dlopen(AVSG_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

#define FORWARD(name, ...) Real(&name, #name)(__VA_ARGS__)

extern "C" {

uint32_t avsg_abi_version(void) { return FORWARD(avsg_abi_version); }
const char* avsg_library_name(void) { return FORWARD(avsg_library_name); }
const char* avsg_last_error(void) { return FORWARD(avsg_last_error); }

int avsg_sizes(const avsg_config* config, avsg_size_report* report) {
  return FORWARD(avsg_sizes, config, report);
}

int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
               void* workspace, void* stream) {
  const int error = FORWARD(avsg_match, config, step, state, plan, workspace, stream);
  std::swap(plan->slots[0], plan->slots[1]);
  return error;
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

int avsg_store(const avsg_config*, const avsg_blocks*, const avsg_store_payload*, int32_t, const int32_t*,
               const int32_t*, int32_t, int32_t*, void*, void*) {
  return AVSG_UNSUPPORTED;
}

int avsg_host_alloc(int64_t, const avsg_host_options*, void**, void**) { return AVSG_UNSUPPORTED; }
int avsg_host_free(void*) { return AVSG_UNSUPPORTED; }

}  // extern "C"
