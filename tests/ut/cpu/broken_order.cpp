// SPDX-License-Identifier: Apache-2.0
// One broken rule of order per kernel: events, pipes, cores, the scalar cache. The line ends in its name.
#include "driver.h"

#if AVSG_CPU_CHECKED

// clang-format off: a violation and its rule share a line
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
KERNEL(flag_of_another_pipe) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  SetFlag<HardEvent::MTE2_MTE3>(0);
  WaitFlag<HardEvent::MTE2_MTE3>(0);
  DataCopy(Global(args[1]), f.Out<int32_t>(), 64);  // BREAKS read-after-write
}
KERNEL(barrier_of_another_pipe) {
  Frame f(args);
  DataCopy(f.Operand<int32_t>(0), Global(args[0]), 64);
  PipeBarrier<PIPE_V>();
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);  // BREAKS read-after-write
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
  const auto line = Global(args[1])[1024];
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(line);
  PipeBarrier<PIPE_ALL>();
  DataCopy(f.Operand<int32_t>(2), Global(args[1])[1024], 8);
}
KERNEL(well_ordered_chain) {  // what the vector pipe waited for, its flag passes on
  Frame f(args);
  DataCopy(f.Operand<int32_t>(0), Global(args[0]), 64);
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(Global(args[1]), f.Operand<int32_t>(0), 64);
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
