// SPDX-License-Identifier: Apache-2.0
// A planted fault: the library at AVSG_REAL_LIBRARY, but the first two slots of every plan are exchanged.
#include <utility>

#include "real_library.h"

extern "C" int avsg_match(const avsg_config* config, const avsg_step* step, void* state, avsg_plan* plan,
                          void* workspace, void* stream) {
  const int error = FORWARD(avsg_match, config, step, state, plan, workspace, stream);
  std::swap(plan->slots[0], plan->slots[1]);
  return error;
}
