// SPDX-License-Identifier: Apache-2.0
// Checked build: cores are fibers of one thread, run one after another in a shuffled order that the seed
// decides.
#if AVSG_CPU_CHECKED

#include <pthread.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "../launch.h"
#include "checked.h"

namespace avsg_cpu {

__thread Core* this_core __attribute__((tls_model("initial-exec"))) = nullptr;
bool counting = true;

namespace {

constexpr size_t kStackBytes = 512 * 1024;
constexpr uint8_t kPoison = 0xA5;

enum class State { kReady, kWaiting, kEnded };

struct Fiber {
  CheckedCore core;
  ucontext_t context;
  std::vector<uint8_t> stack;
  State state = State::kReady;
  Site waits_at;
};

struct Launched {
  std::mutex mutex;
  std::vector<std::unique_ptr<Fiber>> fibers;
  int num_cores = 0;
  ucontext_t scheduler;
  Fiber* running = nullptr;
  Kernel kernel = nullptr;
  void** args = nullptr;
  std::string violation;
  uint64_t seed = 1;
  uint64_t random = 1;
  avsg_cpu_core_counts marks[kNumMarks] = {};
};

Launched& Current() {
  static Launched* launched = new Launched;
  return *launched;
}

void Enter() {
  Launched& launch = Current();
  launch.kernel(launch.args);
  CheckPending(Self());
  launch.running->state = State::kEnded;
  swapcontext(&launch.running->context, &launch.scheduler);
}

void Prepare(Fiber* fiber, int index, int num_cores) {
  CheckedCore& core = fiber->core;
  core.buffer.assign(kUbBytes + 64, kPoison);
  core.initialised.assign(kUbBytes, 0);
  core.blocks.assign(kUbBytes / kUbBlock, UbShadow{});
  for (auto& issued : core.issued) issued.clear();
  std::memset(static_cast<void*>(core.known), 0, sizeof(core.known));
  for (auto& from : core.events) {
    for (auto& to : from) std::fill(to, to + 8, Event{});
  }
  core.epoch = 1;
  core.ub = reinterpret_cast<uint8_t*>((reinterpret_cast<uint64_t>(core.buffer.data()) + 63) / 64 * 64);
  core.index = index;
  core.num_cores = num_cores;
  core.counts = avsg_cpu_core_counts{};
  StartTimeline(&core);
  fiber->state = State::kReady;
  fiber->stack.resize(kStackBytes);
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.data();
  fiber->context.uc_stack.ss_size = fiber->stack.size();
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, Enter, 0);
}

uint64_t NextRandom(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Runs every ready core until it waits or ends; false once a rule is broken.
bool RunPhase(Launched& launch) {
  std::vector<Fiber*> order;
  for (int i = 0; i < launch.num_cores; ++i) {
    if (launch.fibers[i]->state == State::kReady) order.push_back(launch.fibers[i].get());
  }
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[NextRandom(&launch.random) % i]);
  for (Fiber* fiber : order) {
    launch.running = fiber;
    this_core = &fiber->core;
    swapcontext(&launch.scheduler, &fiber->context);
    this_core = nullptr;
    if (!launch.violation.empty()) return false;
  }
  return true;
}

// After a phase: all have ended (false), or all wait and go on (true).
bool PassBarrier(Launched& launch) {
  int waiting = 0;
  Fiber* waiter = nullptr;
  double latest = 0;
  for (int i = 0; i < launch.num_cores; ++i) {
    Fiber* fiber = launch.fibers[i].get();
    if (fiber->state != State::kWaiting) continue;
    ++waiting;
    waiter = fiber;
    latest = std::max(latest, EndOf(fiber->core));
  }
  if (waiting == 0) return false;
  if (waiting != launch.num_cores) {
    launch.violation = Format(
        "rule sync-deadlock: SyncAll at %s: core %d waits for ever, %d of %d cores have ended",
        Where(waiter->waits_at).c_str(), waiter->core.index, launch.num_cores - waiting, launch.num_cores);
    return false;
  }
  for (int i = 0; i < launch.num_cores; ++i) {
    Fiber* fiber = launch.fibers[i].get();
    fiber->state = State::kReady;
    ++fiber->core.epoch;
    fiber->core.counts.serial_cycles += kSyncCycles;
    ResumeAt(&fiber->core, latest + kSyncCycles);
  }
  return true;
}

void LockForFork() { Current().mutex.lock(); }
void UnlockAfterFork() { Current().mutex.unlock(); }
std::once_flag fork_registered;

}  // namespace

std::string Format(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

// The last two parts of the path are enough to find a file, and the same on every machine.
std::string Where(Site site) {
  const std::string path = site.file == nullptr ? "?" : site.file;
  size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) slash = path.rfind('/', slash - 1);
  return Format("%s:%d", path.c_str() + (slash == std::string::npos ? 0 : slash + 1), site.line);
}

void Violate(const char* rule, const char* name, Site site, const std::string& detail) {
  Launched& launch = Current();
  launch.violation = Format("rule %s: %s at %s, core %d: %s", rule, name, Where(site).c_str(),
                            this_core->index, detail.c_str());
  setcontext(&launch.scheduler);  // the fiber is abandoned; kernels own nothing but memory of the core
  __builtin_unreachable();
}

void WaitForCores(Site site) {
  Launched& launch = Current();
  Fiber* self = launch.running;
  self->state = State::kWaiting;
  self->waits_at = site;
  swapcontext(&self->context, &launch.scheduler);
}

void Mark(int id) {
  if (this_core->index != 0 || id < 0 || id >= kNumMarks) return;
  Current().marks[id] = this_core->counts;
  Current().marks[id].pipe_cycles = EndOf(Self());
}

std::string Launch(int num_cores, Kernel kernel, void** args) {
  Launched& launch = Current();
  std::call_once(fork_registered, [] { pthread_atfork(LockForFork, UnlockAfterFork, UnlockAfterFork); });
  if (num_cores < 1 || num_cores > kMaxCores) {
    return Format("launch of %d cores, allowed are 1..%d", num_cores, kMaxCores);
  }
  std::lock_guard<std::mutex> lock(launch.mutex);
  while (static_cast<int>(launch.fibers.size()) < num_cores) launch.fibers.emplace_back(new Fiber);
  launch.num_cores = num_cores;
  launch.kernel = kernel;
  launch.args = args;
  launch.violation.clear();
  launch.random = launch.seed;
  StartDeviceOrder();
  for (int i = 0; i < num_cores; ++i) Prepare(launch.fibers[i].get(), i, num_cores);
  while (RunPhase(launch) && PassBarrier(launch)) {
  }
  for (int i = 0; i < num_cores; ++i) {
    launch.fibers[i]->core.counts.pipe_cycles = EndOf(launch.fibers[i]->core);
  }
  ForgetGm();
  return launch.violation;
}

}  // namespace avsg_cpu

extern "C" {

void avsg_cpu_count(int) {}

int avsg_cpu_counts(avsg_cpu_core_counts* out, int num_cores) {
  avsg_cpu::Launched& launch = avsg_cpu::Current();
  std::lock_guard<std::mutex> lock(launch.mutex);
  for (int i = 0; i < num_cores; ++i) {
    out[i] = i < launch.num_cores ? launch.fibers[i]->core.counts : avsg_cpu_core_counts{};
  }
  return launch.num_cores;
}

int avsg_cpu_mark_counts(int id, avsg_cpu_core_counts* out) {
  if (id < 0 || id >= avsg_cpu::kNumMarks) return 1;
  *out = avsg_cpu::Current().marks[id];
  return 0;
}

void avsg_cpu_shuffle(uint64_t seed) {
  avsg_cpu::Launched& launch = avsg_cpu::Current();
  std::lock_guard<std::mutex> lock(launch.mutex);
  launch.seed = seed;
}

}  // extern "C"

#endif  // AVSG_CPU_CHECKED
