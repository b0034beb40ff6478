// SPDX-License-Identifier: Apache-2.0
// The sentence of a thread's last call, in fixed storage so that reporting "out of memory" allocates nothing.
#include "last_error.h"

#include <cstdio>

namespace sparse_gather {
namespace {

thread_local char last_sentence[1024] = "";

}  // namespace

int Succeed() {
  last_sentence[0] = '\0';
  return AVSG_OK;
}

int Fail(int code, const std::string& sentence) {
  std::snprintf(last_sentence, sizeof(last_sentence), "%s", sentence.c_str());
  return code;
}

}  // namespace sparse_gather

extern "C" const char* avsg_last_error(void) { return sparse_gather::last_sentence; }
