// SPDX-License-Identifier: Apache-2.0
// Checked build: the device memory that a launch was given. All else is out of bounds.
#if AVSG_CPU_CHECKED

#include "../launch.h"
#include "checked.h"

namespace avsg_cpu {
namespace {

struct Buffer {
  uint64_t begin;
  uint64_t end;
  std::string name;
  bool writable;
};

// Per thread: a caller registers and launches on one thread, and others may do so at the same time.
std::vector<Buffer>& Buffers() {
  static thread_local std::vector<Buffer> buffers;
  return buffers;
}

}  // namespace

void RegisterGm(const void* address, uint64_t bytes, const char* name, bool writable) {
  const uint64_t begin = reinterpret_cast<uint64_t>(address);
  if (address != nullptr && bytes != 0) Buffers().push_back(Buffer{begin, begin + bytes, name, writable});
}

void ForgetGm() { Buffers().clear(); }

void CheckGm(const char* name, Site site, const void* address, uint64_t bytes, bool write) {
  const uint64_t begin = reinterpret_cast<uint64_t>(address);
  const Buffer* near = nullptr;
  bool readable = false;
  for (const Buffer& buffer : Buffers()) {
    if (begin >= buffer.begin && begin + bytes <= buffer.end && begin + bytes >= begin) {
      if (buffer.writable || !write) return;
      readable = true;
      near = &buffer;
    } else if (!readable && begin + bytes > buffer.begin && begin < buffer.end) {
      near = &buffer;
    }
  }
  const char* verb = write ? "writes" : "reads";
  if (readable) {
    Violate("gm-read-only", name, site,
            Format("%s %llu bytes of %s, which is an input", verb, static_cast<unsigned long long>(bytes),
                   near->name.c_str()));
  }
  if (near != nullptr) {
    Violate("gm-bounds", name, site,
            Format("%s %llu bytes at offset %lld of %s, which has %llu bytes", verb,
                   static_cast<unsigned long long>(bytes), static_cast<long long>(begin - near->begin),
                   near->name.c_str(), static_cast<unsigned long long>(near->end - near->begin)));
  }
  Violate("gm-bounds", name, site,
          Format("%s %llu bytes at %p, outside every buffer of the launch", verb,
                 static_cast<unsigned long long>(bytes), address));
}

}  // namespace avsg_cpu

#endif  // AVSG_CPU_CHECKED
