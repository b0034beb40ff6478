# SPDX-License-Identifier: Apache-2.0
"""AvsgSfaMetadata: MindIE's attention metadata with rows, leases and the places of a prompt in staging."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from mindie_llm.runtime.layers.attention.backend.sparse_attention import SfaMetadata, SfaMetadataBuilder
from mindie_llm.runtime.model_runner.input_buffer import input_buffer

from .active import active_runtime
from .engine_rows import SEQUENCES

_ROWS, _LEASES = "avsg_rows", "avsg_leases"  # names in MindIE's input_buffer


@dataclass
class AvsgSfaMetadata(SfaMetadata):
    """SfaMetadata plus int32 tensors; on the host as numpy arrays until to_device.

    Decode: sequences (the ids, on the host), rows and leases [B]. Prefill: staging_slots [T] and
    staging_tables [B, M] (where the prompt lies in staging), positions and entries [T] (what goes to the
    host: entries is -1 where MindIE's slot is -1). origin: set in the view that the KV write gets (staged).
    """

    sequences: object = None
    rows: object = None
    leases: object = None
    staging_slots: object = None
    staging_tables: object = None
    positions: object = None
    entries: object = None
    origin: object = None

    @staticmethod
    def from_model_input(
        model_inputs: object, mask: object, num_speculative_tokens: int = 0
    ) -> AvsgSfaMetadata:
        """As SfaMetadata.from_model_input; looks up rows (decode) or places the prompts (prefill)."""
        base = SfaMetadata.from_model_input(model_inputs, mask, num_speculative_tokens)
        metadata = AvsgSfaMetadata(**vars(base))
        sequences = getattr(model_inputs, SEQUENCES, None)
        if model_inputs.is_prefill:
            metadata._place_prompts(
                np.asarray(model_inputs.context_length), np.asarray(model_inputs.slots), sequences
            )
        elif sequences is not None:
            metadata.sequences = sequences
            metadata.rows, metadata.leases = active_runtime().lookup(sequences)
        return metadata

    @staticmethod
    def register_buffer(max_num_token: int, device: torch.device, max_block_per_seq: int) -> None:
        """MindIE's static buffers and two of AVSG, one entry a token as MindIE does."""
        SfaMetadata.register_buffer(max_num_token, device, max_block_per_seq)
        input_buffer.register(_ROWS, torch.full((max_num_token,), -1, dtype=torch.int32, device=device))
        input_buffer.register(_LEASES, torch.zeros(max_num_token, dtype=torch.int32, device=device))

    def to_device(self, device: torch.device) -> None:
        """Copies the host arrays to the device; a decode step without sequences gets rows of -1."""
        super().to_device(device)
        if self.staging_slots is None and self.rows is None:
            self.rows = np.full(self.seq_lens.shape[0], -1, np.int32)
            self.leases = np.zeros_like(self.rows)
        for name in ("rows", "leases", "staging_slots", "staging_tables", "positions", "entries"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                setattr(self, name, torch.from_numpy(value).to(device))

    def copy(self, num_actual_tokens: int, num_tokens: int) -> None:
        """Into the static buffers that a captured graph reads; padding entries have row -1."""
        super().copy(num_actual_tokens, num_tokens)
        for name, key, padding in (("rows", _ROWS, -1), ("leases", _LEASES, 0)):
            static, value = input_buffer.get(key), getattr(self, name)
            static.fill_(padding)
            static[: value.shape[0]].copy_(value)
            setattr(self, name, static[: self.seq_lens.shape[0]])

    def prepare_dummy_input(self, num_tokens: int) -> None:
        """A batch for graph capture: static buffers, no active entry."""
        super().prepare_dummy_input(num_tokens)
        num_entries = self.seq_lens.shape[0]
        self.rows = input_buffer.get(_ROWS)[:num_entries].fill_(-1)
        self.leases = input_buffer.get(_LEASES)[:num_entries].fill_(0)

    def staged(self) -> AvsgSfaMetadata:
        """This metadata as the KV write of an offloaded layer sees it: slots (and a prompt's blocks) of
        staging."""
        view = copy.copy(self)
        view.origin = self
        if self.staging_slots is None:
            view.slot_mapping = active_runtime().staging.slots[: self.slot_mapping.shape[0]]
        else:
            view.slot_mapping, view.block_tables = self.staging_slots, self.staging_tables
        return view

    def unstaged(self) -> AvsgSfaMetadata:
        """What MindIE made: the slots and blocks of the paged cache, which the indexer uses."""
        return self if self.origin is None else self.origin

    def _place_prompts(self, lengths: np.ndarray, slots: np.ndarray, sequences: list | None) -> None:
        self.staging_slots, self.staging_tables = active_runtime().staging.place_prompts(lengths)
        self.positions = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
        stored = [-1 if sequences and sequences[n] is None else n for n in range(len(lengths))]
        entry = np.repeat(stored, lengths)
        self.entries = np.where(slots >= 0, entry, -1).astype(np.int32)


class AvsgSfaMetadataBuilder(SfaMetadataBuilder):
    """MindIE asks the backend's builder for the metadata class."""

    @staticmethod
    def get_metadata_cls() -> type[AvsgSfaMetadata]:
        return AvsgSfaMetadata
