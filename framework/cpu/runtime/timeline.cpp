// SPDX-License-Identifier: Apache-2.0
// Checked build: modelled cycles. The scalar unit issues in order, each pipe works in order, flags and
// barriers join them. Figures are those of the A2 cost model; several are assumed, none was measured on a
// chip.
#if AVSG_CPU_CHECKED

#include <algorithm>

#include "checked.h"

namespace avsg_cpu {
namespace {

constexpr double kVectorHead = 24.0;
constexpr double kBarrierCycles = 20.0;  // also a wait for a flag
constexpr double kDmaIssue = 20.6;
constexpr double kDmaBytesPerCycle = 23.4;  // 43 GB/s at 1.85 GHz
constexpr double kDmaLatency = 600.0;       // device memory

void Spend(double cycles) { Self().counts.serial_cycles += cycles; }

}  // namespace

void StartTimeline(CheckedCore* core) {
  std::fill(core->now, core->now + kNumPipes, 0.0);
  std::fill(core->done, core->done + kNumPipes, 0.0);
}

void SpendVector(double cycles) {
  CheckedCore& core = Self();
  core.now[kVector] = std::max(core.now[kVector], core.now[kScalar]) + kVectorHead + cycles;
  core.done[kVector] = core.now[kVector];
  Spend(kVectorHead + cycles);
}

void SpendScalar(double cycles) {
  Self().now[kScalar] += cycles;
  Self().done[kScalar] = Self().now[kScalar];
  Spend(cycles);
}

void SpendBarrier(Pipe pipe, bool all) {
  CheckedCore& core = Self();
  if (all) {
    ResumeAt(&core, EndOf(core) + kBarrierCycles);
  } else {
    core.now[pipe] = std::max(core.done[pipe], core.now[kScalar]) + kBarrierCycles;
    core.done[pipe] = core.now[pipe];
  }
  Spend(kBarrierCycles);
}

void SpendDma(Pipe pipe, uint64_t bytes) {
  CheckedCore& core = Self();
  const double cycles = kDmaIssue + static_cast<double>(bytes) / kDmaBytesPerCycle;
  core.now[pipe] = std::max(core.now[pipe], core.now[kScalar]) + cycles;
  core.done[pipe] = core.now[pipe] + kDmaLatency;
  Spend(cycles + kDmaLatency);
}

void ScalarFollows(Pipe pipe) {
  CheckedCore& core = Self();
  core.now[kScalar] = std::max(core.now[kScalar], core.done[pipe]);
}

double EventTime(Pipe from) { return std::max(Self().done[from], Self().now[kScalar]); }

void WaitUntil(Pipe to, double time) {
  CheckedCore& core = Self();
  core.now[to] = std::max({core.now[to], core.now[kScalar], time}) + kBarrierCycles;
  core.done[to] = std::max(core.done[to], core.now[to]);
  Spend(kBarrierCycles);
}

double EndOf(const CheckedCore& core) { return *std::max_element(core.done, core.done + kNumPipes); }

void ResumeAt(CheckedCore* core, double time) {
  std::fill(core->now, core->now + kNumPipes, time);
  std::fill(core->done, core->done + kNumPipes, time);
}

}  // namespace avsg_cpu

#endif  // AVSG_CPU_CHECKED
