// SPDX-License-Identifier: Apache-2.0
// The arguments that load and store share: block table, lists of payloads, rows.
#include "copies.h"

namespace sparse_gather {

void ReadBlockTable(Arguments* arguments, int32_t num_entries, OpCall* call) {
  const Argument table = arguments->Next();
  const bool is_table = table.tensor.dim() == 2 && table.Size(0) >= 1 && table.Size(1) >= 1;
  if (!is_table || (num_entries != 0 && table.Size(0) != num_entries)) {
    RefuseValue("block_table.shape", table.ShapeText(),
                "[B, max_blocks] with B " +
                    (num_entries == 0 ? "of 1 or more" : "= " + std::to_string(num_entries)) +
                    " and max_blocks of 1 or more",
                "pass one line of block ids per batch entry");
  }
  call->blocks.struct_bytes = sizeof(call->blocks);
  call->blocks.num_entries = table.Size32(0);
  call->blocks.max_blocks = table.Size32(1);
  call->blocks.block_table = arguments->Int32Memory(table);
}

void CheckCount(const char* name, size_t count, int32_t num_payloads) {
  if (count == static_cast<size_t>(num_payloads)) return;
  RefuseValue("the number of tensors in " + std::string(name), std::to_string(count),
              "one for each payload, " + std::to_string(num_payloads) + ",", "pass lists of the same length");
}

c10::List<at::Tensor> FirstList(Arguments* arguments, OpCall* call) {
  c10::List<at::Tensor> list = arguments->NextList();
  if (list.empty() || list.size() > static_cast<size_t>(kMaxPayloads)) {
    RefuseValue("the number of tensors in " + std::string(arguments->ListName()), std::to_string(list.size()),
                "1 to " + std::to_string(kMaxPayloads), "pass one tensor for each payload");
  }
  call->num_payloads = static_cast<int32_t>(list.size());
  return list;
}

void* HostKv(Arguments* arguments, const Argument& host_kv, OpCall* call) {
  avsg_blocks& blocks = call->blocks;
  const bool is_first = host_kv.index == 0;
  if (host_kv.tensor.dim() < 2 || host_kv.RowBytes(0) == 0) {
    RefuseValue(host_kv.Name() + ".shape", host_kv.ShapeText(),
                "[num_blocks, block_size, ...] without an empty dimension", "pass that shape");
  }
  if (is_first) {
    blocks.num_host_blocks = host_kv.Size(0);
    blocks.block_size = host_kv.Size32(1);
  } else if (host_kv.Size(0) != blocks.num_host_blocks || host_kv.Size(1) != blocks.block_size) {
    RefuseValue(host_kv.Name() + ".shape", host_kv.ShapeText(),
                "the blocks of host_kv[0], [" + std::to_string(blocks.num_host_blocks) + ", " +
                    std::to_string(blocks.block_size) + ", ...],",
                "give every payload the same blocks, one block table addresses them all");
  }
  const int64_t row_bytes = host_kv.RowBytes(2);
  if (row_bytes % kRowBytesMultiple != 0) {
    RefuseValue("the bytes per row of " + host_kv.Name(), std::to_string(row_bytes),
                "a multiple of " + std::to_string(kRowBytesMultiple), "pad the row");
  }
  return arguments->HostMemory(host_kv);
}

void* Rows(Arguments* arguments, const Argument& rows, Shape leading, const char* words, int64_t row_bytes) {
  const auto num_dims = static_cast<int64_t>(leading.size());
  bool equal = rows.tensor.dim() >= num_dims;
  std::string text;
  for (int64_t dim = 0; dim < num_dims; ++dim) {
    equal = equal && rows.Size(dim) == leading.begin()[dim];
    text += std::to_string(leading.begin()[dim]) + ", ";
  }
  if (!equal) {
    RefuseValue(rows.Name() + ".shape", rows.ShapeText(), std::string(words) + " = [" + text + "...]",
                "pass that shape");
  }
  if (rows.RowBytes(num_dims) != row_bytes) {
    RefuseValue("the bytes per row of " + rows.Name(), std::to_string(rows.RowBytes(num_dims)),
                "that of its host_kv, " + std::to_string(row_bytes) + ",", "give both the same row");
  }
  return arguments->Memory(rows);
}

}  // namespace sparse_gather
