// SPDX-License-Identifier: Apache-2.0
// Stands in for the CPU backend: writes down what the C ABI registers and launches, and runs nothing.
#include <cstdio>
#include <map>
#include <string>

#include "avsg_layout.h"
#include "launch.h"

namespace {

std::string lines;
std::map<const void*, std::string> registered;

// A kernel is known by how many arguments its entry has.
template <int kCount>
void Entry(void** args) {
  for (int i = 0; i < kCount; ++i) lines += (args[i] == nullptr ? "absent" : registered[args[i]]) + "\n";
}

const avsg_cpu::Kernels kRecorder = {"recorder", Entry<16>, Entry<15>, Entry<22>, Entry<9>};

}  // namespace

namespace avsg_cpu {

const Kernels& CurrentKernels() { return kRecorder; }
bool SetLevel(const char*) { return false; }
int NumHardwareThreads() { return 5; }

std::string Launch(int num_cores, Kernel kernel, void** args) {
  lines += "cores " + std::to_string(num_cores) + "\n";
  kernel(args);
  registered.clear();
  return "rule broken on purpose.";
}

void RegisterGm(const void* address, uint64_t bytes, const char* name, bool writable) {
  const std::string line = std::string(name) + " " + std::to_string(bytes) + (writable ? " writable" : "");
  lines += "gm " + line + "\n";
  registered[address] = line;
}

}  // namespace avsg_cpu

extern "C" const char* Recorded() { return lines.c_str(); }
extern "C" void Forget() { lines.clear(); }
