// SPDX-License-Identifier: Apache-2.0
// Stands in for torch_npu's header: its queue of operators.
#pragma once
#include <functional>
#include <string>

namespace at_npu::native {

struct OpCommand {
  static void RunOpApiV2(const std::string& op_name, const std::function<int()>& func, bool sync = false);
};

}  // namespace at_npu::native
