// SPDX-License-Identifier: Apache-2.0
// Reads a call from numbers: num_inputs and for each the count of its tensors, each item_bytes rank dims;
// num_attrs attrs. tests/ut/op_host/operators.py writes it.
#ifndef AVSG_READ_CALL_H
#define AVSG_READ_CALL_H

#include <iostream>

#include "tiling_call.h"

inline int64_t Next() {
  int64_t value = 0;
  std::cin >> value;
  return value;
}

inline sparse_gather::OpCall NextCall() {
  sparse_gather::OpCall call;
  call.inputs.resize(Next());
  for (std::vector<sparse_gather::TensorInfo>& list : call.inputs) {
    list.resize(Next());
    for (sparse_gather::TensorInfo& tensor : list) {
      tensor.item_bytes = Next();
      tensor.dims.resize(Next());
      for (int64_t& dim : tensor.dims) dim = Next();
    }
  }
  call.attrs.resize(Next());
  for (int64_t& attr : call.attrs) attr = Next();
  return call;
}

#endif  // AVSG_READ_CALL_H
