// SPDX-License-Identifier: Apache-2.0
// A stand-in for CANN whose device is the CPU: what its runtime and its operator package share. It is written
// from the public documentation, without CANN's headers. Addresses of the device are not those of the host,
// so that whoever mixes them up crashes: memory of aclrtMalloc lies kDeviceOffset higher, a registered host
// page's alias kAliasOffset higher.
#ifndef AVSG_TESTS_FAKE_CANN_H
#define AVSG_TESTS_FAKE_CANN_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

constexpr uintptr_t kDeviceOffset = uintptr_t{1} << 56;
constexpr uintptr_t kAliasOffset = uintptr_t{2} << 56;
constexpr int32_t kInt32 = 3;
constexpr int32_t kUint8 = 4;

struct aclTensor {
  std::vector<int64_t> shape;
  int32_t data_type;
  uintptr_t data;
};

struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};

struct aclOpExecutor {
  std::function<int()> run;
  bool repeatable = false;
};

struct FakeStream {
  std::vector<std::function<int()>>* capture;  // of a stream being captured, else null
};

extern "C" {
// What a host can do with an address of the device: where the bytes are, or null outside every allocation.
void* FakeHostAddress(uintptr_t device, int64_t bytes);
// Sets what aclGetRecentErrMsg says, and returns the code.
int32_t FakeError(int32_t code, const char* message);
// Whether a test asked for this function to fail now; the code to return, 0: no.
int32_t FakePlanned(const char* function);
void FakeCount(int change);  // of live descriptors and executors
}

#endif  // AVSG_TESTS_FAKE_CANN_H
