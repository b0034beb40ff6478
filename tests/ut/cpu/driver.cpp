// SPDX-License-Identifier: Apache-2.0
// The C interface of the test driver: runs a registered kernel by name.
#include "driver.h"

#include <cstdio>
#include <cstring>

#include "avsg_cpu.h"

Registry& Kernels() {
  static Registry registry;
  return registry;
}

extern "C" {

// in and out: 64 KiB each. The sentence of a broken rule goes to message. Returns 0, or 1 with a message.
int run(const char* name, int num_cores, void* in, void* out, int64_t* parameters, char* message,
        int message_bytes) {
  const auto found = Kernels().find(name);
  if (found == Kernels().end()) {
    std::snprintf(message, static_cast<size_t>(message_bytes), "no kernel %s", name);
    return 1;
  }
  avsg_cpu::RegisterGm(in, kHalf, "in", false);
  avsg_cpu::RegisterGm(out, kHalf, "out", true);
  avsg_cpu::RegisterGm(parameters, 16 * sizeof(int64_t), "parameters", false);
  void* args[] = {in, out, parameters};
  const std::string sentence = avsg_cpu::Launch(num_cores, found->second, args);
  std::snprintf(message, static_cast<size_t>(message_bytes), "%s", sentence.c_str());
  return sentence.empty() ? 0 : 1;
}

int hardware_threads(void) { return avsg_cpu::NumHardwareThreads(); }

}  // extern "C"
