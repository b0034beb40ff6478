// SPDX-License-Identifier: Apache-2.0
// Collects and registers the arguments of one launch.
#include "arguments.h"

#include <pthread.h>

#include <new>

namespace sparse_gather {
namespace {

std::mutex launch_mutex;

// A forked child has only the thread that forked, and that one launches nothing; whoever held the mutex is
// gone.
void ReleaseInChild() { new (&launch_mutex) std::mutex; }

}  // namespace

Arguments::Arguments() {
  static const int registered = pthread_atfork(nullptr, nullptr, ReleaseInChild);
  static_cast<void>(registered);
  lock_ = std::unique_lock<std::mutex>(launch_mutex);
}

void Arguments::Add(const Tensor& tensor, bool writable) {
  avsg_cpu::RegisterGm(tensor.data, static_cast<uint64_t>(tensor.bytes), tensor.name, writable);
  pointers_[num_pointers_++] = const_cast<void*>(tensor.data);
}

void Arguments::AddList(const Tensor* tensors, int num_tensors, bool writable) {
  void* data[kMaxPayloads];
  uint64_t lengths[kMaxPayloads];
  for (int i = 0; i < num_tensors; ++i) {
    avsg_cpu::RegisterGm(tensors[i].data, static_cast<uint64_t>(tensors[i].bytes), tensors[i].name, writable);
    data[i] = const_cast<void*>(tensors[i].data);
    lengths[i] = static_cast<uint64_t>(tensors[i].bytes);
  }
  avsg_cpu::ListTensor& list = lists_[num_lists_++];
  const int64_t list_bytes =
      static_cast<int64_t>(avsg_cpu::BuildListTensor(data, lengths, num_tensors, &list));
  Add({"tensor list", list.words, list_bytes}, false);
}

}  // namespace sparse_gather
