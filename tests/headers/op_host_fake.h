// SPDX-License-Identifier: Apache-2.0
// What the stand-ins for CANN's registry, platform and log keep for op_host_run.cpp.
#ifndef AVSG_OP_HOST_FAKE_H
#define AVSG_OP_HOST_FAKE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "register/op_def_registry.h"

struct Parameter {
  std::string name;
  ops::Option kind = ops::REQUIRED;
  std::vector<ge::DataType> types;
  std::vector<ge::DataType> binary_types;
  std::vector<ge::Format> formats;
  bool ignores_contiguity = false;
};

struct Definition {
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<std::string> attrs;  // "int num_slots"
  std::vector<std::string> chips;
  gert::OpImplRegisterV2::TilingKernelFunc tiling = nullptr;
  gert::OpImplRegisterV2::InferShapeKernelFunc infer_shapes = nullptr;
  gert::OpImplRegisterV2::InferDataTypeKernelFunc infer_types = nullptr;
};

// By operator type, made by the constructors that OP_ADD registered.
const std::map<std::string, Definition>& Definitions();

struct Chip {
  uint32_t num_vector_cores = 40;
  uint64_t ub_bytes = 192 * 1024;
  uint32_t system_workspace = 16 * 1024 * 1024;
};
extern Chip g_chip;
extern std::vector<int64_t> g_attrs;  // of the call that runs
extern std::string g_log;             // the last error

#endif  // AVSG_OP_HOST_FAKE_H
