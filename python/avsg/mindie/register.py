# SPDX-License-Identifier: Apache-2.0
"""register(): puts AVSG into a MindIE-LLM process. MindIE has no extension point, so names of its modules
are replaced."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from . import engine_memory, engine_rows, engine_setup
from .active import activate, find_runtime
from .glm.router import wrap_get_router_ins


class Replaced(NamedTuple):
    """One replaced name of MindIE-LLM.

    module and path: where it is bound, path is dotted inside the module. parameters: those that the
    replacement relies on, in order; another list means another MindIE. wrap: makes the replacement from
    the stock function. copies: modules that import it by value, replaced there too if they are loaded by
    then.
    """

    module: str
    path: str
    parameters: str
    wrap: Callable[[Callable], Callable]
    copies: tuple[str, ...] = ()


_R, _T = "mindie_llm.runtime.", "mindie_llm.text_generator."
_RUNNER = (
    "ModelRunnerExp.__wrapped__"  # the class behind the factory that speculative decoding puts in its place
)
REPLACED = (
    Replaced(
        _R + "models",
        "get_router_ins",
        "load_config",
        wrap_get_router_ins,
        (
            _R + "model_runner.model_runner_exp",
            _R + "model_runner.model_runner",
            _R + "tokenizer.tokenizer_wrapper",
        ),
    ),
    Replaced(
        _R + "layers.attention.sparse_attention_layer",
        "get_attn_backend",
        "use_mla use_sfa",
        engine_setup.wrap_get_attn_backend,
    ),
    Replaced(
        _R + "model_runner.model_runner_exp",
        _RUNNER + ".__init__",
        "self model_name_or_path rank world_size npu_id local_rank load_tokenizer max_position_embeddings "
        "tokenizer_path llm_config_path models_dict kwargs",
        engine_setup.wrap_runner_init,
    ),
    Replaced(
        _R + "model_runner.model_runner_exp",
        _RUNNER + ".forward",
        "self kv_caches input_ids position_ids forward_context mtp_step kwargs",
        engine_setup.wrap_runner_forward,
    ),
    Replaced(
        _T + "generator",
        "get_generator_backend",
        "model_config",
        engine_setup.wrap_get_generator_backend,
    ),
    Replaced(
        _T + "generator",
        "calc_block_mem",
        "model_info block_size num_speculative_tokens",
        engine_memory.wrap_calc_block_mem,
    ),
    Replaced(_T + "generator", "Generator.copy_blocks", "self src_dst_map", engine_memory.wrap_copy_blocks),
    Replaced(
        _T + "adapter.generator_aclgraph", "GeneratorAclGraph.compile", "self", engine_setup.wrap_compile
    ),
    Replaced(
        _T + "adapter.generator_aclgraph",
        "GeneratorAclGraph._dp_partition_data",
        "self model_inputs kwargs",
        engine_rows.wrap_dp_partition_data,
    ),
    Replaced(
        _T + "adapter.torch_utils.kvcache_pool",
        "KVCachePool._allocate_npu_kvcache_base",
        "self",
        engine_memory.wrap_allocate,
    ),
    Replaced(
        _T + "adapter.torch_utils.kvcache_pool",
        "KVCachePool.sync_swap_base",
        "self swap_decision",
        engine_memory.wrap_swap,
    ),
    Replaced(
        _T + "utils.kvcache_settings",
        "KVCacheSettings.__init__",
        "self rank model_info cpu_mem npu_mem block_size backend_type is_separated_pd num_speculative_tokens",
        engine_memory.wrap_settings_init,
    ),
    Replaced(
        _T + "utils.separate_deployment_engine",
        "SeparateDeploymentWorker.build",
        "self model_id num_tensors num_blocks blockshape dtype",
        engine_memory.wrap_worker_build,
    ),
    Replaced(
        _T + "utils.separate_deployment_engine",
        "SeparateDeploymentWorker.pull_blocks",
        "self remote_model_instance_id src_block_table dst_block_table",
        engine_memory.wrap_pull_blocks,
    ),
    Replaced(
        _T + "plugins.plugin_manager",
        "PluginManager.model_inputs_update_manager",
        "self model_inputs input_metadata sampling_metadata cache_ids kwargs",
        engine_rows.wrap_model_inputs_update_manager,
    ),
    *(
        Replaced(_T + "utils.tg_infer_context_store", "TGInferContextStore." + name, parameters, wrap)
        for name, parameters, wrap in (
            (
                "get_batch_context_handles",
                "self metadata",
                engine_rows.wrap_get_batch_context_handles,
            ),
            (
                "clear_context_by_seq_ids",
                "self sequence_ids",
                engine_rows.wrap_clear_context_by_seq_ids,
            ),
            (
                "clear_finished_context",
                "self sequence_ids context_handles",
                engine_rows.wrap_clear_finished_context,
            ),
            ("fork_context", "self sampling_output", engine_rows.wrap_fork_context),
            ("reset_all_context", "self", engine_rows.wrap_reset_all_context),
        )
    ),
)
_stock: list[tuple[object, str, object]] = []  # (owner, name, what stood there), in order of replacement
_lock = threading.Lock()


class RegistrationError(RuntimeError):
    """MindIE-LLM is not the one that this adapter was written for."""


def register(config: object = None) -> None:
    """Replaces the names of REPLACED. Call it before MindIE makes a model; a second call changes only
    `config`.

    config: an avsg section to use instead of the one in the model's configuration; None: that one. Nothing
    of MindIE changes its behaviour until a model enables AVSG. RegistrationError, with one line for each
    name that is missing or has other parameters, and nothing is replaced then.
    """
    with _lock:
        engine_setup.override_section(config)
        if _stock:
            return
        found = _find_all()
        for entry, (owner, name, stock) in zip(REPLACED, found):
            replacement = entry.wrap(stock)
            copies = [sys.modules[module] for module in entry.copies if module in sys.modules]
            for place in [owner, *copies]:
                _stock.append((place, name, stock))
                setattr(place, name, replacement)


def unregister() -> None:
    """Puts the stock names back and takes the Runtime away; for tests and for a look at stock MindIE."""
    with _lock:
        while _stock:
            setattr(*_stock.pop())
        engine_setup.override_section(None)
        runtime = find_runtime()
        if runtime is not None and runtime.operations is not None:
            runtime.operations.stop()
        activate(None)


def registered() -> bool:
    """Whether the names are replaced now."""
    return bool(_stock)


def _find_all() -> list[tuple[object, str, Callable]]:
    found, problems = [], []
    for entry in REPLACED:
        try:
            found.append(_find(entry))
        except (ImportError, AttributeError, TypeError) as error:
            problems.append(f"{entry.module}.{entry.path}: {error}")
    if problems:
        raise RegistrationError(
            "This MindIE-LLM is not the one that AVSG's adapter was written for, so nothing was registered: "
            "use the MindIE-LLM release that its README names, or an AVSG that knows it. What differs:\n"
            + "\n".join(problems)
        )
    return found


def _find(entry: Replaced) -> tuple[object, str, Callable]:
    owner: object = import_module(entry.module)
    *parents, name = entry.path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    stock = inspect.getattr_static(owner, name)
    parameters = " ".join(inspect.signature(stock).parameters)
    if parameters != entry.parameters:
        raise TypeError(f"its parameters are ({parameters}), not ({entry.parameters})")
    return owner, name, stock
