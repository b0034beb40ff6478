// SPDX-License-Identifier: Apache-2.0
// One kernel per operation that moves, casts, reduces or sorts elements: operands A, B in, the result out.
#include "driver.h"

// p: count, base; offsets in B.
#define GATHER(T)                                                                              \
  KERNEL(Gather_##T) {                                                                         \
    Frame f(args);                                                                             \
    Gather(f.Out<T>(), f.Operand<T>(0), f.Operand<uint32_t>(1), static_cast<uint32_t>(f.p[1]), \
           static_cast<uint32_t>(f.p[0]));                                                     \
    f.Finish();                                                                                \
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

// p: reduce mode, mask, block stride, repeats, repeat stride, pattern stride, in place; pattern in B; count
// ends at out[60 KiB].
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
    GatherMask(f.Out<T>(), src, static_cast<uint8_t>(f.p[7]), f.p[0] != 0, static_cast<uint32_t>(f.p[1]),
               params, kept);
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

#define CAST(D, S)                                                                                    \
  KERNEL(Cast_##S##_to_##D) {                                                                         \
    Frame f(args);                                                                                    \
    Cast(f.Out<D>(), f.Operand<S>(0), static_cast<RoundMode>(f.p[1]), static_cast<uint32_t>(f.p[0])); \
    f.Finish();                                                                                       \
  }
CAST(float, int32_t)
CAST(float, int16_t)
CAST(int32_t, float)
CAST(int16_t, float)
CAST(int16_t, int32_t)

KERNEL(ReduceMax) {
  Frame f(args);
  ReduceMax(f.Out<float>(), f.Operand<float>(0), f.Scratch<float>(), static_cast<int32_t>(f.p[0]),
            f.p[1] != 0);
  f.Finish();
}
KERNEL(ReduceMin) {
  Frame f(args);
  ReduceMin(f.Out<float>(), f.Operand<float>(0), f.Scratch<float>(), static_cast<int32_t>(f.p[0]),
            f.p[1] != 0);
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
