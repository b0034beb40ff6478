// SPDX-License-Identifier: Apache-2.0
// Checked build: what an instruction may touch - bounds, alignment, initialised bytes, overlaps - and what it
// costs.
#if AVSG_CPU_CHECKED

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "checked.h"

namespace avsg_cpu {
inline namespace AVSG_CPU_LEVEL {

namespace {

unsigned long long Big(uint64_t x) { return x; }

uint64_t OffsetOf(const View& view) { return static_cast<uint64_t>(view.address - this_core->ub); }

bool LaneActive(const Strides& s, uint32_t lane) { return s.mask[lane / 64] >> (lane % 64) & 1; }

}  // namespace

Instruction::Instruction(const char* name, Pipe pipe, Site site) : name_(name), pipe_(pipe), site_(site) {}

void Instruction::Require(bool holds, const char* rule, const char* format, ...) {
  if (holds) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  Violate(rule, name_, site_, text);
}

void Instruction::Issue() {
  if (issued_) return;
  issued_ = true;
  IssueTo(pipe_, name_, site_);
}

void Instruction::CheckView(const View& view, uint64_t offset, uint64_t bytes, const char* what) {
  Require(view.address != nullptr, "tensor-bounds", "%s a tensor that has no memory", what);
  Require(view.bytes >= static_cast<int64_t>(offset + bytes), "tensor-bounds",
          "%s bytes %llu..%llu of a tensor that has %lld", what, Big(offset), Big(offset + bytes),
          static_cast<long long>(view.bytes));
}

void Instruction::Touch(const View& view, uint64_t offset, uint64_t bytes, Access access) {
  if (bytes == 0) return;
  CheckView(view, offset, bytes, access == Access::kRead ? "reads" : "writes");
  Issue();
  CheckedCore& core = Self();
  const uint64_t at = OffsetOf(view) + offset;
  uint8_t* known = core.initialised.data() + at;
  if (access == Access::kRead) {
    const void* hole = std::memchr(known, 0, bytes);
    if (hole != nullptr) {
      const uint64_t first = static_cast<uint64_t>(static_cast<const uint8_t*>(hole) - known);
      Violate("uninitialised", name_, site_,
              Format("reads byte %llu of its operand (UB offset %llu), which was never written",
                     Big(offset + first), Big(at + first)));
    }
  } else {
    std::memset(known, access == Access::kWrite ? 1 : 0, bytes);
  }
  OrderUb(pipe_, name_, site_, at, bytes, access != Access::kRead);
}

void Instruction::Read(const View& view, uint64_t bytes, uint32_t alignment) {
  CheckView(view, 0, bytes, "reads");
  Require(OffsetOf(view) % alignment == 0, "alignment",
          "reads an operand at UB offset %llu, not a multiple of %u", Big(OffsetOf(view)), alignment);
  Touch(view, 0, bytes, Access::kRead);
}

void Instruction::Write(const View& view, uint64_t bytes, uint32_t alignment) {
  CheckView(view, 0, bytes, "writes");
  Require(OffsetOf(view) % alignment == 0, "alignment",
          "writes an operand at UB offset %llu, not a multiple of %u", Big(OffsetOf(view)), alignment);
  Touch(view, 0, bytes, Access::kWrite);
}

void Instruction::Clobber(const View& view, uint64_t offset, uint64_t bytes) {
  Touch(view, offset, bytes, Access::kClobber);
}

void Instruction::TouchStrided(const View& view, const Strides& s, Access access) {
  CheckView(view, 0, 0, access == Access::kRead ? "reads" : "writes");
  Require(OffsetOf(view) % kUbBlock == 0, "alignment",
          "uses an operand at UB offset %llu, not a multiple of 32", Big(OffsetOf(view)));
  const uint32_t per_block = kUbBlock / s.element_bytes;
  for (uint64_t r = 0; r < s.repeats; ++r) {
    for (uint32_t b = 0; b < 8; ++b) {
      const uint64_t start = (r * s.repeat + b * s.block) * kUbBlock;
      for (uint32_t i = 0; i < per_block;) {
        uint32_t run = 0;
        while (i + run < per_block && LaneActive(s, b * per_block + i + run)) ++run;
        Touch(view, start + i * s.element_bytes, run * s.element_bytes, access);
        i += run + 1;
      }
    }
  }
}

void Instruction::ReadStrided(const View& view, const Strides& s) { TouchStrided(view, s, Access::kRead); }
void Instruction::WriteStrided(const View& view, const Strides& s) { TouchStrided(view, s, Access::kWrite); }

void Instruction::OverlapTotal(const View& dst, uint64_t dst_bytes, const View& src, uint64_t src_bytes) {
  if (dst.address != src.address) OverlapNone(dst, dst_bytes, src, src_bytes);
}

void Instruction::OverlapNone(const View& dst, uint64_t dst_bytes, const View& src, uint64_t src_bytes) {
  if (dst_bytes == 0 || src_bytes == 0 || dst.address == nullptr || src.address == nullptr) return;
  Require(dst.address + dst_bytes <= src.address || src.address + src_bytes <= dst.address, "overlap",
          "its result at UB offset %llu overlaps its source at %llu in part", Big(OffsetOf(dst)),
          Big(OffsetOf(src)));
}

void Instruction::OverlapStrided(const View& dst, const Strides& to, const View& src, const Strides& from,
                                 bool accumulates) {
  if (dst.address == nullptr || src.address == nullptr) return;
  // writer[block]: the last repeat that wrote it, from 1, and as which of its eight blocks.
  struct Writer {
    uint32_t repeat;
    uint32_t block;
  };
  std::vector<Writer> writers(kUbBytes / kUbBlock + 8 * 255 * 255 / kUbBlock, Writer{0, 0});
  const auto block_of = [](const View& view, const Strides& s, uint32_t r, uint32_t b) {
    return OffsetOf(view) / kUbBlock + uint64_t{r} * s.repeat + uint64_t{b} * s.block;
  };
  for (uint32_t r = 0; r < to.repeats; ++r) {
    for (uint32_t b = 0; b < 8; ++b) {
      const uint64_t block = block_of(src, from, r, b);
      if (block >= writers.size()) return;  // out of bounds, which the reads report
      Require(writers[block].repeat == 0 || accumulates, "overlap",
              "repeat %u reads what repeat %u has written", r, writers[block].repeat - 1);
    }
    for (uint32_t b = 0; b < 8; ++b) {
      const uint64_t block = block_of(dst, to, r, b);
      if (block >= writers.size()) return;
      writers[block] = Writer{r + 1, b};
    }
    for (uint32_t b = 0; b < 8; ++b) {
      const Writer& writer = writers[block_of(src, from, r, b)];
      Require(writer.repeat != r + 1 || writer.block == b, "overlap",
              "block %u of a repeat overlaps block %u of its result", b, writer.block);
    }
  }
}

void Instruction::ReadGm(const void* address, uint64_t bytes) {
  CheckGm(name_, site_, address, bytes, false);
  Issue();
  OrderGm(pipe_, name_, site_, reinterpret_cast<uint64_t>(address), bytes, kRead);
}

void Instruction::WriteGm(const void* address, uint64_t bytes, const void* from) {
  CheckGm(name_, site_, address, bytes, true);
  Issue();
  const bool same = std::memcmp(address, from, bytes) == 0;
  OrderGm(pipe_, name_, site_, reinterpret_cast<uint64_t>(address), bytes, same ? kSameBytes : kNewBytes);
}

void Instruction::Vector(uint64_t repeats, double cycles) {
  ++Self().counts.vector_instructions;
  Self().counts.vector_repeats += repeats;
  SpendVector(cycles);
}

void Instruction::Gathered(uint64_t words) { Self().counts.gathered_words += words; }

void Instruction::HiddenBarriers(int n) {
  Self().counts.barriers += static_cast<uint64_t>(n);
  for (int i = 0; i < n; ++i) SpendBarrier(kVector, false);
}

void Instruction::ScalarWaits() { ScalarFollows(pipe_); }

void Instruction::CopyIn(uint8_t* to, const uint8_t* from, uint64_t bytes) { std::memcpy(to, from, bytes); }
void Instruction::CopyOut(uint8_t* to, const uint8_t* from, uint64_t bytes) { std::memcpy(to, from, bytes); }

void Instruction::Dma(uint64_t bytes, bool in) {
  ++Self().counts.dmas;
  (in ? Self().counts.dma_bytes_in : Self().counts.dma_bytes_out) += bytes;
  SpendDma(pipe_, bytes);
}

void Instruction::UbScalar(bool store) {
  ++(store ? Self().counts.scalar_stores : Self().counts.scalar_loads);
  SpendScalar(kUbScalarCycles);
}

void Instruction::GmScalar() {
  ++Self().counts.gm_scalars;
  SpendScalar(kGmScalarCycles);
}

}  // namespace AVSG_CPU_LEVEL
}  // namespace avsg_cpu

#endif  // AVSG_CPU_CHECKED
