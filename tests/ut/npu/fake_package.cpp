// SPDX-License-Identifier: Apache-2.0
// Checks, launches and capture of the fake operator package.
#include "fake_package.h"

#include <dlfcn.h>

#include <memory>

namespace {

void* g_workspace;  // of the launch that runs; a graph keeps it with its call

int Fail(const std::string& text) { return FakeError(507035, text.c_str()); }

}  // namespace

const CpuLibrary& Cpu() {
  static const CpuLibrary library = [] {
    void* handle = dlopen(AVSG_CPU_LIBRARY, RTLD_NOW);
    const auto find = [handle](const char* name) { return dlsym(handle, name); };
    return CpuLibrary{reinterpret_cast<decltype(&avsg_match)>(find("avsg_match")),
                      reinterpret_cast<decltype(&avsg_load)>(find("avsg_load")),
                      reinterpret_cast<decltype(&avsg_step_fused)>(find("avsg_step_fused")),
                      reinterpret_cast<decltype(&avsg_store)>(find("avsg_store")),
                      reinterpret_cast<decltype(&avsg_last_error)>(find("avsg_last_error"))};
  }();
  return library;
}

uintptr_t Arguments::Checked(const char* name, const aclTensor* tensor, const std::vector<int64_t>& shape,
                             int32_t data_type) {
  if (tensor == nullptr) {
    Refuse(std::string(name) + " is null");
    return 0;
  }
  bool equal = tensor->data_type == data_type && tensor->shape.size() == shape.size();
  for (size_t i = 0; equal && i < shape.size(); ++i) equal = shape[i] < 0 || shape[i] == tensor->shape[i];
  if (!equal) Refuse(std::string(name) + " has another shape or dtype than the operator's");
  return tensor->data;
}

int64_t Arguments::Bytes(const aclTensor* tensor) {
  if (tensor == nullptr) return 0;
  int64_t bytes = tensor->data_type == kInt32 ? 4 : 1;
  for (int64_t size : tensor->shape) bytes *= size;
  return bytes;
}

int32_t Prepare(const char* function, const Arguments& arguments, std::function<int(void*)> call,
                uint64_t* workspace_bytes, aclOpExecutor** executor) {
  if (const int32_t code = FakePlanned(function)) return code;
  if (!arguments.error().empty()) return FakeError(161002, arguments.error().c_str());
  const char* greedy = getenv("FAKE_WORKSPACE");
  *workspace_bytes =
      greedy != nullptr ? strtoull(greedy, nullptr, 10) : kSystemWorkspaceBytes + kUserWorkspaceBytes;
  FakeCount(1);
  *executor = new aclOpExecutor{[arguments, call] {
    if (!arguments.LookUp()) return Fail("vector core exception: an address is not the device's");
    return call(g_workspace) == 0 ? 0 : Fail(Cpu().last_error());
  }};
  return 0;
}

int32_t LaunchFake(const char* function, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                   void* stream) {
  std::unique_ptr<aclOpExecutor> used(executor);
  FakeCount(-1);
  if (const int32_t code = FakePlanned(function)) return code;
  auto* bytes = static_cast<char*>(
      FakeHostAddress(reinterpret_cast<uintptr_t>(workspace), static_cast<int64_t>(workspace_bytes)));
  if (bytes == nullptr) return FakeError(507035, "the workspace is not device memory of its size");
  const auto run = [run = used->run, user = bytes + (workspace_bytes - kUserWorkspaceBytes)] {
    g_workspace = user;
    return run();
  };
  auto* capture = stream == nullptr ? nullptr : static_cast<FakeStream*>(stream)->capture;
  if (capture == nullptr) return run();
  capture->push_back(run);
  return 0;
}
