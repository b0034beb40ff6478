// SPDX-License-Identifier: Apache-2.0
// One broken rule per kernel; the line that breaks it ends in the rule's name. They run in the checked build only.
#include "driver.h"

#if AVSG_CPU_CHECKED

namespace {

GlobalTensor<int32_t> Global(void* address) {
  GlobalTensor<int32_t> tensor;
  tensor.SetGlobalBuffer(static_cast<int32_t*>(address));
  return tensor;
}

}  // namespace

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
  Compare(f.Out<uint8_t>()[8], f.Operand<float>(0), f.Operand<float>(1), CMPMODE::EQ, 64);  // BREAKS alignment
}
KERNEL(alignment_dma) {
  Frame f(args);
  DataCopyPad(f.Out<int32_t>()[1], Global(args[0]), DataCopyExtParams(1, 32, 0, 0, 0), {true, 0, 0, 0});  // BREAKS alignment
}
KERNEL(compare_granularity) {
  Frame f(args);
  Compare(f.Out<uint8_t>(), f.Operand<float>(0), f.Operand<float>(1), CMPMODE::EQ, 100);  // BREAKS compare-granularity
}
KERNEL(int32_compare) {
  Frame f(args);
  CompareScalar(f.Out<uint8_t>(), f.Operand<int32_t>(0), 1, CMPMODE::LT, 64);  // BREAKS int32-compare
}
KERNEL(select_mode) {
  Frame f(args);
  Select(f.Out<float>(), f.Operand<uint8_t>(2), f.Operand<float>(0), 1.0f, SELMODE::VSEL_CMPMASK_SPR, 64);  // BREAKS select-mode
}
KERNEL(logic) {
  Frame f(args);
  Not(f.Out<int32_t>(), f.Operand<int32_t>(0), 64);  // BREAKS 16-bit-logic
}
KERNEL(shift_range) {
  Frame f(args);
  ShiftLeft(f.Out<int16_t>(), f.Operand<int16_t>(0), static_cast<int16_t>(17), 64);  // BREAKS shift-range
}
KERNEL(repeat_limit) {
  Frame f(args);
  Sort32(f.Out<float>(), f.Operand<float>(0), f.Operand<uint32_t>(1), 256);  // BREAKS repeat-limit
}
KERNEL(repeat_limit_strided) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, uint64_t{64}, 256, UnaryRepeatParams(1, 1, 0, 0));  // BREAKS repeat-limit
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
  Gather(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<uint32_t>(1), kOperand - 4u, 64);  // BREAKS gather-offset
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
  GatherMask(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<uint32_t>(1), true, 0, GatherMaskParams(1, 1, 0, 0), n);  // BREAKS gather-mask-count
}
KERNEL(gather_mask_pattern) {
  Frame f(args);
  uint64_t n = 0;
  GatherMask(f.Out<int32_t>(), f.Operand<int32_t>(0), static_cast<uint8_t>(8), true, 64, GatherMaskParams(1, 1, 0, 0), n);  // BREAKS gather-mask-pattern
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
  Select(f.Operand<float>(0), f.Operand<uint8_t>(0), f.Operand<float>(1), 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);  // BREAKS overlap
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
  DataCopyPad(Global(args[1]), f.Operand<int32_t>(0), DataCopyExtParams(4096, 4, 0, 0, 0));  // BREAKS copy-limits
}
KERNEL(copy_limits_element) {
  Frame f(args);
  DataCopyPad(Global(args[1]), f.Operand<int32_t>(0), DataCopyExtParams(1, 6, 0, 0, 0));  // BREAKS copy-limits
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
KERNEL(set_twice) {
  (void)args;
  SetFlag<HardEvent::V_S>(0);
  SetFlag<HardEvent::V_S>(0);  // BREAKS event-pairing
}
KERNEL(never_waited) {
  (void)args;
  SetFlag<HardEvent::V_S>(0);  // BREAKS event-pairing
}
KERNEL(never_set) {
  (void)args;
  SetFlag<HardEvent::V_S>(1);
  WaitFlag<HardEvent::V_S>(0);  // BREAKS event-deadlock
}
KERNEL(event_range) {
  (void)args;
  SetFlag<HardEvent::V_S>(8);  // BREAKS event-ids
}
KERNEL(events_exhausted) {
  (void)args;
  TPipe pipe;
  for (int i = 0; i < 8; ++i) pipe.AllocEventID<HardEvent::V_S>();
  pipe.AllocEventID<HardEvent::V_S>();  // BREAKS event-ids
}
KERNEL(sync_missed) {
  (void)args;
  if (GetBlockIdx() != 1) SyncAll();  // BREAKS sync-deadlock
}

KERNEL(vector_reads_copy) {
  Frame f(args);
  DataCopy(f.Operand<int32_t>(0), Global(args[0]), 64);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);  // BREAKS read-after-write
}
KERNEL(vector_reads_vector) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  Adds(f.Operand<int32_t>(1), f.Out<int32_t>(), 1, 64);  // BREAKS read-after-write
}
KERNEL(vector_reads_scalar) {
  Frame f(args);
  f.Operand<int32_t>(0).SetValue(0, 1);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);  // BREAKS read-after-write
}
KERNEL(scalar_reads_vector) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  f.Out<int32_t>().GetValue(63);  // BREAKS read-after-write
}
KERNEL(copy_reads_vector) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  SetFlag<HardEvent::V_S>(0);
  DataCopy(Global(args[1]), f.Out<int32_t>(), 64);  // BREAKS read-after-write
}
KERNEL(flag_before_use) {  // the flag covers only what came before it
  Frame f(args);
  SetFlag<HardEvent::V_MTE3>(0);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(Global(args[1]), f.Out<int32_t>(), 64);  // BREAKS read-after-write
}
KERNEL(vector_overwrites_vector) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  Duplicate(f.Out<int32_t>(), 1, 64);  // BREAKS write-after-write
}
KERNEL(copy_overwrites_vector) {
  Frame f(args);
  Duplicate(f.Out<int32_t>(), 1, 64);
  DataCopy(f.Out<int32_t>(), Global(args[0]), 8);  // BREAKS write-after-write
}
KERNEL(copy_overwrites_source) {
  Frame f(args);
  DataCopy(Global(args[1]), f.Operand<int32_t>(0), 64);
  DataCopy(f.Operand<int32_t>(0), Global(args[0]), 64);  // BREAKS write-after-read
}
KERNEL(scalar_overwrites_source) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  f.Operand<int32_t>(0).SetValue(0, 1);  // BREAKS write-after-read
}
KERNEL(gm_read_after_write) {
  Frame f(args);
  DataCopy(Global(args[1]), f.Operand<int32_t>(0), 64);
  DataCopy(f.Operand<int32_t>(1), Global(args[1]), 64);  // BREAKS read-after-write
}
KERNEL(gm_write_after_write) {
  Frame f(args);
  DataCopy(Global(args[1]), f.Operand<int32_t>(0), 64);
  DataCopy(Global(args[1])[8], f.Operand<int32_t>(1), 8);  // BREAKS write-after-write
}
// Cores 0 and 1 write 4 bytes to one place: their numbers, or the same value.
static void WriteOne(void** args, int32_t value, Site site) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 64);
  Duplicate(ub.Get<int32_t>(), value, 8);
  PipeBarrier<PIPE_ALL>();
  const uint64_t place = static_cast<uint64_t>(GetBlockIdx() / 2);
  DataCopyPad(Global(args[1])[place], ub.Get<int32_t>(), DataCopyExtParams(1, 4, 0, 0, 0), site);
}
KERNEL(cores_collide) { WriteOne(args, static_cast<int32_t>(GetBlockIdx()), Site()); }  // BREAKS cross-core
KERNEL(well_ordered_same_bytes) { WriteOne(args, 7, Site()); }
KERNEL(scalar_write_not_cleaned) {
  Global(args[1]).SetValue(0, 1);
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopy(ub.Get<int32_t>(), Global(args[1]), 8);  // BREAKS scalar-cache
}
KERNEL(scalar_read_is_stale) {
  Frame f(args);
  Global(args[1]).GetValue(0);
  PipeBarrier<PIPE_ALL>();
  DataCopy(Global(args[1]), f.Operand<int32_t>(0), 8);
  PipeBarrier<PIPE_ALL>();
  Global(args[1]).GetValue(1);  // BREAKS scalar-cache
}

// The same with the order that the rules ask for: nothing is reported.
KERNEL(well_ordered) {
  Frame f(args);
  const auto out = f.Out<int32_t>();
  DataCopy(f.Operand<int32_t>(0), Global(args[0]), 64);
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
  Adds(out, f.Operand<int32_t>(0), 1, 64);
  PipeBarrier<PIPE_V>();
  Adds(out, out, 1, 64);
  SetFlag<HardEvent::V_S>(3);
  WaitFlag<HardEvent::V_S>(3);
  const int32_t first = out.GetValue(0);
  DataCopy(f.Operand<int32_t>(0), Global(args[0]), 64);  // the scalar unit has waited for the reader
  out.SetValue(1, first + 1);
  SetFlag<HardEvent::S_MTE3>(0);
  WaitFlag<HardEvent::S_MTE3>(0);
  DataCopy(Global(args[1]), out, 64);
  SetFlag<HardEvent::MTE3_MTE2>(0);
  WaitFlag<HardEvent::MTE3_MTE2>(0);
  DataCopy(f.Operand<int32_t>(1), Global(args[1]), 64);
  PipeBarrier<PIPE_MTE3>();
  DataCopy(Global(args[1])[64], f.Operand<int32_t>(3), 8);
  SyncAll();
  Global(args[1]).SetValue(uint64_t{1024}, 5);
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(Global(args[1])[1024]);
  PipeBarrier<PIPE_ALL>();
  DataCopy(f.Operand<int32_t>(2), Global(args[1])[1024], 8);
}
// Neighbouring bytes of one line from two cores, then each other's after SyncAll.
KERNEL(well_ordered_cores) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 64);
  const uint64_t core = static_cast<uint64_t>(GetBlockIdx());
  const uint64_t num_cores = static_cast<uint64_t>(GetBlockNum());
  Duplicate(ub.Get<int32_t>(), static_cast<int32_t>(core) + 1, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(Global(args[1])[core], ub.Get<int32_t>(), DataCopyExtParams(1, 4, 0, 0, 0));
  SyncAll();
  DataCopyPad(Global(args[1])[(core + 1) % num_cores], ub.Get<int32_t>(), DataCopyExtParams(1, 4, 0, 0, 0));
}
KERNEL(well_ordered_turns) {  // core 1 writes before the barrier, core 0 behind it
  if (GetBlockIdx() == 0) SyncAll();
  WriteOne(args, static_cast<int32_t>(GetBlockIdx()), Site());
  if (GetBlockIdx() == 1) SyncAll();
}
KERNEL(order_of_cores) {  // without SyncAll each core runs to its end: the log shows the order
  int64_t* log = static_cast<int64_t*>(args[1]);
  log[1 + log[0]++] = GetBlockIdx();
}

#endif  // AVSG_CPU_CHECKED
