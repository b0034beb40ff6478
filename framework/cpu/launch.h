// SPDX-License-Identifier: Apache-2.0
// Runs kernels on the CPU: the interface between the C ABI and the CPU backend.
#ifndef AVSG_CPU_LAUNCH_H
#define AVSG_CPU_LAUNCH_H

#include <cstdint>
#include <string>

namespace avsg_cpu {

// A kernel with its arguments unpacked from args[0..n-1], each a GM_ADDR.
using Kernel = void (*)(void** args);

// One set of kernels, compiled for one level of the CPU's instruction set. Arguments as in the entry points.
struct Kernels {
  const char* level;
  Kernel match;
  Kernel load;
  Kernel step;
  Kernel store;
};

// The set in use: the best that this CPU can run, unless SetLevel chose another.
const Kernels& CurrentKernels();
bool SetLevel(const char* level);

// Number of hardware threads, 1..48.
int NumHardwareThreads();

// Runs kernel on cores 0..num_cores-1 and returns when all have ended. One launch at a time per process;
// callers queue. Empty when all went well; otherwise (checked build only) a sentence with the rule, the
// operation and its line.
std::string Launch(int num_cores, Kernel kernel, void** args);

// Checked build: memory that the next launch may touch; forgotten when it ends. Others ignore it. Two names
// for the same bytes are one buffer, writable if one of them is.
void RegisterGm(const void* address, uint64_t bytes, const char* name, bool writable);

}  // namespace avsg_cpu

#endif  // AVSG_CPU_LAUNCH_H
