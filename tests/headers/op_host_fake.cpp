// SPDX-License-Identifier: Apache-2.0
// The functions of CANN's libraries that the operator definitions call, declared by the real headers: they
// record what the definitions say and answer from op_host_fake.h.
#include "op_host_fake.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <list>

#include "tiling/platform/platform_ascendc.h"

Chip g_chip;
std::vector<int64_t> g_attrs;
std::string g_log;

namespace {

Definition* g_defined = nullptr;           // the one whose constructor runs
std::vector<Parameter>* g_list = nullptr;  // of the parameter whose constructor runs
std::string g_flags;                       // of the configuration that is being filled

std::map<std::string, ops::OpDefCreator>& Creators() {
  static std::map<std::string, ops::OpDefCreator> creators;
  return creators;
}

}  // namespace

const std::map<std::string, Definition>& Definitions() {
  static std::map<std::string, Definition> definitions;
  if (!definitions.empty()) return definitions;
  for (const auto& creator : Creators()) {
    g_defined = &definitions[creator.first];
    creator.second(creator.first.c_str());
  }
  return definitions;
}

namespace ops {

class OpParamDefImpl {
 public:
  std::vector<Parameter>* list;
  size_t index;
  Parameter& kept() const { return (*list)[index]; }
};
class OpAttrDefImpl {
 public:
  std::string name;
};
class OpAICoreDefImpl {};
class OpAICoreConfigImpl {};
class OpDefImpl {
 public:
  OpParamDef& Add(const char* name, std::vector<Parameter>* list) {
    g_list = list;
    parameters.emplace_back(name);
    return parameters.back();
  }
  std::list<OpParamDef> parameters;
  std::list<OpAttrDef> attrs;
  OpAICoreDef ai_core;
};

OpParamDef::OpParamDef(const char* name) : impl_(new OpParamDefImpl{g_list, g_list->size()}) {
  g_list->emplace_back();
  g_list->back().name = name;
}
OpParamDef::~OpParamDef() = default;
OpParamDef& OpParamDef::ParamType(Option kind) { return impl_->kept().kind = kind, *this; }
OpParamDef& OpParamDef::DataType(std::vector<ge::DataType> types) {
  return impl_->kept().types = types, *this;
}
OpParamDef& OpParamDef::DataTypeForBinQuery(std::vector<ge::DataType> types) {
  return impl_->kept().binary_types = types, *this;
}
OpParamDef& OpParamDef::Format(std::vector<ge::Format> formats) {
  return impl_->kept().formats = formats, *this;
}
OpParamDef& OpParamDef::IgnoreContiguous() { return impl_->kept().ignores_contiguity = true, *this; }

OpAttrDef::OpAttrDef(const char* name) : impl_(new OpAttrDefImpl{name}) {}
OpAttrDef::~OpAttrDef() = default;
OpAttrDef& OpAttrDef::AttrType(Option) { return *this; }
OpAttrDef& OpAttrDef::Int() { return g_defined->attrs.push_back("int " + impl_->name), *this; }
OpAttrDef& OpAttrDef::Bool() { return g_defined->attrs.push_back("bool " + impl_->name), *this; }

OpAICoreDef::OpAICoreDef() {}
OpAICoreDef::~OpAICoreDef() = default;
OpAICoreDef& OpAICoreDef::SetTiling(gert::OpImplRegisterV2::TilingKernelFunc tile) {
  return g_defined->tiling = tile, *this;
}
OpAICoreDef& OpAICoreDef::AddConfig(const char* soc, OpAICoreConfig&) {
  return g_defined->chips.push_back(soc + g_flags), *this;
}

OpAICoreConfig::OpAICoreConfig() { g_flags.clear(); }
OpAICoreConfig::~OpAICoreConfig() = default;
#define AVSG_FLAG(Name)                                        \
  OpAICoreConfig& OpAICoreConfig::Name(bool flag) {            \
    return g_flags += (flag ? " +" #Name : " -" #Name), *this; \
  }
AVSG_FLAG(DynamicCompileStaticFlag)
AVSG_FLAG(DynamicFormatFlag)
AVSG_FLAG(DynamicRankSupportFlag)
AVSG_FLAG(DynamicShapeSupportFlag)
AVSG_FLAG(NeedCheckSupportFlag)
AVSG_FLAG(PrecisionReduceFlag)
#undef AVSG_FLAG

OpDef::OpDef(const char*) : impl_(new OpDefImpl) {}
OpDef::OpDef(const OpDef&) {}
OpDef::~OpDef() = default;
OpParamDef& OpDef::Input(const char* name) { return impl_->Add(name, &g_defined->inputs); }
OpParamDef& OpDef::Output(const char* name) { return impl_->Add(name, &g_defined->outputs); }
OpAttrDef& OpDef::Attr(const char* name) {
  impl_->attrs.emplace_back(name);
  return impl_->attrs.back();
}
OpDef& OpDef::SetInferShape(gert::OpImplRegisterV2::InferShapeKernelFunc infer) {
  return g_defined->infer_shapes = infer, *this;
}
OpDef& OpDef::SetInferDataType(gert::OpImplRegisterV2::InferDataTypeKernelFunc infer) {
  return g_defined->infer_types = infer, *this;
}
OpAICoreDef& OpDef::AICore() { return impl_->ai_core; }

int OpDefFactory::OpDefRegister(const char* name, OpDefCreator creator) {
  Creators()[name] = creator;
  return 0;
}

}  // namespace ops

namespace platform_ascendc {

uint32_t PlatformAscendC::GetCoreNumAiv() const { return g_chip.num_vector_cores; }
uint32_t PlatformAscendC::GetLibApiWorkSpaceSize() const { return g_chip.system_workspace; }
void PlatformAscendC::GetCoreMemSize(const CoreMemType& type, uint64_t& bytes) const {
  bytes = type == CoreMemType::UB ? g_chip.ub_bytes : 0;
}

}  // namespace platform_ascendc

namespace gert {

// A bool is read as a byte, an int as all eight.
const void* RuntimeAttrs::GetPointerByIndex(size_t index) const {
  return index < g_attrs.size() ? &g_attrs[index] : nullptr;
}

// The members of a node lie one behind the other, as the header's getters read them.
void ComputeNodeInfo::Init(size_t ir_inputs_num, size_t ir_outputs_num, size_t inputs_num, size_t outputs_num,
                           size_t attr_size, const ge::char_t* node_name, const ge::char_t* node_type) {
  node_name_ = node_name;
  node_type_ = node_type;
  ir_inputs_num_ = ir_inputs_num;
  ir_outputs_num_ = ir_outputs_num;
  inputs_num_ = inputs_num;
  outputs_num_ = outputs_num;
  runtime_attr_size_ = attr_size;
}

}  // namespace gert

// The log takes the sentence behind the operator's name: "%s: %s\n".
extern "C" int32_t AlogRecord(uint32_t module, uint32_t, int32_t level, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  g_log = std::to_string(module) + " " + std::to_string(level) + " " + text;
  return 0;
}

extern "C" int memset_s(void* to, size_t, int value, size_t count) {
  std::memset(to, value, count);
  return 0;
}
extern "C" int memcpy_s(void* to, size_t, const void* from, size_t count) {
  std::memcpy(to, from, count);
  return 0;
}
