# SPDX-License-Identifier: Apache-2.0
"""The torch_npu operators that MindIE's DSA attention calls, in plain torch on a CPU, without a host read
of device values.

They follow the operators' documented contracts as far as the adapter depends on them: negative indices of
a cache write are skipped, the indexer's causal limit, the scan order and the two sparse modes of the
attention. Every result depends on the contents of tensors only, so that a recorded run can be replayed
(graph_tape.py).
"""

from __future__ import annotations

import torch

TOP_K = 64  # the stock class passes sparse_count 2048; tests choose the K that fits their sizes


def _write_rows(cache: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
    """cache [N, D]: row index[t] becomes values[t], negative indices are skipped, the last writer wins.

    Tokens without a valid index write row 0 as well, with what it holds in the end.
    """
    valid = (index >= 0) & (index < cache.shape[0])
    target = torch.where(valid, index.to(torch.int64), 0)
    same = (target.unsqueeze(1) == target.unsqueeze(0)) & valid.unsqueeze(0)  # [token, writer of its row]
    token = torch.arange(index.shape[0])
    writer = torch.where(same, token.unsqueeze(0), -1).amax(1)
    chosen = values.to(cache.dtype)[writer.clamp(min=0)]
    cache[target] = torch.where((writer >= 0).unsqueeze(1), chosen, cache[target])


def npu_scatter_nd_update_(cache: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """cache [N, D], indices [T, 1], updates [T, D]."""
    _write_rows(cache, indices.view(-1), updates)
    return cache


def _rms(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon) * weight.float()).to(x.dtype)


def npu_rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, None]:
    return _rms(x, weight, epsilon), None


def npu_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, None, torch.Tensor]:
    total = x + residual
    return _rms(total, weight, epsilon), None, total


def npu_swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def npu_rotary_mul(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [T, H, 1, R] or [T, 1, 1, R]; cos, sin [.., T, .., R]; rotates halves."""
    cos, sin = (table.reshape(-1, 1, 1, x.shape[-1]) for table in (cos, sin))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def npu_interleave_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [T, H, 1, R]: pairs are gathered to halves, then rotated."""
    return npu_rotary_mul(torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1), cos, sin)


def npu_kv_rmsnorm_rope_cache(
    kv: torch.Tensor,
    gamma: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    index: torch.Tensor,
    k_cache: torch.Tensor,
    ckv_cache: torch.Tensor,
    *,
    epsilon: float,
    cache_mode: str,
    **_: object,
) -> tuple[torch.Tensor, torch.Tensor, None, None]:
    """kv [T, 1, 1, D + R]; writes row index[t] of both caches; returns them, rope first."""
    assert cache_mode == "PA" and index.dtype == torch.int64
    dim = ckv_cache.shape[-1]
    nope = _rms(kv[..., :dim], gamma, epsilon)
    rope = npu_interleave_rope(kv[..., dim:], cos, sin)
    _write_rows(ckv_cache.view(-1, dim), index, nope.reshape(-1, dim))
    _write_rows(k_cache.view(-1, k_cache.shape[-1]), index, rope.reshape(-1, k_cache.shape[-1]))
    return k_cache, ckv_cache, None, None


def npu_transpose_batchmatmul(x: torch.Tensor, weight: torch.Tensor, **_: object) -> torch.Tensor:
    """x [T, H, D], weight [H, D, V] -> [T, H, V]."""
    return torch.bmm(x.transpose(0, 1), weight).transpose(0, 1)


def _queries(num_tokens: int, cumulative: torch.Tensor, kv_lens: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """For every token: its entry, and the keys it may see with and without the causal limit; no entry: 0
    keys."""
    num_entries = kv_lens.shape[0]
    token = torch.arange(num_tokens)
    ends = cumulative[:num_entries].to(torch.int64)
    entry = (token.unsqueeze(1) >= ends.unsqueeze(0)).sum(1)
    inside = entry < num_entries
    entry = entry.clamp(max=num_entries - 1)
    ends_before = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
    start, count = ends_before[entry], (ends - ends_before)[entry]
    kv_len = torch.where(inside, kv_lens.to(torch.int64)[entry], 0)
    return entry, kv_len, torch.where(inside, kv_len - count + (token - start) + 1, 0).clamp(min=0)


def npu_lightning_indexer(
    *,
    query: torch.Tensor,
    key: torch.Tensor,
    weights: torch.Tensor,
    actual_seq_lengths_query: torch.Tensor,
    actual_seq_lengths_key: torch.Tensor,
    block_table: torch.Tensor,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
) -> tuple[torch.Tensor, None]:
    """query [T, H, D], key [N, block, 1, D], weights [T, H] -> top-k tokens int32 [T, 1, TOP_K], best
    first, -1 tail."""
    assert (layout_query, layout_key, sparse_mode) == ("TND", "PA_BSND", 3)
    num_tokens, block_size = query.shape[0], key.shape[1]
    entry, _, visible = _queries(num_tokens, actual_seq_lengths_query, actual_seq_lengths_key)
    blocks = block_table.to(torch.int64)[entry].clamp(0, key.shape[0] - 1)  # [T, M]
    keys = key.squeeze(2)[blocks].reshape(num_tokens, -1, key.shape[-1])
    scores = torch.relu(torch.einsum("thd,tnd->tnh", query.float(), keys.float()))
    scores = (scores * weights.float().unsqueeze(1)).sum(-1)
    token = torch.arange(blocks.shape[1] * block_size)
    allowed = token.unsqueeze(0) < visible.unsqueeze(1)
    scores = torch.where(allowed, scores, float("-inf"))
    scores = torch.nn.functional.pad(scores, (0, max(TOP_K - scores.shape[1], 0)), value=float("-inf"))
    best = torch.sort(scores, dim=1, descending=True, stable=True)
    chosen = torch.where(best.values == float("-inf"), -1, best.indices)[:, :TOP_K]
    return chosen.to(torch.int32).unsqueeze(1), None


def npu_sparse_flash_attention(
    *,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_rope: torch.Tensor,
    key_rope: torch.Tensor,
    sparse_indices: torch.Tensor,
    scale_value: float,
    sparse_block_size: int,
    block_table: torch.Tensor,
    actual_seq_lengths_query: torch.Tensor,
    actual_seq_lengths_kv: torch.Tensor,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    attention_mode: int,
) -> tuple[torch.Tensor, None, None]:
    """query [T, H, D], key [N, block, 1, D], key_rope [N, block, 1, R], sparse_indices [T, 1, K] -> [T, H,
    D].

    The scan ends at the first -1. Mode 3 skips indices past the causal limit, mode 0 those past the kv
    length. No index: zeros.
    """
    assert (layout_query, layout_kv, sparse_block_size, attention_mode) == ("TND", "PA_BSND", 1, 2)
    assert sparse_mode in (0, 3) and sparse_indices.dtype == torch.int32
    assert all(tensor.is_contiguous() for tensor in (key, value, key_rope, block_table))
    entry, kv_len, causal = _queries(query.shape[0], actual_seq_lengths_query, actual_seq_lengths_kv)
    limit = causal if sparse_mode == 3 else kv_len
    picked = sparse_indices.squeeze(1).to(torch.int64)
    valid = (picked >= 0).cumprod(1).bool() & (picked < limit.unsqueeze(1))
    block_size = key.shape[1]
    place = torch.where(valid, picked, 0)
    block = block_table.to(torch.int64)[entry].gather(
        1, (place // block_size).clamp(max=block_table.shape[1] - 1)
    )
    row = torch.where(valid, block * block_size + place % block_size, 0).clamp(
        0, key.shape[0] * block_size - 1
    )
    nope, rope = (cache.reshape(-1, cache.shape[-1])[row].float() for cache in (key, key_rope))  # [T, K, .]
    nope, rope = (torch.where(valid.unsqueeze(-1), rows, 0.0) for rows in (nope, rope))
    scores = torch.einsum("thd,tkd->thk", query.float(), nope)
    scores = (scores + torch.einsum("thr,tkr->thk", query_rope.float(), rope)) * scale_value
    scores = torch.where(valid.unsqueeze(1), scores, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)
    return torch.einsum("thk,tkd->thd", weights, nope).to(query.dtype), None, None


def empty_with_format(
    size: tuple[int, ...], dtype: torch.dtype, device: torch.device, acl_format: int
) -> torch.Tensor:
    assert acl_format == 2  # ND
    return torch.zeros(size, dtype=dtype, device=device)


OPERATORS = {
    function.__name__: function
    for function in (
        empty_with_format,
        npu_add_rms_norm,
        npu_interleave_rope,
        npu_kv_rmsnorm_rope_cache,
        npu_lightning_indexer,
        npu_rms_norm,
        npu_rotary_mul,
        npu_scatter_nd_update_,
        npu_sparse_flash_attention,
        npu_swiglu,
        npu_transpose_batchmatmul,
    )
}
