// SPDX-License-Identifier: Apache-2.0
// The sentence of a thread's last call. Small in thread-local storage: the CPU libraries' is static, of which
// a process has little left when they are loaded late.
#include "last_error.h"

namespace sparse_gather {
namespace {

thread_local std::string last_sentence;
thread_local const char* last_error = "";

}  // namespace

int Succeed() {
  last_error = "";
  return AVSG_OK;
}

int Fail(int code, const std::string& sentence) {
  try {
    last_sentence = sentence;
    last_error = last_sentence.c_str();
  } catch (const std::bad_alloc&) {
    last_error =
        "There is no host memory left, not even for this error's sentence; free some and call again.";
  }
  return code;
}

}  // namespace sparse_gather

extern "C" const char* avsg_last_error(void) { return sparse_gather::last_error; }
