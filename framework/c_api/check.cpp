// SPDX-License-Identifier: Apache-2.0
// The tools of the argument checks: struct sizes, ranges, tensors and their overlap.
#include "check.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace sparse_gather {
namespace {

std::string ShapeText(std::initializer_list<int64_t> shape, int64_t element_bytes) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "] of " + std::to_string(element_bytes) + " bytes";
}

}  // namespace

std::string TensorName::Text() const {
  return payload < 0 ? field : "payloads[" + std::to_string(payload) + "]." + field;
}

bool Check::Refuse(const char* format, ...) {
  if (!error_.empty()) return false;
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  error_ = sentence;
  return false;
}

bool Check::KnownSize(const char* type, const void* value, uint32_t given, size_t known) {
  if (!error_.empty()) return false;
  if (value == nullptr) return Refuse("%s is NULL; pass a filled struct.", type);
  if (given == known) return true;
  return Refuse("struct_bytes of %s is %" PRIu32
                ", this library knows %zu; set it to sizeof(%s) of the avsg.h that "
                "came with this library.",
                type, given, known, type);
}

bool Check::InRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (!error_.empty()) return false;
  if (value >= low && value <= high) return true;
  return Refuse("%s is %" PRId64 ", allowed is %" PRId64 " to %" PRId64 ".", name, value, low, high);
}

bool Check::Add(TensorName name, const void* data, std::initializer_list<int64_t> shape,
                int64_t element_bytes, uintptr_t alignment, bool written) {
  if (!error_.empty()) return false;
  int64_t bytes = element_bytes;
  bool overflow = false;
  for (int64_t size : shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  uintptr_t end = 0;
  overflow = __builtin_add_overflow(begin, static_cast<uintptr_t>(bytes), &end) || overflow;
  if (overflow) {
    return Refuse("%s, %s, does not fit a 64-bit address space; give smaller sizes.", name.Text().c_str(),
                  ShapeText(shape, element_bytes).c_str());
  }
  if (data == nullptr) {
    return Refuse("%s is NULL; pass its %s.", name.Text().c_str(), ShapeText(shape, element_bytes).c_str());
  }
  if (begin % alignment != 0) {
    return Refuse("%s is at 0x%" PRIxPTR ", allowed are addresses that are multiples of %" PRIuPTR
                  "; align it.",
                  name.Text().c_str(), begin, alignment);
  }
  if (num_regions_ == kMaxRegions)
    return Refuse("%s is one tensor more than a call can have.", name.Text().c_str());
  regions_[num_regions_++] = Region{name, begin, end, written};
  return true;
}

bool Check::NoOverlap() {
  if (!error_.empty()) return false;
  for (int i = 0; i < num_regions_; ++i) {
    for (int j = 0; j < i; ++j) {
      const Region& a = regions_[j];
      const Region& b = regions_[i];
      if (!(a.written || b.written) || a.end <= b.begin || b.end <= a.begin) continue;
      return Refuse("%s (%" PRIuPTR " bytes at 0x%" PRIxPTR ") and %s (%" PRIuPTR " bytes at 0x%" PRIxPTR
                    ") overlap, "
                    "and the call writes to %s; give each its own memory.",
                    a.name.Text().c_str(), a.end - a.begin, a.begin, b.name.Text().c_str(), b.end - b.begin,
                    b.begin, (a.written ? a.name : b.name).Text().c_str());
    }
  }
  return true;
}

}  // namespace sparse_gather
