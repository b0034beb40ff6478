// SPDX-License-Identifier: Apache-2.0
// Stands in for libavsg_npu.so: the CPU library at AVSG_REAL_LIBRARY, but its calls want a stream and more
// workspace, and the device sees host memory at another address than the CPU.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <initializer_list>

#include "avsg.h"

#define REAL(name) \
  reinterpret_cast<decltype(&name)>(dlsym(dlopen(AVSG_REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL), #name))
#define REFUSE_WITHOUT(stream) \
  if ((stream) == nullptr) return AVSG_INTERNAL

extern "C" {

uint32_t avsg_abi_version(void) { return AVSG_ABI_VERSION; }
const char* avsg_library_name(void) { return "npu"; }
const char* avsg_last_error(void) { return REAL(avsg_last_error)(); }

int avsg_sizes(const avsg_config* config, avsg_size_report* report) {
  const int error = REAL(avsg_sizes)(config, report);
  report->workspace_bytes += 4096;
  return error;
}

int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
               void* workspace, void* stream) {
  REFUSE_WITHOUT(stream);
  return REAL(avsg_match)(config, step, state, plan, workspace, nullptr);
}

int avsg_load(const avsg_config* config, const avsg_plan* plan, const avsg_blocks* blocks,
              const avsg_payload* payloads, int32_t num_payloads, void* state, int32_t* load_counters,
              void* workspace, void* stream) {
  REFUSE_WITHOUT(stream);
  return REAL(avsg_load)(config, plan, blocks, payloads, num_payloads, state, load_counters, workspace,
                         nullptr);
}

int avsg_step_fused(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
                    const avsg_blocks* blocks, const avsg_payload* payloads, int32_t num_payloads,
                    int32_t* load_counters, void* workspace, void* stream) {
  REFUSE_WITHOUT(stream);
  return REAL(avsg_step_fused)(config, step, state, plan, blocks, payloads, num_payloads, load_counters,
                               workspace, nullptr);
}

int avsg_store(const avsg_config* config, const avsg_blocks* blocks, const avsg_store_payload* payloads,
               int32_t num_payloads, const int32_t* positions, const int32_t* entries, int32_t num_new_rows,
               int32_t* store_counters, void* workspace, void* stream) {
  REFUSE_WITHOUT(stream);
  return REAL(avsg_store)(config, blocks, payloads, num_payloads, positions, entries, num_new_rows,
                          store_counters, workspace, nullptr);
}

// Two mappings of one file in memory. Neither is unmapped: tests are short.
int avsg_host_alloc(int64_t bytes, const avsg_host_options*, void** host, void** device_alias) {
  const int file = memfd_create("avsg", 0);
  if (file < 0 || ftruncate(file, bytes) != 0) return AVSG_OUT_OF_MEMORY;
  for (void** address : {host, device_alias})
    *address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return AVSG_OK;
}

int avsg_host_free(void*) { return AVSG_OK; }

}  // extern "C"
