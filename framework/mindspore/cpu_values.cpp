// SPDX-License-Identifier: Apache-2.0
// The value checks of the MindSpore primitives on a CPU.
#include "cpu_values.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "avsg_layout.h"
#include "cpu_arguments.h"

namespace sparse_gather {
namespace {

std::string At(const char* name, int64_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

void Sentence(const std::string& what, int64_t got, const std::string& allowed, const char* remedy) {
  Refuse(what + " is " + std::to_string(got) + ", but " + allowed + " is allowed: " + remedy + ".");
}

void Within(const std::string& what, int64_t got, int64_t low, int64_t high, const char* remedy) {
  if (got < low || got > high)
    Sentence(what, got, std::to_string(low) + " to " + std::to_string(high), remedy);
}

void CheckBlock(const avsg_blocks& blocks, int32_t entry, int32_t token) {
  const int32_t index = token / blocks.block_size;
  if (index >= blocks.max_blocks) {
    Sentence("The block of token " + std::to_string(token) + " of batch entry " + std::to_string(entry),
             index, "a block below max_blocks = " + std::to_string(blocks.max_blocks),
             "pass a block table that covers the sequence");
  }
  const int64_t at = int64_t{entry} * blocks.max_blocks + index;
  Within("block_table[" + std::to_string(entry) + ", " + std::to_string(index) + "]", blocks.block_table[at],
         0, blocks.num_host_blocks - 1, "pass the id of a block of host_kv");
}

bool IsFresh(int32_t verified_len, int32_t token, int32_t num_queries) {
  return verified_len >= 1 && token >= verified_len - 1 && token < verified_len - 1 + num_queries;
}

void CheckRows(const avsg_config& config, const avsg_step& step) {
  std::vector<std::pair<int32_t, int32_t>> named;
  for (int32_t i = 0; i < step.num_entries; ++i) {
    if (step.rows[i] < 0) continue;
    Within(At("rows", i), step.rows[i], 0, config.num_rows - 1,
           "take rows from RowTable.admit, -1 is inactive");
    named.emplace_back(step.rows[i], i);
  }
  std::sort(named.begin(), named.end());
  for (size_t i = 1; i < named.size(); ++i) {
    if (named[i].first != named[i - 1].first) continue;
    Sentence(At("rows", named[i].second), named[i].first,
             "each row once per step (" + At("rows", named[i - 1].second) + " names it too)",
             "pass -1 for an inactive entry");
  }
}

void CheckLengths(const avsg_step& step, int32_t entry) {
  const int32_t seq_len = step.seq_lens[entry];
  Within(At("seq_lens", entry), seq_len, 0, kMaxTokens, "count all tokens, this step's queries included");
  Within(At("verified_lens", entry), step.verified_lens[entry], 0, seq_len, "pass seq_len - queries + 1");
}

}  // namespace

void CheckStep(const avsg_config& config, const avsg_step& step) {
  CheckRows(config, step);
  const int32_t width = step.num_queries * config.top_k;
  for (int32_t entry = 0; entry < step.num_entries; ++entry) {
    if (step.rows[entry] < 0) continue;
    CheckLengths(step, entry);
    for (int32_t i = 0; i < width; ++i) {
      const int64_t at = int64_t{entry} * width + i;
      if (step.topk_tokens[at] < step.seq_lens[entry]) continue;
      Sentence(At("topk_tokens (flat)", at), step.topk_tokens[at],
               "a token below the entry's seq_len = " + std::to_string(step.seq_lens[entry]) +
                   " or a negative number (padding)",
               "mask the indexer's scores past the sequence's end");
    }
  }
}

void CheckStepBlocks(const avsg_config& config, const avsg_step& step, const avsg_blocks& blocks,
                     bool has_fresh) {
  const int32_t width = step.num_queries * config.top_k;
  for (int32_t entry = 0; entry < step.num_entries; ++entry) {
    if (step.rows[entry] < 0) continue;
    for (int32_t i = 0; i < width; ++i) {
      const int32_t token = step.topk_tokens[int64_t{entry} * width + i];
      if (token < 0 || (has_fresh && IsFresh(step.verified_lens[entry], token, step.num_queries))) continue;
      CheckBlock(blocks, entry, token);
    }
  }
}

void CheckLoad(const avsg_config& config, const avsg_plan& plan, const avsg_blocks& blocks, bool has_fresh) {
  const char* remedy = "pass the plan that this pool's match returned, unchanged";
  const int32_t width = plan.num_queries * config.top_k;
  for (int32_t entry = 0; entry < plan.num_entries; ++entry) {
    if (plan.rows[entry] < 0) continue;
    Within(At("plan rows", entry), plan.rows[entry], 0, config.num_rows - 1, remedy);
    Within(At("plan num_misses", entry), plan.num_misses[entry], 0, width, remedy);
    for (int32_t i = 0; i < plan.num_misses[entry]; ++i) {
      const int64_t at = int64_t{entry} * width + i;
      const int32_t token = plan.miss_tokens[at];
      Within(At("plan miss_tokens (flat)", at), token, 0, kMaxTokens - 1, remedy);
      Within(At("plan miss_slots (flat)", at), plan.miss_slots[at], 0, config.num_slots - 1, remedy);
      if (!has_fresh || !IsFresh(plan.verified_lens[entry], token, plan.num_queries))
        CheckBlock(blocks, entry, token);
    }
  }
}

void CheckStore(const avsg_blocks& blocks, const int32_t* positions, const int32_t* entries,
                int32_t num_new_rows) {
  std::vector<std::pair<int64_t, int32_t>> places;
  for (int32_t i = 0; i < num_new_rows; ++i) {
    if (entries[i] == -1) continue;
    Within(At("entries", i), entries[i], 0, blocks.num_entries - 1,
           "name a line of block_table, -1 skips the row");
    Within(At("positions", i), positions[i], 0, kMaxTokens - 1, "pass the row's token number");
    CheckBlock(blocks, entries[i], positions[i]);
    const int64_t line = int64_t{entries[i]} * blocks.max_blocks + positions[i] / blocks.block_size;
    const int64_t block = blocks.block_table[line];
    places.emplace_back(block * blocks.block_size + positions[i] % blocks.block_size, i);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].first != places[i - 1].first) continue;
    Sentence("The host row of " + At("positions", places[i].second), places[i].first,
             "one new row per host row (" + At("positions", places[i - 1].second) + " has it too)",
             "pass -1 in entries for the rows to skip");
  }
}

}  // namespace sparse_gather
