// SPDX-License-Identifier: Apache-2.0
// One vector core as kernels see it: its buffer, its number, its counts. Shared by all levels, so it defines
// no function.
#ifndef AVSG_CPU_CORE_H
#define AVSG_CPU_CORE_H

#include <cstdint>

#include "../avsg_cpu.h"

namespace avsg_cpu {

constexpr uint32_t kUbBytes = 192 * 1024;
constexpr uint32_t kUsableUbBytes = 184 * 1024;  // Select keeps its scratch in the rest
constexpr int kMaxCores = 64;
constexpr int kNumMarks = 32;

// Copies into UB that were issued and not yet carried out; see ascendc/late_copy.h.
constexpr uint32_t kMaxLateCopies = 8;
struct LateCopy {
  uint8_t* to;
  const uint8_t* from;
  uint64_t bytes;
};
struct LateCopies {
  LateCopy copies[kMaxLateCopies];
  uint32_t num_queued;
  uint32_t num_done;
  uint32_t flagged[4][8];  // num_queued when MTE2 set event [to][id]
};

struct Core {
  uint8_t* ub;  // kUbBytes
  LateCopies late;
  int index;
  int num_cores;
  avsg_cpu_core_counts counts;
};

#define AVSG_CPU_HIDDEN __attribute__((visibility("hidden")))

extern AVSG_CPU_HIDDEN __thread Core* this_core __attribute__((tls_model("initial-exec")));
extern AVSG_CPU_HIDDEN bool counting;

// Returns when all cores of the launch have arrived.
AVSG_CPU_HIDDEN void SyncCores();

// Copies the counts of core 0 to mark `id`, 0..31.
void Mark(int id);

}  // namespace avsg_cpu

#endif  // AVSG_CPU_CORE_H
