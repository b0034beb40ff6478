// SPDX-License-Identifier: Apache-2.0
// Test driver: kernels registered by name, and the frame that most of them share.
#ifndef AVSG_TESTS_CPU_DRIVER_H
#define AVSG_TESTS_CPU_DRIVER_H

#include <map>
#include <string>

#include "kernel_operator.h"
#include "launch.h"

using namespace AscendC;

using Registry = std::map<std::string, avsg_cpu::Kernel>;
Registry& Kernels();

struct Registered {
  Registered(const char* name, avsg_cpu::Kernel kernel) { Kernels()[name] = kernel; }
};

#define KERNEL(name)                                      \
  static void name(void** args);                          \
  static const Registered registered_##name(#name, name); \
  static void name(void** args)

inline GlobalTensor<int32_t> Global(void* address) {
  GlobalTensor<int32_t> tensor;
  tensor.SetGlobalBuffer(static_cast<int32_t*>(address));
  return tensor;
}

// GM: in (64 KiB), out (64 KiB), parameters int64 [16]. UB: the same two, then scratch. Operands A to D are
// 16 KiB each.
constexpr uint32_t kHalf = 64 * 1024;
constexpr uint32_t kOperand = 16 * 1024;

struct Frame {
  explicit Frame(void** args) : p(static_cast<const int64_t*>(args[2])) {
    pipe.InitBuffer(ub, avsg_cpu::kUsableUbBytes);
    in.SetGlobalBuffer(static_cast<uint8_t*>(args[0]), kHalf);
    out.SetGlobalBuffer(static_cast<uint8_t*>(args[1]), kHalf);
    DataCopy(ub.GetWithOffset<uint8_t>(kHalf, 0), in, kHalf);
    DataCopy(ub.GetWithOffset<uint8_t>(kHalf, kHalf), out, kHalf);
    PipeBarrier<PIPE_ALL>();
  }
  void Finish() {
    PipeBarrier<PIPE_ALL>();
    DataCopy(out, ub.GetWithOffset<uint8_t>(kHalf, kHalf), kHalf);
  }
  template <typename T>
  LocalTensor<T> Operand(int i) {
    return ub.GetWithOffset<T>(kOperand / sizeof(T), i * kOperand);
  }
  template <typename T>
  LocalTensor<T> Out() {
    return ub.GetWithOffset<T>(kHalf / sizeof(T), kHalf);
  }
  template <typename T>
  LocalTensor<T> Scratch() {
    return ub.GetWithOffset<T>(32 * 1024 / sizeof(T), 2 * kHalf);
  }

  const int64_t* p;
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  GlobalTensor<uint8_t> in;
  GlobalTensor<uint8_t> out;
};

#endif  // AVSG_TESTS_CPU_DRIVER_H
