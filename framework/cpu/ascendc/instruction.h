// SPDX-License-Identifier: Apache-2.0
// What every operation reports about itself: in the checked build its operands and cost, in the fast one only
// counts.
#ifndef AVSG_CPU_ASCENDC_INSTRUCTION_H
#define AVSG_CPU_ASCENDC_INSTRUCTION_H

#include "../runtime/core.h"
#include "types.h"

#ifndef AVSG_CPU_CHECKED
#define AVSG_CPU_CHECKED 0
#endif

namespace avsg_cpu {
inline namespace AVSG_CPU_LEVEL {

enum Pipe { kScalar = 0, kVector, kMte2, kMte3, kNumPipes };

// Part of the unified buffer from `address` on; bytes are what is left of it, negative once a view starts
// past its end.
struct View {
  uint8_t* address;
  int64_t bytes;
};

// One operand of a strided instruction: strides in 32-byte blocks, one mask bit per element of a repeat.
struct Strides {
  uint32_t repeats;
  uint32_t block;
  uint32_t repeat;
  uint32_t element_bytes;
  const uint64_t* mask;
};

#if AVSG_CPU_CHECKED

// Where the kernel called an operation.
struct Site {
  const char* file;
  int line;
  constexpr Site(const char* f = __builtin_FILE(), int l = __builtin_LINE()) : file(f), line(l) {}
};

// Order of calls: Require, reads, writes, then cost. A broken rule ends the launch inside the call that finds
// it.
class Instruction {
 public:
  Instruction(const char* name, Pipe pipe, Site site);
  void Require(bool holds, const char* rule, const char* format, ...) __attribute__((format(printf, 4, 5)));
  void Read(const View& view, uint64_t bytes, uint32_t alignment = 32);
  void Write(const View& view, uint64_t bytes, uint32_t alignment = 32);
  void ReadStrided(const View& view, const Strides& strides);
  void WriteStrided(const View& view, const Strides& strides);
  void Clobber(const View& view, uint64_t offset, uint64_t bytes);  // written with nothing that may be read
  // Same start, or no common byte.
  void OverlapTotal(const View& dst, uint64_t dst_bytes, const View& src, uint64_t src_bytes);
  void OverlapNone(const View& dst, uint64_t dst_bytes, const View& src, uint64_t src_bytes);
  // The same within a repeat; a repeat must not read what an earlier one wrote, unless the operation
  // accumulates.
  void OverlapStrided(const View& dst, const Strides& to, const View& src, const Strides& from,
                      bool accumulates);
  void ReadGm(const void* address, uint64_t bytes);
  void WriteGm(const void* address, uint64_t bytes, const void* from);
  void Vector(uint64_t repeats, double cycles);
  void Gathered(uint64_t words);
  void HiddenBarriers(
      int n);          // those that the API issues itself; they cost time but kernels must not rely on them
  void ScalarWaits();  // the scalar unit reads a special register of this pipe
  void CopyIn(uint8_t* to, const uint8_t* from, uint64_t bytes);
  void CopyOut(uint8_t* to, const uint8_t* from, uint64_t bytes);
  void Dma(uint64_t bytes, bool in);
  void UbScalar(bool store);
  void GmScalar();

 private:
  enum class Access { kRead, kWrite, kClobber };
  void Touch(const View& view, uint64_t offset, uint64_t bytes, Access access);
  void TouchStrided(const View& view, const Strides& strides, Access access);
  void CheckView(const View& view, uint64_t offset, uint64_t bytes, const char* what);
  void Issue();
  const char* name_;
  Pipe pipe_;
  Site site_;
  bool issued_ = false;
};

// Repeat counts are uint8_t on the chip: a larger one would be cut silently. Here it is seen and refused.
using RepeatCount = uint32_t;

void SetEvent(Pipe from, Pipe to, int event, Site site);
void WaitEvent(Pipe from, Pipe to, int event, Site site);
void Barrier(Pipe pipe, bool all, Site site);
void Synchronize(Site site);
void CleanCache(const void* address, uint64_t bytes, Site site);

inline void CarryOutAll() {}  // copies are never late here: a missing wait is a violation instead

#else

}  // namespace AVSG_CPU_LEVEL
}  // namespace avsg_cpu

#include "late_copy.h"

namespace avsg_cpu {
inline namespace AVSG_CPU_LEVEL {

struct Site {};
using RepeatCount = uint8_t;

class Instruction {
 public:
  Instruction(const char*, Pipe, Site) {}
  template <typename... Args>
  void Require(bool, const char*, const char*, const Args&...) {}
  void Read(const View&, uint64_t, uint32_t = 32) {}
  void Write(const View&, uint64_t, uint32_t = 32) {}
  void ReadStrided(const View&, const Strides&) {}
  void WriteStrided(const View&, const Strides&) {}
  void Clobber(const View&, uint64_t, uint64_t) {}
  void OverlapTotal(const View&, uint64_t, const View&, uint64_t) {}
  void OverlapNone(const View&, uint64_t, const View&, uint64_t) {}
  void OverlapStrided(const View&, const Strides&, const View&, const Strides&, bool) {}
  void ReadGm(const void*, uint64_t) {}
  void WriteGm(const void*, uint64_t, const void*) {}
  void Vector(uint64_t repeats, double) {
    if (!Counting()) return;
    ++this_core->counts.vector_instructions;
    this_core->counts.vector_repeats += repeats;
  }
  void Gathered(uint64_t words) {
    if (Counting()) this_core->counts.gathered_words += words;
  }
  void HiddenBarriers(int n) {
    if (Counting()) this_core->counts.barriers += static_cast<uint64_t>(n);
  }
  void ScalarWaits() {}
  void CopyIn(uint8_t* to, const uint8_t* from, uint64_t bytes) { CopyLate(to, from, bytes); }
  void CopyOut(uint8_t* to, const uint8_t* from, uint64_t bytes) { CopyLines(to, from, bytes); }
  void Dma(uint64_t bytes, bool in) {
    if (!Counting()) return;
    ++this_core->counts.dmas;
    (in ? this_core->counts.dma_bytes_in : this_core->counts.dma_bytes_out) += bytes;
  }
  void UbScalar(bool store) {
    if (Counting()) ++(store ? this_core->counts.scalar_stores : this_core->counts.scalar_loads);
  }
  void GmScalar() {
    if (Counting()) ++this_core->counts.gm_scalars;
  }

 private:
  static bool Counting() { return __builtin_expect(counting, false); }
};

inline void SetEvent(Pipe from, Pipe to, int id, Site) {
  if (from == kMte2) this_core->late.flagged[to][id] = this_core->late.num_queued;
  if (__builtin_expect(counting, false)) ++this_core->counts.flags;
}
inline void WaitEvent(Pipe from, Pipe to, int id, Site) {
  if (from != kMte2) return;
  LateCopies& late = this_core->late;
  const uint32_t flagged = late.flagged[to][id];
  if (static_cast<int32_t>(flagged - late.num_done) > 0) CarryOut(late, flagged);
}
inline void Barrier(Pipe pipe, bool all, Site) {
  if (all || pipe == kMte2) CarryOutAll();
  if (__builtin_expect(counting, false)) ++this_core->counts.barriers;
}
inline void Synchronize(Site) {
  CarryOutAll();
  if (__builtin_expect(counting, false)) ++this_core->counts.syncs;
  SyncCores();
}
inline void CleanCache(const void*, uint64_t, Site) {}

#endif

}  // namespace AVSG_CPU_LEVEL
}  // namespace avsg_cpu

#endif  // AVSG_CPU_ASCENDC_INSTRUCTION_H
