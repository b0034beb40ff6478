// SPDX-License-Identifier: Apache-2.0
// Prints what the tiling of a platform makes of a shape: PLATFORM S K Q ROW_BYTES.
#include <cstdio>
#include <cstdlib>

#include "tiling.h"

int main(int argc, char** argv) {
  using namespace sparse_gather;
  if (argc != 6) return 2;
  const Platform* platform = FindPlatform(argv[1]);
  if (platform == nullptr) {
    std::printf("unknown\n");
    return 0;
  }
  const int32_t top_k = std::atoi(argv[3]);
  const int32_t num_queries = std::atoi(argv[4]);
  const PoolShape shape = {4, std::atoi(argv[2]), top_k, num_queries, kMaxLife};
  const int64_t row_bytes = std::atoll(argv[5]);
  const CopyShape copy = {8, num_queries, 128, 64, 1024, 1, &row_bytes, false};
  AvsgTiling fused = {};
  AvsgLoadTiling load = {};
  AvsgStoreTiling store = {};
  const std::string error = MakeFusedTiling(shape, copy, *platform, platform->num_cores, &fused);
  if (!error.empty()) {
    std::printf("error %s\n", error.c_str());
    return 0;
  }
  const bool ok = MakeLoadTiling(shape, copy, *platform, platform->num_cores, &load).empty() &&
                  MakeStoreTiling(copy, 16, *platform, platform->num_cores, &store).empty();
  std::printf("%d %d %d %u %u %u %u %u\n", ok, platform->num_cores, LargestNumSlots(top_k, *platform),
              fused.match.ub.total, fused.copy.total, fused.copy.num_buffers, load.copy.total,
              store.copy.total);
  return 0;
}
