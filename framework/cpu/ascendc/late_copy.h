// SPDX-License-Identifier: Apache-2.0
// Fast build: copies into UB happen when somebody waits for them; until then their source is on its way into
// the cache. A kernel that does not wait reads old bytes, as on the chip.
#ifndef AVSG_CPU_ASCENDC_LATE_COPY_H
#define AVSG_CPU_ASCENDC_LATE_COPY_H

#include <cstring>

#include "../runtime/core.h"

namespace avsg_cpu {
inline namespace AVSG_CPU_LEVEL {

constexpr uint64_t kPrefetchBytes = 2048;  // of a copy; longer ones the hardware prefetcher follows by itself

// Rows are short and many: a loop over whole cache lines costs less than a call.
inline void CopyLines(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  if (bytes % 64 != 0 || bytes > kPrefetchBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (uint64_t at = 0; at < bytes; at += 64) std::memcpy(to + at, from + at, 64);
}

// Carries out the oldest copies until `count` have been, since the launch began.
inline void CarryOut(LateCopies& late, uint32_t count) {
  for (; late.num_done != count; ++late.num_done) {
    const LateCopy& copy = late.copies[late.num_done % kMaxLateCopies];
    CopyLines(copy.to, copy.from, copy.bytes);
  }
}
inline void CarryOutAll() { CarryOut(this_core->late, this_core->late.num_queued); }

inline void CopyLate(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  LateCopies& late = this_core->late;
  if (late.num_queued - late.num_done == kMaxLateCopies) CarryOut(late, late.num_done + 1);
  const uint8_t* end = from + (bytes < kPrefetchBytes ? bytes : kPrefetchBytes);
  for (const uint8_t* line = from; line < end; line += 128) {
    __builtin_prefetch(line);
    __builtin_prefetch(line + 64);  // at most one line too many, which is harmless
  }
  late.copies[late.num_queued++ % kMaxLateCopies] = {to, from, bytes};
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace avsg_cpu

#endif  // AVSG_CPU_ASCENDC_LATE_COPY_H
