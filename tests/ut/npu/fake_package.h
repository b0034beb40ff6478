// SPDX-License-Identifier: Apache-2.0
// What the operators of the fake package share: checks of descriptors, host addresses, the library that does
// the work.
#ifndef AVSG_TESTS_FAKE_PACKAGE_H
#define AVSG_TESTS_FAKE_PACKAGE_H

#include <string>
#include <vector>

#include "avsg.h"
#include "fake_cann.h"

constexpr uint64_t kSystemWorkspaceBytes = 16 << 20;
constexpr uint64_t kUserWorkspaceBytes = 512 * 64;

// The functions of libavsg_cpu.so.
struct CpuLibrary {
  decltype(&avsg_match) match;
  decltype(&avsg_load) load;
  decltype(&avsg_step_fused) fused;
  decltype(&avsg_store) store;
  decltype(&avsg_last_error) last_error;
};
const CpuLibrary& Cpu();

// One call's descriptors. The first that is not what the operator expects is kept; addresses are looked up
// when the kernel runs, which can be long after the descriptors are gone.
class Arguments {
 public:
  // Where the tensor's bytes will be; shape entries of -1 may be anything.
  template <typename T>
  void Take(const char* name, const aclTensor* tensor, std::vector<int64_t> shape, T** target,
            int32_t data_type = kInt32) {
    const uintptr_t data = Checked(name, tensor, shape, data_type);
    const int64_t bytes = Bytes(tensor);
    lookups_.push_back([target, data, bytes] {
      *target = static_cast<T*>(FakeHostAddress(data, bytes));
      return *target != nullptr;
    });
  }
  void Refuse(const std::string& why) {
    if (error_.empty()) error_ = why;
  }
  const std::string& error() const { return error_; }

  // All addresses are the device's; sets the pointers.
  bool LookUp() const {
    for (const auto& lookup : lookups_) {
      if (!lookup()) return false;
    }
    return true;
  }

 private:
  uintptr_t Checked(const char* name, const aclTensor* tensor, const std::vector<int64_t>& shape,
                    int32_t data_type);
  static int64_t Bytes(const aclTensor* tensor);

  std::vector<std::function<bool()>> lookups_;
  std::string error_;
};

// The first half's end: the code for a refusal, or an executor that runs `call` on the user's workspace.
int32_t Prepare(const char* function, const Arguments& arguments, std::function<int(void* workspace)> call,
                uint64_t* workspace_bytes, aclOpExecutor** executor);

// The second half of every operator.
int32_t LaunchFake(const char* function, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                   void* stream);

#endif  // AVSG_TESTS_FAKE_PACKAGE_H
