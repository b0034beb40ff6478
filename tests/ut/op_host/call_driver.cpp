// SPDX-License-Identifier: Apache-2.0
// Tiles a call that standard input describes and compares with the tiling of sizes that it names too. Input,
// numbers apart from the first word: OPERATOR reported_ub num_cores; the call (read_call.h); then num_rows
// num_slots top_k num_queries max_life, entries queries new_rows block_size max_blocks num_host_blocks
// has_fresh, num_payloads row_bytes.
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "read_call.h"

namespace {

using namespace sparse_gather;

template <typename Tiling>
int Compare(const std::string& error, const Tiling& tiling, const std::string& wanted_error,
            const Tiling& wanted) {
  if (!error.empty()) {
    std::cout << "error " << error << "\n";
  } else if (!wanted_error.empty()) {
    std::cout << "wanted " << wanted_error << "\n";
  } else {
    std::cout << (std::memcmp(&tiling, &wanted, sizeof(Tiling)) == 0 ? "same" : "differs") << "\n";
  }
  return 0;
}

}  // namespace

int main() {
  std::string op;
  std::cin >> op;
  const int64_t reported_ub = Next();
  Platform platform = *FindPlatform("ascend910b");
  const std::string chip_error = FitPlatform(reported_ub, &platform);
  const int32_t cores = static_cast<int32_t>(Next());
  const OpCall call = NextCall();
  int32_t pool[5], copy[5];
  for (int32_t& value : pool) value = static_cast<int32_t>(Next());
  for (int32_t& value : copy) value = static_cast<int32_t>(Next());
  const int64_t num_host_blocks = Next();
  const bool has_fresh = Next() != 0;
  std::vector<int64_t> row_bytes(Next());
  for (int64_t& value : row_bytes) value = Next();
  if (!chip_error.empty()) {
    std::cout << "error " << chip_error << "\n";
    return 0;
  }
  const PoolShape shape = {pool[0], pool[1], pool[2], pool[3], pool[4]};
  const CopyShape copy_shape = {copy[0],          copy[1],         copy[3],
                                copy[4],          num_host_blocks, static_cast<int32_t>(row_bytes.size()),
                                row_bytes.data(), has_fresh};
  AvsgTiling fused = {}, wanted_fused = {};
  AvsgMatchTiling match = {}, wanted_match = {};
  AvsgLoadTiling load = {}, wanted_load = {};
  AvsgStoreTiling store = {}, wanted_store = {};
  if (op == "match") {
    return Compare(TileMatchCall(call, platform, cores, &match), match,
                   MakeMatchTiling(shape, copy[0], copy[1], platform, cores, &wanted_match.match),
                   wanted_match);
  }
  if (op == "load") {
    return Compare(TileLoadCall(call, platform, cores, &load), load,
                   MakeLoadTiling(shape, copy_shape, platform, cores, &wanted_load), wanted_load);
  }
  if (op == "store") {
    return Compare(TileStoreCall(call, platform, cores, &store), store,
                   MakeStoreTiling(copy_shape, copy[2], platform, cores, &wanted_store), wanted_store);
  }
  return Compare(TileFusedCall(call, platform, cores, &fused), fused,
                 MakeFusedTiling(shape, copy_shape, platform, cores, &wanted_fused), wanted_fused);
}
