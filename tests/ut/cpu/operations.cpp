// SPDX-License-Identifier: Apache-2.0
// One kernel per operation: operands A, B, C in, the result out, sizes and scalars from the parameters.
#include "driver.h"
#include "list_tensor.h"

#define BINARY(Name, T)                                                                             \
  KERNEL(Name##_##T) {                                                                              \
    Frame f(args);                                                                                  \
    Name(f.Out<T>(), f.Operand<T>(0), f.Operand<T>(1), static_cast<int32_t>(f.p[0]));               \
    f.Finish();                                                                                     \
  }                                                                                                 \
  KERNEL(Name##_inplace_##T) {                                                                      \
    Frame f(args);                                                                                  \
    DataCopy(f.Out<T>(), f.Operand<T>(0), kOperand / sizeof(T));                                    \
    PipeBarrier<PIPE_V>();                                                                          \
    Name(f.Out<T>(), f.Out<T>(), f.Operand<T>(1), static_cast<int32_t>(f.p[0]));                    \
    f.Finish();                                                                                     \
  }
#define BINARIES(T) BINARY(Add, T) BINARY(Sub, T) BINARY(Mul, T) BINARY(Max, T) BINARY(Min, T)
BINARIES(int16_t)
BINARIES(int32_t)
BINARIES(float)
BINARY(And, uint16_t)
BINARY(Or, uint16_t)

#define SCALAR(Name, T)                                                                                       \
  KERNEL(Name##_##T) {                                                                                        \
    Frame f(args);                                                                                            \
    Name(f.Out<T>(), f.Operand<T>(0), static_cast<T>(f.p[1]), static_cast<int32_t>(f.p[0]));                  \
    f.Finish();                                                                                               \
  }
#define SCALARS(T) SCALAR(Adds, T) SCALAR(Muls, T) SCALAR(Maxs, T) SCALAR(Mins, T)
SCALARS(int16_t)
SCALARS(int32_t)
SCALARS(float)
#define SHIFTS(T) SCALAR(ShiftLeft, T) SCALAR(ShiftRight, T)
SHIFTS(int16_t)
SHIFTS(uint16_t)
SHIFTS(int32_t)
SHIFTS(uint32_t)

KERNEL(Not_uint16_t) {
  Frame f(args);
  Not(f.Out<uint16_t>(), f.Operand<uint16_t>(0), static_cast<int32_t>(f.p[0]));
  f.Finish();
}
KERNEL(And_int32_t) {  // the trap: half of the words
  Frame f(args);
  And(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<int32_t>(1), static_cast<int32_t>(f.p[0]));
  f.Finish();
}

#define DUPLICATE(T)                                                             \
  KERNEL(Duplicate_##T) {                                                        \
    Frame f(args);                                                               \
    Duplicate(f.Out<T>(), static_cast<T>(f.p[1]), static_cast<int32_t>(f.p[0])); \
    f.Finish();                                                                  \
  }                                                                              \
  KERNEL(CreateVecIndex_##T) {                                                   \
    Frame f(args);                                                               \
    CreateVecIndex(f.Out<T>(), static_cast<T>(f.p[1]), static_cast<uint32_t>(f.p[0])); \
    f.Finish();                                                                  \
  }
DUPLICATE(int16_t)
DUPLICATE(int32_t)
DUPLICATE(float)

KERNEL(Duplicate_masked) {
  Frame f(args);
  uint64_t mask[2] = {static_cast<uint64_t>(f.p[1]), 0};
  Duplicate(f.Out<int32_t>(), 77, mask, static_cast<uint8_t>(f.p[0]), static_cast<uint16_t>(1), static_cast<uint8_t>(8));
  f.Finish();
}

// p: count, mode.
#define COMPARE(T)                                                                                               \
  KERNEL(Compare_##T) {                                                                                          \
    Frame f(args);                                                                                               \
    Compare(f.Out<uint8_t>(), f.Operand<T>(0), f.Operand<T>(1), static_cast<CMPMODE>(f.p[1]),                    \
            static_cast<uint32_t>(f.p[0]));                                                                      \
    f.Finish();                                                                                                  \
  }                                                                                                              \
  KERNEL(CompareScalar_##T) {                                                                                    \
    Frame f(args);                                                                                               \
    CompareScalar(f.Out<uint8_t>(), f.Operand<T>(0), static_cast<T>(f.p[2]), static_cast<CMPMODE>(f.p[1]),       \
                  static_cast<uint32_t>(f.p[0]));                                                                \
    f.Finish();                                                                                                  \
  }
COMPARE(int32_t)
COMPARE(float)

// p: count, mode; mask in C.
KERNEL(Select_tensor) {
  Frame f(args);
  Select(f.Out<float>(), f.Operand<uint8_t>(2), f.Operand<float>(0), f.Operand<float>(1), static_cast<SELMODE>(f.p[1]),
         static_cast<uint32_t>(f.p[0]));
  f.Finish();
}
KERNEL(Select_scalar) {
  Frame f(args);
  Select(f.Out<float>(), f.Operand<uint8_t>(2), f.Operand<float>(0), static_cast<float>(f.p[1]),
         SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(f.p[0]));
  f.Finish();
}

// p: count, base; offsets in B.
#define GATHER(T)                                                                                          \
  KERNEL(Gather_##T) {                                                                                     \
    Frame f(args);                                                                                         \
    Gather(f.Out<T>(), f.Operand<T>(0), f.Operand<uint32_t>(1), static_cast<uint32_t>(f.p[1]),             \
           static_cast<uint32_t>(f.p[0]));                                                                 \
    f.Finish();                                                                                            \
  }
GATHER(int32_t)
GATHER(uint16_t)

// p: base, mask, repeats, repeat stride.
KERNEL(Gather_repeats) {
  Frame f(args);
  Gather(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<uint32_t>(1), static_cast<uint32_t>(f.p[0]),
         static_cast<uint64_t>(f.p[1]), static_cast<uint8_t>(f.p[2]), static_cast<uint16_t>(f.p[3]));
  f.Finish();
}

// All zero offsets, 16,384 + p[0] words: the count wraps in eight bits.
KERNEL(Gather_wraps) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, avsg_cpu::kUsableUbBytes);
  const uint32_t count = 16384 + static_cast<uint32_t>(static_cast<int64_t*>(args[2])[0]);
  const auto offsets = ub.GetWithOffset<uint32_t>(count, 0);
  const auto dst = ub.GetWithOffset<int32_t>(count, 66 * 1024);
  const auto src = ub.GetWithOffset<int32_t>(64, 132 * 1024);
  Duplicate(offsets, 0u, static_cast<int32_t>(count));
  Duplicate(dst, 5, static_cast<int32_t>(count));
  Duplicate(src, 9, 64);
  PipeBarrier<PIPE_V>();
  Gather(dst, src, offsets, 0u, count);
  PipeBarrier<PIPE_ALL>();
  GlobalTensor<int32_t> out;
  out.SetGlobalBuffer(static_cast<int32_t*>(args[1]));
  DataCopy(out, dst, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(out[8], dst[16384], 8);
}

// p: reduce mode, mask, block stride, repeats, repeat stride, pattern stride, in place; pattern in B; count ends at out[60 KiB].
template <typename T, typename U>
void RunGatherMask(void** args, bool fixed) {
  Frame f(args);
  const GatherMaskParams params(static_cast<uint8_t>(f.p[2]), static_cast<uint16_t>(f.p[3]),
                                static_cast<uint16_t>(f.p[4]), static_cast<uint8_t>(f.p[5]));
  LocalTensor<T> src = f.Operand<T>(0);
  if (f.p[6]) {
    DataCopy(f.Out<T>(), src, kOperand / sizeof(T));
    PipeBarrier<PIPE_V>();
    src = f.Out<T>();
  }
  uint64_t kept = 99;
  if (fixed) {
    GatherMask(f.Out<T>(), src, static_cast<uint8_t>(f.p[7]), f.p[0] != 0, static_cast<uint32_t>(f.p[1]), params, kept);
  } else {
    GatherMask(f.Out<T>(), src, f.Operand<U>(1), f.p[0] != 0, static_cast<uint32_t>(f.p[1]), params, kept);
  }
  f.Out<uint64_t>().SetValue(60 * 1024 / 8, kept);
  f.Finish();
}
KERNEL(GatherMask_int32_t) { RunGatherMask<int32_t, uint32_t>(args, false); }
KERNEL(GatherMask_int16_t) { RunGatherMask<int16_t, uint16_t>(args, false); }
KERNEL(GatherMask_fixed_int32_t) { RunGatherMask<int32_t, uint32_t>(args, true); }
KERNEL(GatherMask_fixed_int16_t) { RunGatherMask<int16_t, uint16_t>(args, true); }

#define CAST(D, S)                                                                                             \
  KERNEL(Cast_##S##_to_##D) {                                                                                  \
    Frame f(args);                                                                                             \
    Cast(f.Out<D>(), f.Operand<S>(0), static_cast<RoundMode>(f.p[1]), static_cast<uint32_t>(f.p[0]));          \
    f.Finish();                                                                                                \
  }
CAST(float, int32_t)
CAST(float, int16_t)
CAST(int32_t, float)
CAST(int16_t, float)
CAST(int16_t, int32_t)

KERNEL(ReduceMax) {
  Frame f(args);
  ReduceMax(f.Out<float>(), f.Operand<float>(0), f.Scratch<float>(), static_cast<int32_t>(f.p[0]), f.p[1] != 0);
  f.Finish();
}
KERNEL(ReduceMin) {
  Frame f(args);
  ReduceMin(f.Out<float>(), f.Operand<float>(0), f.Scratch<float>(), static_cast<int32_t>(f.p[0]), f.p[1] != 0);
  f.Finish();
}
KERNEL(ReduceSum) {
  Frame f(args);
  ReduceSum(f.Out<float>(), f.Operand<float>(0), f.Scratch<float>(), static_cast<int32_t>(f.p[0]));
  f.Finish();
}

KERNEL(Sort32) {
  Frame f(args);
  Sort32(f.Out<float>(), f.Operand<float>(0), f.Operand<uint32_t>(1), static_cast<int32_t>(f.p[0]));
  f.Finish();
}
// Queues in A, one behind the other; p: valid bits, repeats, lengths.
KERNEL(MrgSort) {
  Frame f(args);
  const LocalTensor<float> a = f.Operand<float>(0);
  MrgSort4Info info;
  info.validBit = static_cast<uint16_t>(f.p[0]);
  info.repeatTimes = static_cast<uint8_t>(f.p[1]);
  uint32_t start[5] = {0, 0, 0, 0, 0};
  for (int i = 0; i < 4; ++i) {
    info.elementLengths[i] = static_cast<uint16_t>(f.p[2 + i]);
    start[i + 1] = start[i] + 2 * static_cast<uint32_t>(f.p[2 + i]);
  }
  MrgSort(f.Out<float>(), MrgSortSrcList<float>(a[start[0]], a[start[1]], a[start[2]], a[start[3]]), info);
  f.Finish();
}

// p: repeats, mask or mask[0], then the six strides, use the bit mask.
KERNEL(Add_strided) {
  Frame f(args);
  const BinaryRepeatParams s(static_cast<uint8_t>(f.p[2]), static_cast<uint8_t>(f.p[3]), static_cast<uint8_t>(f.p[4]),
                             static_cast<uint8_t>(f.p[5]), static_cast<uint8_t>(f.p[6]), static_cast<uint8_t>(f.p[7]));
  uint64_t mask[2] = {static_cast<uint64_t>(f.p[1]), 0};
  if (f.p[8]) {
    Add(f.Out<int32_t>(), f.Operand<int32_t>(0), f.Operand<int32_t>(1), mask, static_cast<uint8_t>(f.p[0]), s);
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
  Adds(f.Out<int32_t>(), f.Operand<int32_t>(0), 100, static_cast<uint64_t>(f.p[1]), static_cast<uint8_t>(f.p[0]),
       UnaryRepeatParams(1, 1, 8, static_cast<uint8_t>(f.p[2])));
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
              DataCopyPadExtParams<int16_t>(f.p[4] != 0, static_cast<uint8_t>(f.p[5]), static_cast<uint8_t>(f.p[6]),
                                            static_cast<int16_t>(f.p[7])));
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
