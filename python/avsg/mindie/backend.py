# SPDX-License-Identifier: Apache-2.0
"""AvsgSfaBackend: MindIE's sparse attention with nope and rope in host memory and the selected rows on the
device."""

from __future__ import annotations

import re

import torch
import torch_npu
from mindie_llm.runtime.layers.attention.backend.sparse_attention import SfaBackend, SfaBackendImpl

from .active import active_runtime
from .metadata import AvsgSfaMetadata, AvsgSfaMetadataBuilder


class AvsgSfaBackend(SfaBackend):
    """What get_attn_backend returns for sparse attention once AVSG is registered and enabled."""

    @staticmethod
    def get_name() -> str:
        return "AVSG_SPARSE_FUSION_ATTENTION"

    @staticmethod
    def get_impl_cls() -> type[AvsgSfaImpl]:
        return AvsgSfaImpl

    @staticmethod
    def get_builder_cls() -> type[AvsgSfaMetadataBuilder]:
        return AvsgSfaMetadataBuilder


class AvsgSfaImpl(SfaBackendImpl):
    """Stock projections, indexer and epilogue; the layer's KV goes through staging.

    kv_cache and pe_cache of an offloaded layer are the staging buffer (registered allocator), index_cache
    is the paged one. The draft layer runs stock code on paged KV.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        found = re.search(r"\.layers\.(\d+)\.", self.prefix)
        if found is None:
            raise ValueError(
                f'the attention layer\'s prefix is "{self.prefix}", which names no layer: AVSG expects '
                '"model.layers.<number>.self_attn" and has to be adapted to this model.'
            )
        self.layer = int(found[1])
        self.runtime = active_runtime()
        self.offloaded = self.runtime.offloads(self.layer)

    def sfa_preprocess(
        self,
        hidden_states: torch.Tensor,
        kv_cache: tuple[torch.Tensor, ...],
        forward_context: object,
        attn_metadata: AvsgSfaMetadata,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> tuple:
        """Stock, with the KV write sent to staging."""
        metadata = attn_metadata.staged() if self.offloaded else attn_metadata
        return super().sfa_preprocess(hidden_states, kv_cache, forward_context, metadata, cos, sin)

    def indexer_select(
        self,
        hidden_state: torch.Tensor,
        q_c: torch.Tensor,
        forward_context: object,
        attn_metadata: AvsgSfaMetadata,
        cos: torch.Tensor,
        sin: torch.Tensor,
    ) -> torch.Tensor:
        """Stock, on the paged indexer cache."""
        return super().indexer_select(hidden_state, q_c, forward_context, attn_metadata.unstaged(), cos, sin)

    def apply_prefill_sfa(
        self, prefill_preprocess_res: object, attn_metadata: AvsgSfaMetadata
    ) -> torch.Tensor:
        """Stock attention over the prompt in staging; then all its rows go to the host."""
        if not self.offloaded:
            return super().apply_prefill_sfa(prefill_preprocess_res, attn_metadata)
        output = super().apply_prefill_sfa(prefill_preprocess_res, attn_metadata.staged())
        self.runtime.store_prompt(
            self.layer,
            slots=attn_metadata.staging_slots,
            positions=attn_metadata.positions,
            entries=attn_metadata.entries,
            block_table=attn_metadata.block_tables,
        )
        return output

    def apply_decode_sfa(
        self, prefill_preprocess_res: object, attn_metadata: AvsgSfaMetadata
    ) -> torch.Tensor:
        """Attention over the device buffers.

        sparse_mode 0: slots have no causal order, and the indexer has applied it to the tokens. Lengths S:
        every slot may be read, the -1 tail ends a scan; 0 where no request is.
        """
        if not self.offloaded:
            return super().apply_decode_sfa(prefill_preprocess_res, attn_metadata)
        view = self.runtime.decode(
            self.layer,
            prefill_preprocess_res.topk_indices,
            rows=attn_metadata.rows,
            leases=attn_metadata.leases,
            seq_lens=attn_metadata.seq_lens,
            block_table=attn_metadata.block_tables,
        )
        output, _, _ = torch_npu.npu_sparse_flash_attention(
            query=prefill_preprocess_res.q_nope,
            key=view.nope,
            value=view.nope,
            query_rope=prefill_preprocess_res.q_pe,
            key_rope=view.rope,
            sparse_indices=view.slots,
            scale_value=self.softmax_scale,
            sparse_block_size=1,
            block_table=view.block_table,
            actual_seq_lengths_query=attn_metadata.actual_seq_lengths_query,
            actual_seq_lengths_kv=view.kv_lens,
            layout_query="TND",
            layout_kv="PA_BSND",
            sparse_mode=0,
            attention_mode=2,
        )
        return self.sfa_postprocess(output.squeeze(1))
