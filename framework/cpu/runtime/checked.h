// SPDX-License-Identifier: Apache-2.0
// The checked build's view of a core: what each pipe has been given and knows, what each byte of its buffer
// holds.
#ifndef AVSG_CPU_CHECKED_H
#define AVSG_CPU_CHECKED_H

#ifndef AVSG_CPU_LEVEL
#define AVSG_CPU_LEVEL checked
#endif

#include <cstdint>
#include <string>
#include <vector>

#include "../ascendc/instruction.h"

namespace avsg_cpu {

constexpr uint32_t kUbBlock = 32;

// Per pipe, how many of its instructions are known to be complete.
struct Clock {
  uint32_t at[kNumPipes];
};

struct Event {
  bool set;
  Clock known;
  double time;
  Site site;
};

// Last access of each pipe to 32 bytes of the unified buffer, as instruction numbers from 1.
struct UbShadow {
  uint32_t written[kNumPipes];
  uint32_t read[kNumPipes];
};

struct Issued {
  const char* name;
  Site site;
};

struct CheckedCore : Core {
  std::vector<uint8_t> buffer;            // kUbBytes and room to align
  std::vector<uint8_t> initialised;       // per byte of the buffer
  std::vector<UbShadow> blocks;           // per 32 bytes of the buffer
  std::vector<Issued> issued[kNumPipes];  // all instructions, in order
  Clock known[kNumPipes];                 // what the next instruction of a pipe may rely on
  Event events[kNumPipes][kNumPipes][8];
  uint32_t epoch;          // SyncAll passed so far
  double now[kNumPipes];   // modelled cycles at which a pipe is free
  double done[kNumPipes];  // and at which all it did has arrived

  uint32_t Count(Pipe pipe) const { return static_cast<uint32_t>(issued[pipe].size()); }
};

inline CheckedCore& Self() { return *static_cast<CheckedCore*>(this_core); }

// Ends the launch with a sentence; does not return.
[[noreturn]] void Violate(const char* rule, const char* name, Site site, const std::string& detail);
std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Where(Site site);

// hazards.cpp
struct Party {
  Pipe pipe;
  const char* name;
  Site site;
};
// Whether pipe `by` may rely on instruction `number` of pipe `of`.
bool Knows(const CheckedCore& core, Pipe by, Pipe of, uint32_t number);
std::string Since(const CheckedCore& core, Pipe pipe, uint32_t number);  // names that instruction
[[noreturn]] void Report(const char* rule, const Party& party, const char* where, uint64_t place,
                         const char* verb, const std::string& other);
uint32_t IssueTo(Pipe pipe, const char* name, Site site);
void OrderUb(Pipe pipe, const char* name, Site site, uint64_t offset, uint64_t bytes, bool write);
void CheckPending(const CheckedCore& core);  // at the end of a core

// device_order.cpp
void StartDeviceOrder();  // at the start of a launch
// Two cores may write the same bytes to one place without an order: the result is the same.
enum GmAccess { kRead, kNewBytes, kSameBytes };
void OrderGm(Pipe pipe, const char* name, Site site, uint64_t address, uint64_t bytes, GmAccess access);

// registry.cpp
void CheckGm(const char* name, Site site, const void* address, uint64_t bytes, bool write);
void ForgetGm();

// fibers.cpp
void WaitForCores(Site site);  // the fiber sleeps until every core has come

// timeline.cpp
void StartTimeline(CheckedCore* core);
void SpendVector(double cycles);
void SpendScalar(double cycles);
void SpendBarrier(Pipe pipe, bool all);
void SpendDma(Pipe pipe, uint64_t bytes);
void ScalarFollows(Pipe pipe);
double EventTime(Pipe from);
void WaitUntil(Pipe to, double time);
double EndOf(const CheckedCore& core);
void ResumeAt(CheckedCore* core, double time);

constexpr double kUbScalarCycles = 11.3;
constexpr double kGmScalarCycles = 200.0;
constexpr double kSyncCycles = 1850.0;

}  // namespace avsg_cpu

#endif  // AVSG_CPU_CHECKED_H
