// SPDX-License-Identifier: Apache-2.0
// One call of an operator as the C ABI takes it, read from the arguments of its schema.
#ifndef AVSG_TORCH_OP_CALL_H
#define AVSG_TORCH_OP_CALL_H

#include "arguments.h"
#include "avsg.h"
#include "avsg_layout.h"
#include "library.h"

namespace sparse_gather {

// What the operator does not have stays zero.
struct OpCall {
  avsg_config config;
  avsg_step step;
  avsg_plan plan;
  avsg_blocks blocks;
  avsg_payload payloads[kMaxPayloads];
  avsg_store_payload store_payloads[kMaxPayloads];
  int32_t num_payloads;
  const int32_t* positions;
  const int32_t* entries;
  int32_t num_new_rows;
  void* state;
  int32_t* counters;
  void* workspace;
  int64_t workspace_bytes;
};

struct Operator {
  const char* name;
  OpCall (*read)(Arguments* arguments);
  int (*run)(const Library& library, OpCall* call, void* stream);
};

OpCall ReadMatch(Arguments* arguments);
OpCall ReadLoad(Arguments* arguments);
OpCall ReadStep(Arguments* arguments);
OpCall ReadStore(Arguments* arguments);
int RunMatch(const Library& library, OpCall* call, void* stream);
int RunLoad(const Library& library, OpCall* call, void* stream);
int RunStep(const Library& library, OpCall* call, void* stream);
int RunStore(const Library& library, OpCall* call, void* stream);

constexpr Operator kMatch{"avsg::match", ReadMatch, RunMatch};
constexpr Operator kLoad{"avsg::load", ReadLoad, RunLoad};
constexpr Operator kStep{"avsg::step", ReadStep, RunStep};
constexpr Operator kStore{"avsg::store", ReadStore, RunStore};

}  // namespace sparse_gather

#endif  // AVSG_TORCH_OP_CALL_H
