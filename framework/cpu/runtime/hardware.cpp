// SPDX-License-Identifier: Apache-2.0
// How many threads the machine runs at once.
#include <algorithm>
#include <thread>

#include "../launch.h"

namespace avsg_cpu {

int NumHardwareThreads() {
  static const int threads = std::min(std::max(static_cast<int>(std::thread::hardware_concurrency()), 1), 48);
  return threads;
}

}  // namespace avsg_cpu
