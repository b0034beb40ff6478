# SPDX-License-Identifier: Apache-2.0
"""A small engine over MindIE's real runner, metadata and DSA attention: stock, or with AVSG, on the same
weights.

The real classes: DeepseekV3Attention, SFA, SfaBackendImpl, SfaMetadata, ForwardContext, input_buffer,
AclGraphBackend and ModelRunnerExp's build_forward_context, forward, padding and capture. Ours: block
allocation, tokens and drafts (scenarios.py), and a model of attention layers with residuals.
"""

from __future__ import annotations

import numpy as np
import torch
from tiny_model_mindie import INDEX_DIM, NOPE_DIM, NUM_LAYERS, ROPE_DIM, TinyModel, tiny_config

BLOCK = 128
SLOTS = 256


class Engine:
    """One rank. groups None: stock; else AVSG with these layer groups."""

    def __init__(
        self,
        *,
        num_queries: int = 1,
        max_requests: int = 4,
        num_blocks: int = 24,
        graph: bool = False,
        shared: dict[int, int] | None = None,
        groups: list[list[int]] | None = None,
        rows: int | None = None,
        layers: list[int] | None = None,
    ) -> None:
        from mindie_llm.runtime.compilation.aclgraph_backend import AclGraphBackend
        from mindie_llm.runtime.layers import attention
        from mindie_llm.runtime.model_runner import model_runner_exp

        self.num_queries, self.max_requests, self.num_blocks = num_queries, max_requests, num_blocks
        self.runtime, self.buffers, self.attention, self.shared = None, {}, attention, shared
        config = tiny_config()
        if groups is not None:
            self.runtime = self._make_runtime(groups, rows or max_requests)
        attention.update_global_attn_dict("cleared", None)
        attention.clear_global_attn_dict()
        self._activate()
        torch.set_default_dtype(torch.bfloat16)
        model = TinyModel(config, layers or list(range(NUM_LAYERS)), shared or {})
        torch.set_default_dtype(torch.float32)
        self.attns = dict(attention.get_global_attn_dict())
        runner = self.runner = object.__new__(model_runner_exp.ModelRunnerExp.__wrapped__)
        max_tokens = max_requests * num_queries
        runner.model = AclGraphBackend(model, max_tokens) if graph else model
        runner._is_aclgraph_enabled, runner._max_num_token = graph, max_tokens
        runner.device, runner._mask = torch.device("cpu"), None
        runner.num_speculative_tokens, runner.is_draft_model = num_queries - 1, False
        runner._max_block_per_seq, runner.role, runner._is_warmup_completed = 8, "standard", False
        runner._kv_cache_info = model_runner_exp.KVCacheInfo()
        runner._mindie_llm_config = type("Config", (), {"hf_config": config})
        self.allocate(num_blocks)

    def _make_runtime(self, groups: list[list[int]], rows: int):
        from ops_cpu import TOP_K

        from avsg.mindie.runtime import KvLayout, Runtime
        from avsg.mindie.settings import EngineFacts, Settings

        facts = EngineFacts(
            top_k=TOP_K, max_requests=self.max_requests, max_seq_len=8 * BLOCK, num_queries=self.num_queries
        )
        layout = KvLayout(groups, NOPE_DIM, ROPE_DIM, torch.bfloat16, BLOCK)
        settings = Settings(rows=rows, slots=SLOTS, huge_pages=False)
        return Runtime(settings, facts, layout, max_entries=self.max_requests + 1, prefill_tokens=8 * BLOCK)

    def allocate(self, num_blocks: int) -> None:
        """The paged caches, filled with a value that would show; called twice by MindIE (warm-up,
        serving)."""

        def cache(dim: int) -> torch.Tensor:
            return torch.full((num_blocks, BLOCK, 1, dim), 5.0, dtype=torch.bfloat16)

        staged = self.runtime.staging if self.runtime else None
        if self.runtime:
            self.runtime.bind(num_blocks)
        self.kv = []
        for prefix in self.attns:
            offloaded = staged and self.runtime.offloads(int(prefix.split(".")[2]))
            if offloaded:  # new tensor objects, as the replaced allocator gives
                nope, rope = (payload.view(payload.shape) for payload in (staged.nope, staged.rope))
            else:
                nope, rope = cache(NOPE_DIM), cache(ROPE_DIM)
            self.kv.append((nope, rope, cache(INDEX_DIM)))

    def compile(self) -> None:
        """Capture, then serving begins."""
        with self, torch.no_grad():
            if not self.buffers:
                self.runner._init_buffer()
            self.runner.compile(self.kv)
        if self.runtime:
            self.runtime.start_serving()

    def _activate(self) -> None:
        from avsg.mindie import active

        active.activate(self.runtime)

    def __enter__(self) -> Engine:
        """MindIE's process-wide objects are this engine's for a while."""
        from mindie_llm.runtime.model_runner.input_buffer import input_buffer

        self._activate()
        input_buffer._buffers = self.buffers
        self.attention.flush_global_attn_dict(self.attns)
        return self

    def __exit__(self, *_: object) -> None:
        from avsg.mindie import active

        active.activate(None)

    def prefill(
        self, sequences: list[int], tokens: list[np.ndarray], tables: list[np.ndarray]
    ) -> torch.Tensor:
        """One prefill step; hidden states [T, HIDDEN]."""
        from mindie_llm.text_generator.utils.model_input import ModelInput

        if self.runtime:
            self.runtime.prefilled(sequences)
        lengths = np.array([len(text) for text in tokens], np.int32)
        positions = [np.arange(length) for length in lengths]
        inputs = ModelInput(
            input_ids=np.concatenate(tokens),
            position_ids=np.concatenate(positions),
            block_tables=padded(tables),
            slots=np.concatenate([slots_of(table, places) for table, places in zip(tables, positions)]),
            context_length=lengths,
            max_seq_len=int(lengths.max()),
            prefill_head_indices=np.cumsum(lengths) - 1,
            is_prefill=True,
        )
        return self._forward(inputs)

    def receive(self, sequences: list[int], tokens: list[np.ndarray], tables: list[np.ndarray]) -> None:
        """KV of these prompts, made by a stock engine (the prefill node) and sent block by block."""
        node = Engine(num_queries=self.num_queries, shared=self.shared, num_blocks=self.num_blocks)
        there = [np.arange(len(table)) + sum(map(len, tables[:n])) for n, table in enumerate(tables)]
        node.prefill(sequences, tokens, there)
        source, target = np.concatenate(there).tolist(), np.concatenate(tables).tolist()
        if self.runtime is None:
            for ours, theirs in zip(self.kv, node.kv):
                for home, tensor in zip(ours, theirs):
                    home[target] = tensor[source]
            return
        from avsg.mindie.landing import Landing

        self.runtime.prefilled(sequences)
        shapes = [tensor.shape[1:] for tensor in self.kv[0]]
        landing = Landing(
            self.runtime, self.kv, 2, shapes, lambda shape: torch.zeros(shape, dtype=torch.bfloat16)
        )
        for theirs, ours, places in landing.portions(source, target):
            for layer, tensors in enumerate(node.kv):
                for place, tensor in zip(landing.layers[layer], tensors):
                    place[places] = tensor[theirs]  # what the KV mover does
            landing.deliver(ours)

    def counts(self) -> dict[str, int]:
        """Totals of the first layer group."""
        return self.runtime.metrics.snapshot()["groups"][0]

    def clear(self, sequences: list[int]) -> None:
        """The scheduler's cleanup after finish, abort or preemption."""
        if self.runtime:
            self.runtime.rows.abort(sequences)

    def decode(
        self,
        sequences: list[int | None],
        tokens: np.ndarray,
        lengths: np.ndarray,
        tables: list[np.ndarray],
        late: np.ndarray | None = None,
    ) -> torch.Tensor:
        """One decode step of Q tokens an entry; lengths: tokens of each sequence, this step's included.

        None: an entry without a request. late: what async scheduling adds to the device lengths after the
        host built the metadata from lengths - late.
        """
        from mindie_llm.text_generator.utils.model_input import ModelInput

        from avsg.mindie.metadata import SEQUENCES

        real = np.asarray(lengths, np.int32)
        known = real if late is None else (real - late).astype(np.int32)
        places = [length - self.num_queries + np.arange(self.num_queries) for length in real]
        slots = [
            slots_of(table, place) if sequence is not None else np.full(self.num_queries, -1)
            for table, place, sequence in zip(tables, places, sequences)
        ]
        inputs = ModelInput(
            input_ids=np.asarray(tokens).reshape(-1),
            position_ids=np.concatenate(places).clip(0),
            block_tables=padded(tables),
            slots=np.concatenate(slots),
            context_length=known,
            max_seq_len=int(real.max()),
            prefill_head_indices=None,
            is_prefill=False,
            q_lens=[self.num_queries] * len(real),
        )
        setattr(inputs, SEQUENCES, sequences)
        return self._forward(inputs, None if late is None else torch.from_numpy(real))

    def _forward(self, inputs, device_lengths: torch.Tensor | None = None) -> torch.Tensor:
        with self, torch.no_grad():
            inputs.input_ids = torch.as_tensor(inputs.input_ids, dtype=torch.int64)
            inputs.position_ids = torch.as_tensor(inputs.position_ids, dtype=torch.int64)
            context = self.runner.build_forward_context(inputs)
            if device_lengths is not None:  # what PluginManager._fill_in_model_result_exp corrects
                context.attn_metadata.seq_lens = device_lengths
                context.attn_metadata.actual_seq_lengths_kv = device_lengths
            result = self.runner.forward(self.kv, inputs.input_ids, inputs.position_ids, context)
            hidden = result[0] if isinstance(result, tuple) else result
            return hidden.clone()


def padded(tables: list[np.ndarray]) -> np.ndarray:
    """Block tables of a step, -1 past the end as MindIE pads them."""
    width = max(len(table) for table in tables)
    return np.stack([np.pad(table, (0, width - len(table)), constant_values=-1) for table in tables]).astype(
        np.int32
    )


def slots_of(table: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Slots of the paged cache."""
    return (table[positions // BLOCK] * BLOCK + positions % BLOCK).astype(np.int32)
