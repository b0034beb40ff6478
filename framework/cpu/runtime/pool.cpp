// SPDX-License-Identifier: Apache-2.0
// Fast build: cores are threads that stay between launches. The caller is core 0.
#if !AVSG_CPU_CHECKED

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "../launch.h"
#include "core.h"
#include "spin.h"

namespace avsg_cpu {

__thread Core* this_core __attribute__((tls_model("initial-exec"))) = nullptr;
bool counting = false;

namespace {

// A waiter spins for a few microseconds, then gives way to whoever shares its processor, then sleeps.
constexpr int kSpins = 100;
constexpr int kYields = 20;
constexpr uint64_t kCoresField = 256;

// A number that threads wait to see changed.
class Gate {
 public:
  uint64_t Value() const { return value_.load(std::memory_order_acquire); }
  void Set(uint64_t value) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      value_.store(value, std::memory_order_release);
    }
    changed_.notify_all();
  }
  void WaitChanged(uint64_t from, int spins) {
    for (int i = 0; i < spins + kYields; ++i) {
      if (Value() != from) return;
      if (i < spins) {
        SpinPause();
      } else {
        std::this_thread::yield();
      }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return value_.load(std::memory_order_acquire) != from; });
  }

 private:
  std::atomic<uint64_t> value_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// The threads of this process. Never destroyed: they may sleep in it until the process ends.
class Pool {
 public:
  Pool() {
    for (Core& core : cores_) core = Core{};
  }

  bool Run(int num_cores, Kernel kernel, void** args) {
    if (!Prepare(num_cores)) return false;
    num_cores_ = num_cores;
    for (int i = 0; i < num_cores; ++i) {
      cores_[i].num_cores = num_cores;
      cores_[i].counts = avsg_cpu_core_counts{};
      cores_[i].late.num_done =
          cores_[i].late.num_queued;  // what a launch left behind must not reach the next
    }
    if (num_cores == 1) {
      RunCore(0, kernel, args);
      return true;
    }
    kernel_ = kernel;
    args_ = args;
    arrived_.store(0, std::memory_order_relaxed);
    running_.store(num_cores, std::memory_order_release);
    spins_ = num_cores <= NumHardwareThreads() ? kSpins : 0;
    // The number of cores travels with the launch number, so that a thread of a smaller launch that wakes
    // late sees both.
    start_.Set((start_.Value() / kCoresField + 1) * kCoresField + static_cast<uint64_t>(num_cores));
    RunCore(0, kernel, args);
    const uint64_t before = done_.Value();
    if (running_.fetch_sub(1, std::memory_order_acq_rel) != 1) done_.WaitChanged(before, spins_);
    return true;
  }

  void Sync() {
    if (num_cores_ == 1) return;
    const uint64_t before = sync_.Value();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_cores_) {
      arrived_.store(0, std::memory_order_relaxed);
      sync_.Set(before + 1);
    } else {
      sync_.WaitChanged(before, spins_);
    }
  }

  const Core& At(int i) const { return cores_[i]; }
  int NumCores() const { return num_cores_; }
  avsg_cpu_core_counts marks[kNumMarks] = {};
  std::mutex launch_mutex;

 private:
  bool Prepare(int num_cores) {
    for (int i = 0; i < num_cores; ++i) {
      if (cores_[i].ub != nullptr) continue;
      cores_[i].ub = static_cast<uint8_t*>(std::aligned_alloc(4096, kUbBytes));
      if (cores_[i].ub == nullptr) return false;
      cores_[i].index = i;
    }
    for (; num_threads_ < num_cores - 1; ++num_threads_) {
      std::thread(&Pool::Serve, this, num_threads_ + 1, start_.Value()).detach();
    }
    return true;
  }

  void RunCore(int i, Kernel kernel, void** args) {
    this_core = &cores_[i];
    kernel(args);
    this_core = nullptr;
  }

  void Serve(int i, uint64_t seen) {
    for (;;) {
      start_.WaitChanged(seen, kSpins);
      seen = start_.Value();
      if (i >= static_cast<int>(seen % kCoresField)) continue;
      RunCore(i, kernel_, args_);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.Set(done_.Value() + 1);
    }
  }

  Core cores_[kMaxCores];
  int num_threads_ = 0;
  int num_cores_ = 0;
  int spins_ = 0;
  Kernel kernel_ = nullptr;
  void** args_ = nullptr;
  std::atomic<int> arrived_{0};
  std::atomic<int> running_{0};
  Gate start_;
  Gate sync_;
  Gate done_;
};

Pool* pool = nullptr;
std::once_flag registered;
std::mutex pool_mutex;

Pool& CurrentPool() {
  std::lock_guard<std::mutex> lock(pool_mutex);
  if (pool == nullptr) pool = new Pool;
  return *pool;
}

void BeforeFork() { CurrentPool().launch_mutex.lock(); }
void AfterForkInParent() { CurrentPool().launch_mutex.unlock(); }
// The child has no threads but this one: it starts anew and leaves the old pool alone.
void AfterForkInChild() { pool = nullptr; }

}  // namespace

void SyncCores() { pool->Sync(); }

void Mark(int id) {
  if (this_core->index == 0 && id >= 0 && id < kNumMarks) pool->marks[id] = this_core->counts;
}

std::string Launch(int num_cores, Kernel kernel, void** args) {
  std::call_once(registered, [] { pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild); });
  if (num_cores < 1 || num_cores > kMaxCores) {
    return "launch of " + std::to_string(num_cores) + " cores, allowed are 1.." + std::to_string(kMaxCores);
  }
  Pool& current = CurrentPool();
  std::lock_guard<std::mutex> lock(current.launch_mutex);
  if (!current.Run(num_cores, kernel, args)) return "out of memory for the cores' buffers";
  return std::string();
}

void RegisterGm(const void*, uint64_t, const char*, bool) {}

namespace {
int CopyCounts(avsg_cpu_core_counts* out, int num_cores) {
  Pool& current = CurrentPool();
  std::lock_guard<std::mutex> lock(current.launch_mutex);
  for (int i = 0; i < num_cores; ++i) {
    out[i] = i < current.NumCores() ? current.At(i).counts : avsg_cpu_core_counts{};
  }
  return current.NumCores();
}
}  // namespace

}  // namespace avsg_cpu

extern "C" {

void avsg_cpu_count(int on) { avsg_cpu::counting = on != 0; }
int avsg_cpu_counts(avsg_cpu_core_counts* out, int num_cores) { return avsg_cpu::CopyCounts(out, num_cores); }
int avsg_cpu_mark_counts(int id, avsg_cpu_core_counts* out) {
  if (id < 0 || id >= avsg_cpu::kNumMarks) return 1;
  *out = avsg_cpu::CurrentPool().marks[id];
  return 0;
}
void avsg_cpu_shuffle(uint64_t) {}

}  // extern "C"

#endif  // !AVSG_CPU_CHECKED
