# SPDX-License-Identifier: Apache-2.0
"""From MindIE's configuration to the process's Runtime, and the replacements that make and start it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import wraps

from .active import activate, find_runtime
from .settings import EngineFacts, parse_settings

_engine: Mapping[str, object] = {}  # MindIE's model_config while its generator backend is made
_section: object = None  # register(config): instead of the model's own avsg section


def override_section(section: object) -> None:
    """The avsg section to use instead of the model configuration's; None: the model's own."""
    global _section
    _section = section


@contextlib.contextmanager
def _engine_config(model_config: Mapping[str, object]) -> Iterator[None]:
    global _engine
    _engine = model_config
    try:
        yield
    finally:
        _engine = {}


def plugins(model_config: Mapping[str, object]) -> set[str]:
    """Names in plugin_params, a JSON text such as {"plugin_type": "mtp", "num_speculative_tokens": 1}."""
    text = model_config.get("plugin_params")
    parsed = json.loads(text) if isinstance(text, str) and text.strip() else text or {}
    return {name.strip() for name in str(parsed.get("plugin_type") or "").split(",") if name.strip()}


def engine_facts(runner: object, model_config: Mapping[str, object]) -> EngineFacts:
    """What settings are checked against: a ModelRunnerExp after its __init__, and the generator's
    model_config."""
    names = plugins(model_config)
    mapping = _parallel_info()
    return EngineFacts(
        top_k=runner.config.index_topk,
        max_requests=runner._max_batch_size // (runner.num_speculative_tokens + 1),
        max_seq_len=runner._max_seq_len,
        num_queries=runner.num_speculative_tokens + 1,
        block_size=runner._block_size,
        backend=str(model_config.get("backend_type", "torch")),
        role=str(getattr(runner.role, "value", runner.role)),
        context_parallel=mapping.attn_cp.group_size,
        sequence_parallel=mapping.attn_inner_sp.group_size,
        prefix_cache="prefix_cache" in names,
        splitfuse="splitfuse" in names or bool(model_config.get("splitfuse_enabled")),
        kv_pool=bool(model_config.get("kv_pool_backend")),
        layerwise=bool(model_config.get("layerwise_disaggregated")),
        lookahead=bool(names & {"la", "memory_decoding"}),
        quantized_kv=any(runner.kvcache_quant_layers),
        nz_format=runner.enable_nz,
    )


def _parallel_info() -> object:
    from mindie_llm.runtime.utils.distributed import get_parallel_info_manager

    return get_parallel_info_manager()


def configure(runner: object, model_config: Mapping[str, object]) -> None:
    """Makes the process's Runtime for a main model's runner, if its configuration enables AVSG."""
    if not hasattr(runner.config, "index_topk"):
        return  # not a DSA model
    section = _section if _section is not None else getattr(runner.llm_config, "avsg", None)
    engine = engine_facts(runner, model_config)
    settings = parse_settings(section, engine=engine)
    if settings is None:
        activate(None)
        return
    from .glm import layer_groups
    from .runtime import KvLayout, Runtime
    from .sizing import ModelShape, size_rank

    config = runner.config
    sizing = size_rank(
        ModelShape.of(config, runner.kv_cache_dtype.itemsize),
        engine,
        settings,
        max_prefill_tokens=int(model_config.get("max_prefill_tokens", 8192)),
        max_prefill_requests=int(model_config.get("max_prefill_batch_size") or engine.max_requests),
    )
    layout = KvLayout(
        layer_groups(config),
        config.kv_lora_rank,
        config.qk_rope_head_dim,
        runner.kv_cache_dtype,
        engine.block_size,
    )
    runtime = Runtime(
        settings,
        engine,
        layout,
        device=runner.device,
        max_entries=engine.max_requests + 1,  # a padded step has one entry more
        prefill_tokens=sizing.staging_tokens,
        rank=_parallel_info().rank,
        sizing=sizing,
    )
    activate(runtime)


def wrap_get_generator_backend(stock: Callable) -> Callable:
    """MindIE's whole configuration passes here, before the model is made."""

    @wraps(stock)
    def get_generator_backend(model_config: Mapping[str, object]) -> object:
        with _engine_config(model_config):
            return stock(model_config)

    return get_generator_backend


def wrap_runner_init(stock: Callable) -> Callable:
    """The main model's runner knows sizes and device; its attention layers are made later, by
    load_weights."""

    @wraps(stock)
    def __init__(self: object, *args: object, **kwargs: object) -> None:
        stock(self, *args, **kwargs)
        if not self.is_draft_model:
            configure(self, _engine)

    return __init__


def wrap_get_attn_backend(stock: Callable) -> Callable:
    """Sparse attention goes through AVSG where it is enabled."""

    @wraps(stock)
    def get_attn_backend(use_mla: bool = False, use_sfa: bool = False) -> object:
        if not use_sfa or use_mla or find_runtime() is None:
            return stock(use_mla=use_mla, use_sfa=use_sfa)
        from .backend import AvsgSfaBackend

        return AvsgSfaBackend()

    return get_attn_backend


def wrap_compile(stock: Callable) -> Callable:
    """The last call of MindIE's start: pools are final, warm-up and capture are over."""

    @wraps(stock)
    def compile(self: object) -> None:
        from .operations import Operations

        stock(self)
        runtime = find_runtime()
        if runtime is not None:
            runtime.start_serving()
            runtime.operations = Operations(runtime)
            runtime.operations.start()

    return compile


def wrap_runner_forward(stock: Callable) -> Callable:
    """After a decode step is queued: the shadow check may take a sample."""

    @wraps(stock)
    def forward(
        self: object,
        kv_caches: list,
        input_ids: object,
        position_ids: object,
        forward_context: object,
        mtp_step: int = 0,
        **kwargs: object,
    ) -> object:
        result = stock(self, kv_caches, input_ids, position_ids, forward_context, mtp_step, **kwargs)
        runtime, metadata = find_runtime(), forward_context.attn_metadata
        sequences = getattr(metadata, "sequences", None)
        if runtime is not None and runtime.operations is not None and sequences and not self.is_draft_model:
            runtime.operations.between_steps(sequences, metadata.block_tables)
        return result

    return forward
