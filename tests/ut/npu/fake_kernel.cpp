// SPDX-License-Identifier: Apache-2.0
// Preloaded by a test: the release of the kernel that uname tells is FAKE_KERNEL.
#include <sys/utsname.h>

#include <cstdlib>
#include <cstring>

extern "C" int uname(utsname* system) noexcept {
  std::memset(system, 0, sizeof(*system));
  std::strncpy(system->release, std::getenv("FAKE_KERNEL"), sizeof(system->release) - 1);
  return 0;
}
