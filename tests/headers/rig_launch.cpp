// SPDX-License-Identifier: Apache-2.0
// framework/cpu/launch.h on the rig: the kernels, compiled against the real headers, run in one forked
// process per core.
#include <string>
#include <vector>

#include "ascemu.cpp"  // its event flags and hazard counts are internal
#include "avsg_cpu.h"
#include "launch.h"

namespace avsg_cpu {

extern const Kernels kKernels_headers;

namespace {

constexpr uint64_t kGuardBytes =
    512;  // before and behind each buffer, which so starts as aligned as on a device
constexpr uint8_t kGuard = 0xA5;
constexpr int kNumPhases = 32;
constexpr int kEndMark = 31;  // AscEmuLaunch keeps the end of core 0 there

struct Buffer {
  uint8_t* data;
  uint64_t bytes;
  std::string name;
  bool writable;
  uint8_t* shared;
};

// What the cores of one launch broke; lives in memory that they share.
struct Broken {
  std::atomic<int> hazards[3];  // read after write, write after write, write after read
  std::atomic<int> open_events;
};

std::vector<Buffer> buffers;
avsg_cpu_core_counts core0 = {};
int last_num_cores = 0;

uint64_t RoomOf(uint64_t bytes) {
  return kGuardBytes + (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes;
}

uint64_t RoomOfAll() {
  uint64_t room = kGuardBytes;
  for (const Buffer& buffer : buffers) room += RoomOf(buffer.bytes);
  return room;
}

void* SharedOf(const void* pointer) {
  for (const Buffer& buffer : buffers) {
    if (buffer.data == pointer) return buffer.shared;
  }
  return nullptr;
}

// Copies all buffers to memory that forked cores share, and makes tensor lists point there.
void Share(uint8_t* arena) {
  memset(arena, kGuard, RoomOfAll());
  for (Buffer& buffer : buffers) {
    buffer.shared = arena + kGuardBytes;
    memcpy(buffer.shared, buffer.data, buffer.bytes);
    arena += RoomOf(buffer.bytes);
  }
  for (Buffer& buffer : buffers) {
    if (buffer.name != "tensor list") continue;
    uint64_t* words = reinterpret_cast<uint64_t*>(buffer.shared);
    for (uint64_t i = words[0] / 8; i < buffer.bytes / 8; ++i) {
      words[i] = reinterpret_cast<uint64_t>(SharedOf(reinterpret_cast<void*>(words[i])));
    }
  }
}

// Brings the outputs back; names a buffer that changed though it is an input, or whose guard changed.
std::string Unshare() {
  std::string error;
  for (const Buffer& buffer : buffers) {
    const uint8_t* end = buffer.shared + RoomOf(buffer.bytes);
    for (const uint8_t* at = buffer.shared + buffer.bytes; at < end; ++at) {
      if (*at != kGuard) error = "a core wrote behind the end of " + buffer.name;
    }
    if (buffer.writable) {
      memcpy(buffer.data, buffer.shared, buffer.bytes);
    } else if (buffer.name != "tensor list" && memcmp(buffer.data, buffer.shared, buffer.bytes) != 0) {
      error = "a core wrote " + buffer.name + ", which is an input";
    }
  }
  return error;
}

int NumArguments(Kernel kernel) {
  const Kernels& kernels = CurrentKernels();
  return kernel == kernels.match ? 16 : kernel == kernels.load ? 15 : kernel == kernels.step ? 22 : 9;
}

// On a core, when its kernel has ended.
void Report(Broken* broken) {
  for (int kind = 0; kind < 3; ++kind) broken->hazards[kind] += hzN[kind];
  for (auto& from : flags) {
    for (auto& to : from) {
      for (int flag : to) broken->open_events += flag;
    }
  }
}

void KeepCounts(const EmuCnt* phases, const AscEmuStats& stats) {
  const EmuCnt& all = phases[0];
  core0 = {};
  core0.vector_instructions = all.vec;
  core0.vector_repeats = all.rep;
  core0.gathered_words = all.ge;
  core0.scalar_loads = all.ld;
  core0.scalar_stores = all.st;
  core0.dmas = all.dma;
  core0.barriers = all.bar;
  core0.flags = all.flag;
  core0.syncs = stats.syncs;
  core0.serial_cycles = all.cyc_v;
  core0.pipe_cycles = phases[kEndMark].cyc_v;
}

std::string Run(int num_cores, Kernel kernel, void** args) {
  auto* phases = static_cast<EmuCnt*>(AscEmuAlloc(sizeof(EmuCnt) * kNumPhases));
  auto* broken = static_cast<Broken*>(AscEmuAlloc(sizeof(Broken)));
  EmuPhaseOut(phases);
  AscEmuStats stats = {};
  const int failed = AscEmuLaunch(
      static_cast<uint32_t>(num_cores),
      [&] {
        kernel(args);
        Report(broken);
      },
      &stats);
  last_num_cores = num_cores;
  KeepCounts(phases, stats);
  std::string error;
  const int* hazards = reinterpret_cast<const int*>(broken->hazards);
  if (failed != 0) error = std::to_string(failed) + " cores ended early; stderr says why";
  if (hazards[0] + hazards[1] + hazards[2] != 0) {
    error = "hazards: " + std::to_string(hazards[0]) + " reads after write, " + std::to_string(hazards[1]) +
            " writes after write, " + std::to_string(hazards[2]) +
            " writes after read; stderr shows the first";
  }
  if (error.empty() && broken->open_events != 0) error = "an event was set and never waited for";
  munmap(phases, sizeof(EmuCnt) * kNumPhases);
  munmap(broken, sizeof(Broken));
  return error;
}

}  // namespace

const Kernels& CurrentKernels() { return kKernels_headers; }
bool SetLevel(const char*) { return false; }
int NumHardwareThreads() { return 4; }

void RegisterGm(const void* address, uint64_t bytes, const char* name, bool writable) {
  uint8_t* data = static_cast<uint8_t*>(const_cast<void*>(address));
  for (Buffer& buffer : buffers) {
    if (buffer.data != data) continue;
    buffer.writable = buffer.writable || writable;
    return;
  }
  buffers.push_back({data, bytes, name, writable, nullptr});
}

std::string Launch(int num_cores, Kernel kernel, void** args) {
  const uint64_t room = RoomOfAll();
  auto* arena = static_cast<uint8_t*>(AscEmuAlloc(room));
  Share(arena);
  std::vector<void*> shared_args;
  for (int i = 0; i < NumArguments(kernel); ++i) shared_args.push_back(SharedOf(args[i]));
  std::string error = Run(num_cores, kernel, shared_args.data());
  const std::string damage = Unshare();
  munmap(arena, room);
  buffers.clear();
  return error.empty() ? damage : error;
}

}  // namespace avsg_cpu

extern "C" {

// Counts of core 0 only.
int avsg_cpu_counts(avsg_cpu_core_counts* out, int num_cores) {
  for (int i = 0; i < num_cores; ++i) out[i] = i == 0 ? avsg_cpu::core0 : avsg_cpu_core_counts{};
  return avsg_cpu::last_num_cores;
}

}  // extern "C"
