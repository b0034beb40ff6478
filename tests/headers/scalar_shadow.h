// SPDX-License-Identifier: Apache-2.0
// Force-included before all else: scalar reads and writes of UB count and take part in the hazard shadow,
// because GetValue and SetValue of the toolkit's LocalTensor tell the rig where they go.
#ifndef AVSG_SCALAR_SHADOW_H
#define AVSG_SCALAR_SHADOW_H

#include "ascemu.h"
#include "kernel_tensor_impl.h"  // the class alone: kernel_operator.h already calls GetValue

namespace AscendC {

#define AVSG_SHADOW(T)                                                              \
  template <>                                                                       \
  inline T LocalTensor<T>::GetValue(const uint32_t offset) const {                  \
    const T* at = GetPhyAddr(offset);                                               \
    EmuScalarAt(0, at, sizeof(T));                                                  \
    return *at;                                                                     \
  }                                                                                 \
  template <>                                                                       \
  template <typename V>                                                             \
  inline void LocalTensor<T>::SetValue(const uint32_t index, const V value) const { \
    T* at = GetPhyAddr(index);                                                      \
    EmuScalarAt(1, at, sizeof(T));                                                  \
    *at = value;                                                                    \
  }

AVSG_SHADOW(int16_t)
AVSG_SHADOW(uint16_t)
AVSG_SHADOW(int32_t)
AVSG_SHADOW(uint32_t)
AVSG_SHADOW(float)
AVSG_SHADOW(int64_t)
AVSG_SHADOW(uint64_t)

#undef AVSG_SHADOW

}  // namespace AscendC

namespace avsg_cpu {

inline void CarryOutAll() {}  // the rig's copies are never late

}  // namespace avsg_cpu

#endif  // AVSG_SCALAR_SHADOW_H
