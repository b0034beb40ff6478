// SPDX-License-Identifier: Apache-2.0
// Argument checks of the C ABI: all that can be refused without looking at a device value, before anything is
// written.
#ifndef AVSG_CHECK_H
#define AVSG_CHECK_H

#include <cstdint>
#include <initializer_list>
#include <string>

#include "avsg.h"
#include "tiling.h"

namespace sparse_gather {

constexpr uintptr_t kStateAlignment = 32;  // bytes; a row of the state moves in whole 32-byte blocks
constexpr uintptr_t kInt32Alignment = 4;

// A tensor's name in a sentence: "state", or "payloads[1].host_kv" with its index. Text is built only for a
// refusal.
struct TensorName {
  TensorName(const char* field, int payload = -1) : field(field), payload(payload) {}
  std::string Text() const;
  const char* field;
  int payload;
};

// One call's memory and its first refusal. Every method returns false once the call is refused.
class Check {
 public:
  const std::string& Error() const { return error_; }

  // Records the first sentence only, and always returns false.
  bool Refuse(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // A struct is given and has the size that this library knows.
  template <typename Struct>
  bool Known(const char* type, const Struct* value) {
    return KnownSize(type, value, value == nullptr ? 0 : value->struct_bytes, sizeof(Struct));
  }
  // low <= value <= high.
  bool InRange(const char* name, int64_t value, int64_t low, int64_t high);
  // A tensor of product(shape) * element_bytes bytes that the call reads or writes.
  bool Read(TensorName name, const void* data, std::initializer_list<int64_t> shape, int64_t element_bytes,
            uintptr_t alignment) {
    return Add(name, data, shape, element_bytes, alignment, false);
  }
  bool Written(TensorName name, const void* data, std::initializer_list<int64_t> shape, int64_t element_bytes,
               uintptr_t alignment) {
    return Add(name, data, shape, element_bytes, alignment, true);
  }
  // Nothing that the call writes shares a byte with anything else that it was given.
  bool NoOverlap();

 private:
  struct Region {
    TensorName name = "";
    uintptr_t begin = 0;
    uintptr_t end = 0;
    bool written = false;
  };
  // Match and load together name 20 tensors and 3 for each of 4 payloads.
  static constexpr int kMaxRegions = 32;

  bool KnownSize(const char* type, const void* value, uint32_t given, size_t known);
  bool Add(TensorName name, const void* data, std::initializer_list<int64_t> shape, int64_t element_bytes,
           uintptr_t alignment, bool written);

  std::string error_;
  Region regions_[kMaxRegions];
  int num_regions_ = 0;
};

// The arguments of one call as the C ABI names them; unused ones stay null.
struct Call {
  const Platform* platform = nullptr;
  const avsg_config* config = nullptr;
  const avsg_step* step = nullptr;
  const avsg_plan* plan = nullptr;
  const avsg_blocks* blocks = nullptr;
  const avsg_payload* payloads = nullptr;
  const avsg_store_payload* store_payloads = nullptr;
  int32_t num_payloads = 0;
  const int32_t* positions = nullptr;
  const int32_t* entries = nullptr;
  int32_t num_new_rows = 0;
  void* state = nullptr;
  int32_t* counters = nullptr;  // of load or store
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  void* stream = nullptr;
};

PoolShape ShapeOf(const avsg_config& config);

// "" or the sentence that refuses the call.
std::string CheckSizes(const Platform& platform, const avsg_config* config, const avsg_size_report* report);
std::string CheckMatch(const Call& call);
std::string CheckLoad(const Call& call);
std::string CheckStepFused(const Call& call);
std::string CheckStore(const Call& call);

}  // namespace sparse_gather

#endif  // AVSG_CHECK_H
