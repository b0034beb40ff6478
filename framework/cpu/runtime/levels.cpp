// SPDX-License-Identifier: Apache-2.0
// Chooses the set of kernels for this CPU.
#include <cstring>

#include "../avsg_cpu.h"
#include "../launch.h"

namespace avsg_cpu {

// Defined by kernels.cpp, once per level that the build has.
#if AVSG_CPU_CHECKED
extern const Kernels kKernels_checked;
#elif defined(__x86_64__)
extern const Kernels kKernels_x86_64_v2;
extern const Kernels kKernels_x86_64_v3;
#else
extern const Kernels kKernels_portable;
#endif

namespace {

// The levels that this CPU can run, best first, then nullptr.
const Kernels* const* Levels() {
#if AVSG_CPU_CHECKED
  static const Kernels* const levels[] = {&kKernels_checked, nullptr};
  return levels;
#elif defined(__x86_64__)
  static const Kernels* const levels[] = {&kKernels_x86_64_v3, &kKernels_x86_64_v2, nullptr};
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("popcnt");
  return v3 ? levels : levels + 1;
#else
  static const Kernels* const levels[] = {&kKernels_portable, nullptr};
  return levels;
#endif
}

const Kernels*& Current() {
  static const Kernels* current = Levels()[0];
  return current;
}

}  // namespace

const Kernels& CurrentKernels() { return *Current(); }

bool SetLevel(const char* level) {
  for (const Kernels* const* candidate = Levels(); *candidate != nullptr; ++candidate) {
    if (std::strcmp((*candidate)->level, level) != 0) continue;
    Current() = *candidate;
    return true;
  }
  return false;
}

}  // namespace avsg_cpu

extern "C" {
const char* avsg_cpu_level(void) { return avsg_cpu::CurrentKernels().level; }
int avsg_cpu_set_level(const char* level) { return avsg_cpu::SetLevel(level) ? 0 : 1; }
}
