// SPDX-License-Identifier: Apache-2.0
// libascendcl.so of the fake CANN: devices, memory, streams, events, capture, and what a test plans to fail.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "fake_cann.h"

namespace {

using Graph = std::vector<std::function<int()>>;

std::map<uintptr_t, uint64_t> allocations;  // bytes by address of the device
std::map<uintptr_t, uint64_t> pinned;       // bytes by address of aclrtMallocHost
std::map<std::string, std::pair<int32_t, std::string>> planned;
std::string last_error;
int live = 0;
int device = -1;
FakeStream default_stream = {nullptr};

FakeStream* StreamOf(void* stream) {
  return stream == nullptr ? &default_stream : static_cast<FakeStream*>(stream);
}

bool Inside(const std::map<uintptr_t, uint64_t>& ranges, uintptr_t address, uint64_t bytes) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return false;
  const auto& [start, length] = *--after;
  return address + bytes <= start + length;
}

}  // namespace

extern "C" {

void* FakeHostAddress(uintptr_t address, int64_t bytes) {
  if (!Inside(allocations, address, bytes)) return nullptr;
  return reinterpret_cast<void*>(address & (kDeviceOffset - 1));
}

int32_t FakeError(int32_t code, const char* message) {
  last_error = message;
  return code;
}

// A process that a test cannot reach plans with FAKE_FAIL=function=code.
int32_t FakePlanned(const char* function) {
  const char* variable = std::getenv("FAKE_FAIL");
  const std::string start = std::string(function) + "=";
  if (variable != nullptr && std::strncmp(variable, start.c_str(), start.size()) == 0)
    return FakeError(std::atoi(variable + start.size()), "planned by FAKE_FAIL");
  const auto found = planned.find(function);
  return found == planned.end() ? 0 : FakeError(found->second.first, found->second.second.c_str());
}

void FakeCount(int change) { live += change; }

// For tests: from now on `function` fails with this code and message; code 0: no more.
void FakeFail(const char* function, int32_t code, const char* message) {
  planned.erase(function);
  if (code != 0) planned[function] = {code, message};
}
int FakeLive() { return live; }
int FakeAllocations() { return static_cast<int>(allocations.size()); }

const char* aclGetRecentErrMsg() {
  static std::string given;
  given.swap(last_error);
  last_error.clear();
  return given.empty() ? nullptr : given.c_str();
}

const char* aclrtGetSocName() {
  const char* name = std::getenv("FAKE_SOC");
  return name == nullptr ? "Ascend910B3" : name;
}
int32_t aclInit(const char*) { return FakePlanned("aclInit"); }
int32_t aclFinalize() { return 0; }
int32_t aclrtSetDevice(int32_t chosen) {
  device = chosen;
  return FakePlanned("aclrtSetDevice");
}
int32_t aclrtResetDevice(int32_t) { return 0; }
int32_t aclrtGetDevice(int32_t* out) {
  if (device < 0)
    return FakeError(107002, "EE1001: the current context is null.\n\tPossible Cause: none is set.\n");
  *out = device;
  return 0;
}
int32_t aclGetDeviceCapability(uint32_t, int32_t what, int64_t* value) {
  *value = what == 1 ? 40 : 0;
  return 0;
}

int32_t aclrtMalloc(void** out, size_t bytes, int32_t) {
  if (const int32_t code = FakePlanned("aclrtMalloc")) return code;
  void* host = std::aligned_alloc(512, (bytes + 1023) / 512 * 512);
  std::memset(host, 0xA5, bytes);
  const uintptr_t address = reinterpret_cast<uintptr_t>(host) + kDeviceOffset;
  allocations[address] = bytes;
  *out = reinterpret_cast<void*>(address);
  return 0;
}
int32_t aclrtFree(void* address) {
  if (allocations.erase(reinterpret_cast<uintptr_t>(address)) == 0) return FakeError(107000, "not allocated");
  std::free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) - kDeviceOffset));
  return 0;
}
int32_t aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int32_t kind) {
  if (bytes > room) return FakeError(107000, "the destination is too small");
  if (const int32_t code = FakePlanned("aclrtMemcpy")) return code;
  void* host_to = to;
  const void* host_from = from;
  const auto device_side = reinterpret_cast<uintptr_t>(kind == 1 ? to : from);
  void* translated = FakeHostAddress(device_side, static_cast<int64_t>(bytes));
  if (kind < 1 || kind > 2 || translated == nullptr || device_side >= kAliasOffset)
    return FakeError(107000, "not device memory");
  (kind == 1 ? host_to : const_cast<void*&>(host_from)) = translated;
  std::memcpy(host_to, host_from, bytes);
  return 0;
}

int32_t aclrtMallocHost(void** out, size_t bytes) {
  *out = static_cast<char*>(std::malloc(bytes + 64)) + 64;
  std::memset(*out, 0xA5, bytes);
  pinned[reinterpret_cast<uintptr_t>(*out)] = bytes;
  return 0;
}
int32_t aclrtFreeHost(void* host) {
  if (pinned.erase(reinterpret_cast<uintptr_t>(host)) == 0) return FakeError(107000, "not pinned");
  std::free(static_cast<char*>(host) - 64);
  return 0;
}
int32_t aclrtHostRegister(void* host, uint64_t bytes, int32_t type, void** alias) {
  if (const int32_t code = FakePlanned("aclrtHostRegister")) return code;
  const uintptr_t address = reinterpret_cast<uintptr_t>(host);
  const char* page = std::getenv("FAKE_PAGE_BYTES");
  const uint64_t page_bytes = page == nullptr ? 4096 : std::strtoull(page, nullptr, 10);
  if (type != 0 || address % page_bytes != 0 || bytes % page_bytes != 0)
    return FakeError(107000, "host memory is not whole pages");
  const char* most = std::getenv("FAKE_MOST_HOST_BYTES");
  if (most != nullptr && bytes > std::strtoull(most, nullptr, 10)) return FakeError(207001, "too many pages");
  const char* kernel = std::getenv("FAKE_OLD_KERNEL");  // one that registers pinned memory only
  if (kernel != nullptr && !Inside(pinned, address, bytes)) return FakeError(107000, "not pinned");
  allocations[address + kAliasOffset] = bytes;
  *alias = reinterpret_cast<void*>(address + kAliasOffset);
  return 0;
}
int32_t aclrtHostUnregister(void* host) {
  return allocations.erase(reinterpret_cast<uintptr_t>(host) + kAliasOffset) == 1
             ? 0
             : FakeError(107000, "not registered");
}

int32_t aclrtCreateStream(void** out) {
  *out = new FakeStream{nullptr};
  return 0;
}
int32_t aclrtDestroyStream(void* stream) {
  delete static_cast<FakeStream*>(stream);
  return 0;
}
// Everything has run at its launch; that is told to whom FAKE_IDLE is set, others see work on the stream.
int32_t aclrtStreamQuery(void*, int32_t* status) {
  *status = std::getenv("FAKE_IDLE") == nullptr ? 1 : 0;
  return FakePlanned("aclrtStreamQuery");
}
int32_t aclrtSynchronizeStreamWithTimeout(void*, int32_t milliseconds) {
  return milliseconds > 0 ? FakePlanned("aclrtSynchronizeStreamWithTimeout") : FakeError(107000, "no time");
}
// Time is made up, so that no test depends on the machine: 10 us, and FAKE_SLOWER more at each measurement.
int32_t aclrtCreateEvent(void** out) {
  *out = new int;
  return 0;
}
int32_t aclrtRecordEvent(void*, void*) { return 0; }
int32_t aclrtEventElapsedTime(float* ms, void*, void*) {
  static int measured = 0;
  const char* slower = std::getenv("FAKE_SLOWER");
  *ms = 0.01F + (slower == nullptr ? 0.0F : static_cast<float>(std::atof(slower) * measured++ / 1000));
  return 0;
}

int32_t aclmdlRICaptureBegin(void* stream, int32_t) {
  if (const int32_t code = FakePlanned("aclmdlRICaptureBegin")) return code;
  StreamOf(stream)->capture = new Graph;
  return 0;
}
int32_t aclmdlRICaptureEnd(void* stream, void** out) {
  *out = StreamOf(stream)->capture;
  StreamOf(stream)->capture = nullptr;
  return 0;
}
int32_t aclmdlRIExecuteAsync(void* graph, void*) {
  for (const auto& run : *static_cast<Graph*>(graph)) {
    if (const int code = run()) return code;
  }
  return 0;
}
int32_t aclmdlRIDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}

}  // extern "C"
