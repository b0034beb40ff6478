// SPDX-License-Identifier: Apache-2.0
// All kernels for one level of the instruction set. Compiled once per level, with AVSG_CPU_LEVEL and the
// matching -march.
// clang-format off: level.h renames what the kernels define, so it comes first
#include "level.h"

#include <utility>

#include "avsg.cpp"
#include "avsg_load.cpp"
#include "avsg_match.cpp"
#include "avsg_store.cpp"
#include "launch.h"
// clang-format on

namespace avsg_cpu {
namespace {

// Calls a kernel with args[0], args[1], ... as its parameters.
template <typename... Parameters, int... kIndex>
void Spread(void (*entry)(Parameters...), void** args, std::integer_sequence<int, kIndex...>) {
  entry(static_cast<GM_ADDR>(args[kIndex])...);
  CarryOutAll();
}
template <typename... Parameters>
void Call(void (*entry)(Parameters...), void** args) {
  Spread(entry, args, std::make_integer_sequence<int, sizeof...(Parameters)>());
}

void Match(void** args) { Call(&avsg_match, args); }
void Load(void** args) { Call(&avsg_load, args); }
void Step(void** args) { Call(&::avsg, args); }
void Store(void** args) { Call(&avsg_store, args); }

#define AVSG_CPU_STRING_(x) #x
#define AVSG_CPU_STRING(x) AVSG_CPU_STRING_(x)

// The level with hyphens, as compilers spell it.
struct LevelName {
  char text[sizeof(AVSG_CPU_STRING(AVSG_CPU_LEVEL))];
};
constexpr LevelName MakeLevelName() {
  LevelName name = {AVSG_CPU_STRING(AVSG_CPU_LEVEL)};
  for (char& c : name.text) c = c == '_' ? '-' : c;
  return name;
}
constexpr LevelName kLevelName = MakeLevelName();

}  // namespace

extern const Kernels AVSG_CPU_PASTE(kKernels, AVSG_CPU_LEVEL);
const Kernels AVSG_CPU_PASTE(kKernels, AVSG_CPU_LEVEL) = {kLevelName.text, Match, Load, Step, Store};

}  // namespace avsg_cpu
