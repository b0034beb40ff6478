// SPDX-License-Identifier: Apache-2.0
// One broken rule of memory or parameters per kernel; the line that breaks it ends in the rule's name.
#include "driver.h"

#if AVSG_CPU_CHECKED

// clang-format off: a violation and its rule share a line
KERNEL(ub_size) {
  (void)args;
  TPipe pipe;
  TBuf<TPosition::VECCALC> a;
  TBuf<TPosition::VECCALC> b;
  pipe.InitBuffer(a, avsg_cpu::kUsableUbBytes);
  pipe.InitBuffer(b, 1);  // BREAKS ub-size
}
KERNEL(buffer_bounds) {
  Frame f(args);
  f.ub.GetWithOffset<int32_t>(16, avsg_cpu::kUsableUbBytes - 32);  // BREAKS buffer-bounds
}
KERNEL(tensor_bounds_vector) {
  Frame f(args);
  Adds(f.ub.GetWithOffset<int32_t>(64, kHalf), f.Operand<int32_t>(0), 1, 65);  // BREAKS tensor-bounds
}
KERNEL(tensor_bounds_slice) {
  Frame f(args);
  f.Operand<int32_t>(0)[kOperand / 4].GetValue(0);  // BREAKS tensor-bounds
}
KERNEL(tensor_bounds_null) {
  (void)args;
  LocalTensor<int32_t> nothing;
  nothing.GetValue(0);  // BREAKS tensor-bounds
}
KERNEL(uninitialised_vector) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Scratch<int32_t>(), 1, 8);  // BREAKS uninitialised
}
KERNEL(uninitialised_scalar) {
  Frame f(args);
  f.Scratch<int32_t>().GetValue(7);  // BREAKS uninitialised
}
KERNEL(uninitialised_dma) {
  Frame f(args);
  DataCopy(Global(args[1]), f.Scratch<int32_t>(), 8);  // BREAKS uninitialised
}
KERNEL(uninitialised_padding) {
  Frame f(args);
  DataCopyPad(f.Scratch<int32_t>(), Global(args[0]), DataCopyExtParams(1, 4, 0, 0, 0),
              DataCopyPadExtParams<int32_t>(false, 0, 0, 0));
  PipeBarrier<PIPE_ALL>();
  f.Scratch<int32_t>().GetValue(0);
  f.Scratch<int32_t>().GetValue(1);  // BREAKS uninitialised
}
KERNEL(alignment) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0)[1], 1, 8);  // BREAKS alignment
}
KERNEL(alignment_compare) {
  Frame f(args);
  const auto a = f.Operand<float>(0);
  Compare(f.Out<uint8_t>()[8], a, a, CMPMODE::EQ, 64);  // BREAKS alignment
}
KERNEL(alignment_dma) {
  Frame f(args);
  const DataCopyExtParams block(1, 32, 0, 0, 0);
  DataCopyPad(f.Out<int32_t>()[1], Global(args[0]), block, {true, 0, 0, 0});  // BREAKS alignment
}
KERNEL(compare_granularity) {
  Frame f(args);
  const auto a = f.Operand<float>(0);
  Compare(f.Out<uint8_t>(), a, a, CMPMODE::EQ, 100);  // BREAKS compare-granularity
}
KERNEL(int32_compare) {
  Frame f(args);
  CompareScalar(f.Out<uint8_t>(), f.Operand<int32_t>(0), 1, CMPMODE::LT, 64);  // BREAKS int32-compare
}
KERNEL(select_mode) {
  Frame f(args);
  const auto a = f.Operand<float>(0);
  const SELMODE mode = SELMODE::VSEL_CMPMASK_SPR;
  Select(f.Out<float>(), f.Operand<uint8_t>(2), a, 1.0f, mode, 64);  // BREAKS select-mode
}
KERNEL(logic) {
  Frame f(args);
  Not(f.Out<int32_t>(), f.Operand<int32_t>(0), 64);  // BREAKS 16-bit-logic
}
KERNEL(shift_range) {
  Frame f(args);
  ShiftLeft(f.Out<int16_t>(), f.Operand<int16_t>(0), int16_t{17}, 64);  // BREAKS shift-range
}
KERNEL(repeat_limit) {
  Frame f(args);
  Sort32(f.Out<float>(), f.Operand<float>(0), f.Operand<uint32_t>(1), 256);  // BREAKS repeat-limit
}
KERNEL(repeat_limit_strided) {
  Frame f(args);
  const UnaryRepeatParams still(1, 1, 0, 0);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, uint64_t{64}, 256, still);  // BREAKS repeat-limit
}
KERNEL(mask_range) {
  Frame f(args);
  Duplicate(f.Out<int32_t>(), 1, uint64_t{65}, 1, 1, 8);  // BREAKS mask-range
}
KERNEL(gather_count) {
  Frame f(args);
  Gather(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<uint32_t>(1), 0u, 16384);  // BREAKS gather-count
}
KERNEL(gather_range) {
  Frame f(args);
  const auto a = f.Operand<int32_t>(0);
  Gather(f.Out<int32_t>(), a, f.Operand<uint32_t>(1), kOperand - 4u, 64);  // BREAKS gather-offset
}
KERNEL(gather_multiple) {
  Frame f(args);
  Gather(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<uint32_t>(1), 2u, 64);  // BREAKS gather-offset
}
KERNEL(gather_in_place) {
  Frame f(args);
  Gather(f.Operand<int32_t>(0), f.Operand<int32_t>(0), f.Operand<uint32_t>(1), 0u, 64);  // BREAKS overlap
}
KERNEL(gather_mask_count) {
  Frame f(args);
  uint64_t n = 0;
  const GatherMaskParams once(1, 1, 0, 0);
  const auto a = f.Operand<int32_t>(0);
  GatherMask(f.Out<int32_t>(), a, f.Operand<uint32_t>(1), true, 0, once, n);  // BREAKS gather-mask-count
}
KERNEL(gather_mask_pattern) {
  Frame f(args);
  uint64_t n = 0;
  const GatherMaskParams once(1, 1, 0, 0);
  const auto a = f.Operand<int32_t>(0);
  GatherMask(f.Out<int32_t>(), a, uint8_t{8}, true, 64, once, n);  // BREAKS gather-mask-pattern
}
KERNEL(round_mode) {
  Frame f(args);
  Cast(f.Out<int32_t>(), f.Operand<float>(0), RoundMode::CAST_NONE, 64);  // BREAKS round-mode
}
KERNEL(merge_queues) {
  Frame f(args);
  MrgSort4Info info;
  info.validBit = 5;
  MrgSort(f.Out<float>(), MrgSortSrcList<float>(), info);  // BREAKS merge-queues
}
KERNEL(overlap_partial) {
  Frame f(args);
  Adds(f.Operand<int32_t>(0)[8], f.Operand<int32_t>(0), 1, 64);  // BREAKS overlap
}
KERNEL(overlap_mask) {
  Frame f(args);
  const SELMODE mode = SELMODE::VSEL_TENSOR_SCALAR_MODE;
  Select(f.Operand<float>(0), f.Operand<uint8_t>(0), f.Operand<float>(1), 1.0f, mode, 64);  // BREAKS overlap
}
KERNEL(overlap_repeats) {
  Frame f(args);
  const auto a = f.Operand<int32_t>(0);
  Add(a[64], a, f.Operand<int32_t>(1), uint64_t{64}, 2, BinaryRepeatParams());  // BREAKS overlap
}
KERNEL(copy_granularity) {
  Frame f(args);
  DataCopy(f.Out<int32_t>(), Global(args[0]), 9);  // BREAKS copy-granularity
}
KERNEL(copy_limits) {
  Frame f(args);
  const DataCopyExtParams blocks(4096, 4, 0, 0, 0);
  DataCopyPad(Global(args[1]), f.Operand<int32_t>(0), blocks);  // BREAKS copy-limits
}
KERNEL(copy_limits_element) {
  Frame f(args);
  const DataCopyExtParams block(1, 6, 0, 0, 0);
  DataCopyPad(Global(args[1]), f.Operand<int32_t>(0), block);  // BREAKS copy-limits
}
KERNEL(gm_bounds_before) {
  Frame f(args);
  DataCopy(f.Out<int32_t>(), Global(static_cast<uint8_t*>(args[0]) - 4), 8);  // BREAKS gm-bounds
}
KERNEL(gm_bounds_behind) {
  Frame f(args);
  DataCopy(Global(args[1])[kHalf / 4 - 7], f.Operand<int32_t>(0), 8);  // BREAKS gm-bounds
}
KERNEL(gm_bounds_scalar) { Global(args[0]).GetValue(kHalf / 4); }  // BREAKS gm-bounds
KERNEL(gm_read_only) {
  Frame f(args);
  DataCopy(Global(args[0]), f.Operand<int32_t>(0), 8);  // BREAKS gm-read-only
}
KERNEL(global_tensor_bounds) {
  Frame f(args);
  DataCopy(f.Out<uint8_t>(), f.in[kHalf - 32], 64);  // BREAKS global-tensor-bounds
}
KERNEL(tensor_list_index) {
  ListTensorDesc list(args[0]);
  list.GetDataPtr<int32_t>(2);  // BREAKS tensor-list
}

#endif  // AVSG_CPU_CHECKED
