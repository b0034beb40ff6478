// SPDX-License-Identifier: Apache-2.0
// The pause of a spinning thread.
#ifndef AVSG_CPU_SPIN_H
#define AVSG_CPU_SPIN_H

namespace avsg_cpu {

static inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace avsg_cpu

#endif  // AVSG_CPU_SPIN_H
