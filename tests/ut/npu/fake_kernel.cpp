// SPDX-License-Identifier: Apache-2.0
// Preloaded by a test: the release of the kernel that uname tells is FAKE_KERNEL, its pages have
// FAKE_PAGE_BYTES.
#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" int uname(utsname* system) noexcept {
  std::memset(system, 0, sizeof(*system));
  std::strncpy(system->release, std::getenv("FAKE_KERNEL"), sizeof(system->release) - 1);
  return 0;
}

extern "C" long sysconf(int name) noexcept {
  const char* page = std::getenv("FAKE_PAGE_BYTES");
  if (name == _SC_PAGESIZE && page != nullptr) return std::atol(page);
  static const auto next = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
  return next(name);
}
