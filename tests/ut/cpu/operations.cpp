// SPDX-License-Identifier: Apache-2.0
// One kernel per element-wise operation: operands A, B, C in, the result out, sizes and scalars from p.
#include "driver.h"

#define BINARY(Name, T)                                                               \
  KERNEL(Name##_##T) {                                                                \
    Frame f(args);                                                                    \
    Name(f.Out<T>(), f.Operand<T>(0), f.Operand<T>(1), static_cast<int32_t>(f.p[0])); \
    f.Finish();                                                                       \
  }                                                                                   \
  KERNEL(Name##_inplace_##T) {                                                        \
    Frame f(args);                                                                    \
    DataCopy(f.Out<T>(), f.Operand<T>(0), kOperand / sizeof(T));                      \
    PipeBarrier<PIPE_V>();                                                            \
    Name(f.Out<T>(), f.Out<T>(), f.Operand<T>(1), static_cast<int32_t>(f.p[0]));      \
    f.Finish();                                                                       \
  }
#define BINARIES(T) BINARY(Add, T) BINARY(Sub, T) BINARY(Mul, T) BINARY(Max, T) BINARY(Min, T)
BINARIES(int16_t)
BINARIES(int32_t)
BINARIES(float)
BINARY(And, uint16_t)
BINARY(Or, uint16_t)

#define SCALAR(Name, T)                                                                      \
  KERNEL(Name##_##T) {                                                                       \
    Frame f(args);                                                                           \
    Name(f.Out<T>(), f.Operand<T>(0), static_cast<T>(f.p[1]), static_cast<int32_t>(f.p[0])); \
    f.Finish();                                                                              \
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

#define DUPLICATE(T)                                                                   \
  KERNEL(Duplicate_##T) {                                                              \
    Frame f(args);                                                                     \
    Duplicate(f.Out<T>(), static_cast<T>(f.p[1]), static_cast<int32_t>(f.p[0]));       \
    f.Finish();                                                                        \
  }                                                                                    \
  KERNEL(CreateVecIndex_##T) {                                                         \
    Frame f(args);                                                                     \
    CreateVecIndex(f.Out<T>(), static_cast<T>(f.p[1]), static_cast<uint32_t>(f.p[0])); \
    f.Finish();                                                                        \
  }
DUPLICATE(int16_t)
DUPLICATE(int32_t)
DUPLICATE(float)

KERNEL(Duplicate_masked) {
  Frame f(args);
  uint64_t mask[2] = {static_cast<uint64_t>(f.p[1]), 0};
  Duplicate(f.Out<int32_t>(), 77, mask, static_cast<uint8_t>(f.p[0]), static_cast<uint16_t>(1),
            static_cast<uint8_t>(8));
  f.Finish();
}

// p: count, mode.
#define COMPARE(T)                                                                                         \
  KERNEL(Compare_##T) {                                                                                    \
    Frame f(args);                                                                                         \
    Compare(f.Out<uint8_t>(), f.Operand<T>(0), f.Operand<T>(1), static_cast<CMPMODE>(f.p[1]),              \
            static_cast<uint32_t>(f.p[0]));                                                                \
    f.Finish();                                                                                            \
  }                                                                                                        \
  KERNEL(CompareScalar_##T) {                                                                              \
    Frame f(args);                                                                                         \
    CompareScalar(f.Out<uint8_t>(), f.Operand<T>(0), static_cast<T>(f.p[2]), static_cast<CMPMODE>(f.p[1]), \
                  static_cast<uint32_t>(f.p[0]));                                                          \
    f.Finish();                                                                                            \
  }
COMPARE(int32_t)
COMPARE(float)

// p: count, mode; mask in C.
KERNEL(Select_tensor) {
  Frame f(args);
  Select(f.Out<float>(), f.Operand<uint8_t>(2), f.Operand<float>(0), f.Operand<float>(1),
         static_cast<SELMODE>(f.p[1]), static_cast<uint32_t>(f.p[0]));
  f.Finish();
}
KERNEL(Select_scalar) {
  Frame f(args);
  Select(f.Out<float>(), f.Operand<uint8_t>(2), f.Operand<float>(0), static_cast<float>(f.p[1]),
         SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(f.p[0]));
  f.Finish();
}
