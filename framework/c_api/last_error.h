// SPDX-License-Identifier: Apache-2.0
// The sentence behind avsg_last_error, shared by all libraries of the C ABI.
#ifndef AVSG_LAST_ERROR_H
#define AVSG_LAST_ERROR_H

#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "avsg.h"

namespace sparse_gather {

// Both keep the outcome for this thread's avsg_last_error and return the code.
int Succeed();
int Fail(int code, const std::string& sentence);

// Runs one ABI call so that no C++ exception reaches the C caller.
template <typename Call>
int Guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Fail(AVSG_OUT_OF_MEMORY, "The call ran out of host memory; free some and call again.");
  } catch (const std::system_error& error) {
    return Fail(AVSG_OUT_OF_MEMORY, std::string("The system refused a thread (") + error.what() +
                                        "); give a smaller num_cores or raise its limits (ulimit -u).");
  } catch (const std::exception& error) {
    return Fail(AVSG_INTERNAL, std::string("Internal error: ") + error.what() + "; please report it.");
  }
}

}  // namespace sparse_gather

#endif  // AVSG_LAST_ERROR_H
