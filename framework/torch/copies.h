// SPDX-License-Identifier: Apache-2.0
// The arguments that load and store share: block table, lists of payloads, rows.
#ifndef AVSG_TORCH_COPIES_H
#define AVSG_TORCH_COPIES_H

#include "arguments.h"
#include "op_call.h"

namespace sparse_gather {

// block_table [B, max_blocks]; num_entries 0: any B
void ReadBlockTable(Arguments* arguments, int32_t num_entries, OpCall* call);

// The first list of a call: one to four payloads.
c10::List<at::Tensor> FirstList(Arguments* arguments, OpCall* call);

// A further list has as many tensors.
void CheckCount(const char* name, size_t count, int32_t num_payloads);

// A host_kv [num_blocks, block_size, ...]; all of a call have the first two dimensions of the first.
void* HostKv(Arguments* arguments, const Argument& host_kv, OpCall* call);

// [leading..., row]: rows of a payload on the call's device.
void* Rows(Arguments* arguments, const Argument& rows, Shape leading, const char* words, int64_t row_bytes);

}  // namespace sparse_gather

#endif  // AVSG_TORCH_COPIES_H
