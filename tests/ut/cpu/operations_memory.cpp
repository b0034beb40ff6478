// SPDX-License-Identifier: Apache-2.0
// One kernel per form with strides, per copy, per scalar access, and for events, lists and barriers.
#include "driver.h"
#include "list_tensor.h"

// p: repeats, mask or mask[0], then the six strides, use the bit mask.
KERNEL(Add_strided) {
  Frame f(args);
  const BinaryRepeatParams s(static_cast<uint8_t>(f.p[2]), static_cast<uint8_t>(f.p[3]),
                             static_cast<uint8_t>(f.p[4]), static_cast<uint8_t>(f.p[5]),
                             static_cast<uint8_t>(f.p[6]), static_cast<uint8_t>(f.p[7]));
  uint64_t mask[2] = {static_cast<uint64_t>(f.p[1]), 0};
  if (f.p[8]) {
    Add(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<int32_t>(1), mask, static_cast<uint8_t>(f.p[0]),
        s);
  } else {
    Add(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<int32_t>(1), static_cast<uint64_t>(f.p[1]),
        static_cast<uint8_t>(f.p[0]), s);
  }
  f.Finish();
}
// The minimum over p[0] repeats of A ends in the first repeat of the result.
KERNEL(Min_accumulates) {
  Frame f(args);
  DataCopy(f.Out<int32_t>(), f.Operand<int32_t>(0), 64);
  PipeBarrier<PIPE_V>();
  Min(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Out<int32_t>(), static_cast<uint64_t>(64),
      static_cast<uint8_t>(f.p[0]), BinaryRepeatParams(1, 1, 1, 0, 8, 0));
  f.Finish();
}
KERNEL(Adds_strided) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 100, static_cast<uint64_t>(f.p[1]),
       static_cast<uint8_t>(f.p[0]), UnaryRepeatParams(1, 1, 8, static_cast<uint8_t>(f.p[2])));
  f.Finish();
}

// p: count of bytes; UB to UB.
KERNEL(DataCopy_inside) {
  Frame f(args);
  DataCopy(f.Out<int32_t>(), f.Operand<int32_t>(0), static_cast<uint32_t>(f.p[0]));
  f.Finish();
}
// p: blocks, bytes, GM gap, UB gap, pad, left, right, value, GM offset.
KERNEL(DataCopyPad_in) {
  Frame f(args);
  GlobalTensor<int16_t> from;
  from.SetGlobalBuffer(reinterpret_cast<int16_t*>(static_cast<uint8_t*>(args[0]) + f.p[8]));
  DataCopyPad(f.Out<int16_t>(), from,
              DataCopyExtParams(static_cast<uint16_t>(f.p[0]), static_cast<uint32_t>(f.p[1]),
                                static_cast<uint32_t>(f.p[2]), static_cast<uint32_t>(f.p[3]), 0),
              DataCopyPadExtParams<int16_t>(f.p[4] != 0, static_cast<uint8_t>(f.p[5]),
                                            static_cast<uint8_t>(f.p[6]), static_cast<int16_t>(f.p[7])));
  f.Finish();
}
KERNEL(DataCopyPad_out) {
  Frame f(args);
  GlobalTensor<uint8_t> to;
  to.SetGlobalBuffer(static_cast<uint8_t*>(args[1]) + f.p[8]);
  DataCopyPad(to, f.Operand<uint8_t>(0),
              DataCopyExtParams(static_cast<uint16_t>(f.p[0]), static_cast<uint32_t>(f.p[1]),
                                static_cast<uint32_t>(f.p[3]), static_cast<uint32_t>(f.p[2]), 0));
}

// The first half of the result is read before the copy is waited for, the second half behind the wait.
KERNEL(copy_not_awaited) {
  Frame f(args);
  const auto out = f.Out<int32_t>();
  DataCopy(f.Scratch<int32_t>(), Global(args[1]), 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(f.Scratch<int32_t>(), Global(args[0]), 8);
  Adds(out, f.Scratch<int32_t>(), 0, 8);
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
  Adds(out[8], f.Scratch<int32_t>(), 0, 8);
  f.Finish();
}
KERNEL(marks) {
  Frame f(args);
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 1, 64);
  avsg_cpu::Mark(3);
  PipeBarrier<PIPE_V>();
  Adds(f.Out<int32_t>(), f.Out<int32_t>(), 1, 64);
}

KERNEL(scalars) {  // views of other types and bytes of other widths see the same memory
  Frame f(args);
  const auto a = f.Operand<int32_t>(0);
  const auto pairs = a.ReinterpretCast<uint64_t>();
  f.Out<uint64_t>().SetValue(0, pairs.GetValue(1));
  f.Out<int16_t>().SetValue(4, a[3].ReinterpretCast<int16_t>().GetValue(1));
  f.Out<int32_t>()[8].SetValue(0, static_cast<int32_t>(a.GetSize()));
  f.Out<uint8_t>().SetValue(40, a.ReinterpretCast<uint8_t>().GetValue(5));
  f.Finish();
}
KERNEL(global_scalars) {
  GlobalTensor<int32_t> in;
  GlobalTensor<int32_t> out;
  in.SetGlobalBuffer(static_cast<int32_t*>(args[0]));
  out.SetGlobalBuffer(static_cast<int32_t*>(args[1]), 16);
  out[3].SetValue(1, in[uint64_t{2}].GetValue(5));
  out.SetValue(0, static_cast<int32_t>(out.GetSize()));
}
KERNEL(event_ids) {
  Frame f(args);
  const auto out = f.Out<int32_t>();
  out.SetValue(0, f.pipe.FetchEventID(HardEvent::V_S));
  out.SetValue(1, f.pipe.AllocEventID<HardEvent::V_S>());
  out.SetValue(2, f.pipe.AllocEventID<HardEvent::V_S>());
  out.SetValue(3, f.pipe.FetchEventID<HardEvent::V_S>());
  f.pipe.ReleaseEventID<HardEvent::V_S>(0);
  out.SetValue(4, f.pipe.FetchEventID(HardEvent::V_S));
  out.SetValue(5, f.pipe.FetchEventID(HardEvent::S_V));
  f.Finish();
}
// Reads a list made by BuildListTensor at in[0]: writes its size and the first int32 of every tensor.
KERNEL(tensor_list) {
  Frame f(args);
  ListTensorDesc list(args[0]);
  const auto out = f.Out<int32_t>();
  out.SetValue(0, static_cast<int32_t>(list.GetSize()));
  for (uint32_t i = 0; i < list.GetSize(); ++i) {
    GlobalTensor<int32_t> tensor;
    tensor.SetGlobalBuffer(list.GetDataPtr<int32_t>(i));
    out.SetValue(1 + i, tensor.GetValue(0));
  }
  f.Finish();
}

// Each core adds to the sum that the cores before the barrier have left: p[0] rounds.
KERNEL(rounds) {
  const int64_t num_rounds = static_cast<int64_t*>(args[2])[0];
  const int64_t core = GetBlockIdx();
  const int64_t num_cores = GetBlockNum();
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 4096);
  const auto line = ub.GetWithOffset<int32_t>(8, 0);
  GlobalTensor<int32_t> out;
  out.SetGlobalBuffer(static_cast<int32_t*>(args[1]));
  int32_t value = static_cast<int32_t>(core);
  for (int64_t round = 0; round < num_rounds; ++round) {
    Duplicate(line, value, 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(out[static_cast<uint64_t>(core * 128)], line, 8);
    SyncAll();
    DataCopy(line, out[static_cast<uint64_t>((core + 1) % num_cores * 128)], 8);
    PipeBarrier<PIPE_ALL>();
    value = line.GetValue(0) + 1;
    SyncAll();
  }
}

// in[0..] becomes a list of two tensors at in + 1 KiB and in + 2 KiB.
extern "C" uint64_t make_list(uint8_t* in) {
  void* tensors[2] = {in + 1024, in + 2048};
  const uint64_t lengths[2] = {16, 32};
  avsg_cpu::ListTensor list;
  const uint64_t bytes = avsg_cpu::BuildListTensor(tensors, lengths, 2, &list);
  std::memcpy(in, &list, bytes);
  return bytes;
}
