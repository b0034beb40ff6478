// SPDX-License-Identifier: Apache-2.0
// What each library of the C ABI provides behind the shared entry points; codes are those of avsg.h.
#ifndef AVSG_CALLS_H
#define AVSG_CALLS_H

#include <cstdint>

#include "avsg.h"
#include "check.h"
#include "last_error.h"
#include "tiling.h"

namespace sparse_gather {

// AVSG_OK once the library can run; before that every call ends with this code and its sentence.
int Ready();

// Runs one entry point's call; no C++ exception reaches the C caller.
template <typename Body>
int WhenReady(Body&& body) noexcept {
  return Guarded([&] {
    const int code = Ready();
    return code == AVSG_OK ? body() : code;
  });
}

// The device of this library; valid after Ready.
const Platform& Device();

// Cores of a launch with this config.
int32_t NumCores(const avsg_config& config);

// Bytes of workspace that any call of this library needs at most; valid after Ready.
int64_t WorkspaceBytes();

int Match(const Call& call);
int Load(const Call& call);
int StepFused(const Call& call);
int Store(const Call& call);

}  // namespace sparse_gather

#endif  // AVSG_CALLS_H
