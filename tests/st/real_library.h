// SPDX-License-Identifier: Apache-2.0
// For planted faults: the C ABI forwarded to the library at AVSG_REAL_LIBRARY, but for avsg_match, which the
// fault defines, and the fused step, which would pass it by.
#ifndef AVSG_TESTS_REAL_LIBRARY_H
#define AVSG_TESTS_REAL_LIBRARY_H

#include <dlfcn.h>

#include "avsg.h"

template <class Function>
Function* Real(Function*, const char* name) {
  static void* library = dlopen(AVSG_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

#define FORWARD(name, ...) Real(&name, #name)(__VA_ARGS__)

extern "C" {

uint32_t avsg_abi_version(void) { return FORWARD(avsg_abi_version); }
const char* avsg_library_name(void) { return FORWARD(avsg_library_name); }
const char* avsg_last_error(void) { return FORWARD(avsg_last_error); }

int avsg_sizes(const avsg_config* config, avsg_size_report* report) {
  return FORWARD(avsg_sizes, config, report);
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

int avsg_host_alloc(int64_t bytes, const avsg_host_options* options, void** host, void** device_alias) {
  return FORWARD(avsg_host_alloc, bytes, options, host, device_alias);
}
int avsg_host_free(void* host) { return FORWARD(avsg_host_free, host); }

}  // extern "C"

#endif  // AVSG_TESTS_REAL_LIBRARY_H
