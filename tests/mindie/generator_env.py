# SPDX-License-Identifier: Apache-2.0
"""MindIE's real Generator on a CPU with a tiny GLM-5.2: configuration, warm-up, allocation, capture, serving.

What is replaced: devices and process groups, MindIE's check of the model's published sizes and of paths, and
device="npu" in the modules that name it.
"""

from __future__ import annotations

import json
import time
import types

import glm_env
import numpy as np
import pytest

MAX_REQUESTS, BLOCK, MAX_LEN = 3, 128, 512


class _CpuTorch:
    """torch, with device="npu" taken as "cpu"."""

    def __init__(self, torch) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> object:
        value = getattr(self._torch, name)
        if name not in ("arange", "full", "ones", "tensor", "zeros"):
            return value
        return lambda *args, **kwargs: value(*args, **{key: kwargs[key] for key in kwargs if key != "device"})


def prepare(torch, monkeypatch: pytest.MonkeyPatch, *, asynchronous: bool) -> None:
    """The process as MindIE's worker finds it, on a CPU."""
    import graph_tape
    import mindie_env
    from mindie_llm.runtime.utils.distributed import set_parallel_info_manager
    from mindie_llm.utils import status
    from mindie_llm.utils.env import ENV
    from mindie_llm.utils.prof import profiler

    glm_env.prepare(torch, monkeypatch)
    graph_tape.install(torch.npu)
    levels = types.SimpleNamespace(DETAILED=1, INFO=0)  # those of ms_service_profiler, where it is installed
    monkeypatch.setattr(profiler, "Level", levels)
    monkeypatch.setattr(status, "os", types.SimpleNamespace(_exit=lambda code: None))  # a thread's exception
    set_parallel_info_manager(mindie_env.one_rank())
    from mindie_llm.runtime.layers.sampling import sampler
    from mindie_llm.runtime.model_runner import model_runner_exp
    from mindie_llm.runtime.utils.helpers.safety import path
    from mindie_llm.text_generator.plugins import plugin_manager

    from avsg.mindie.glm.config import GlmMoeDsaConfig

    monkeypatch.setattr(ENV, "async_inference", asynchronous)
    monkeypatch.setattr(ENV, "model_runner_exp", ENV.model_runner_exp)
    monkeypatch.setattr(model_runner_exp, "set_device", lambda rank, npu_id=None: torch.device("cpu"))
    monkeypatch.setattr(model_runner_exp, "init_distributed", lambda *args, **kwargs: None)
    monkeypatch.setattr(path, "check_path_has_special_characters", lambda path: None)
    monkeypatch.setattr(GlmMoeDsaConfig, "validate", lambda self: None)
    for module in (plugin_manager, sampler):
        monkeypatch.setattr(module, "torch", _CpuTorch(torch))
    monkeypatch.setattr(torch.Tensor, "is_npu", False, raising=False)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)


def prepare_drafts(torch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speculative decoding: attention data parallel of one rank, a random draft layer, and drafts of
    which 0 to all are accepted in turn.

    MindIE's draft loop runs only with attention data parallel: without it, num_tokens is never assigned.
    """
    import mindie_env
    from mindie_llm.runtime.model_runner import model_runner_exp, spec_worker
    from mindie_llm.runtime.utils.distributed import set_parallel_info_manager
    from mindie_llm.text_generator.plugins.mtp import mtp_plugin

    ranks = mindie_env.one_rank()
    ranks.attn_dp.is_enabled = ranks.has_dp = lambda: True
    set_parallel_info_manager(ranks)
    monkeypatch.setattr(torch.distributed, "all_gather", lambda out, tensor, group=None: out[0].copy_(tensor))
    for module in (mtp_plugin, spec_worker):
        monkeypatch.setattr(module, "torch", _CpuTorch(torch))
    runner = model_runner_exp.ModelRunnerExp.__wrapped__
    load, loader = runner.load_weights, model_runner_exp.DefaultModelLoader

    def load_weights(self) -> None:
        monkeypatch.setattr(
            model_runner_exp, "DefaultModelLoader", RandomWeights if self.is_draft_model else loader
        )
        load(self)

    monkeypatch.setattr(runner, "load_weights", load_weights)
    verify = spec_worker.MtpWorkerExp.forward_mtp_decode
    monkeypatch.setattr(spec_worker.MtpWorkerExp, "forward_mtp_decode", _accept_in_turn(torch, verify))


class RandomWeights:
    """Stands for MindIE's DefaultModelLoader."""

    def load_weights(self, model, path: str) -> None:
        import torch

        generator = torch.Generator().manual_seed(3)
        for parameter in model.parameters():
            value = torch.randn(parameter.shape, generator=generator)
            parameter.data.copy_(value * 0.2 if parameter.dim() > 1 else value.abs() + 0.5)
        for module in model.modules():
            if hasattr(module, "impl"):
                module.impl.process_weights_after_loading()


def _accept_in_turn(torch, stock):
    """Reports the model's own tokens as the first n drafts of an entry; n goes round with step and entry."""

    def forward_mtp_decode(self, *args: object, **kwargs: object) -> tuple:
        result = stock(self, *args, **kwargs)
        if len(result) == 2:  # the warm-up
            return result
        logits, hidden, drafts = result
        count = self.num_speculative_tokens
        self.__dict__["steps"] = step = self.__dict__.get("steps", 0) + 1
        chosen = logits.argmax(-1).view(-1, count + 1)[:, :count]
        accepted = (torch.arange(len(chosen)) + step) % (count + 1)
        taken = torch.arange(count) < accepted.unsqueeze(1)
        return logits, hidden, torch.where(taken, chosen, drafts.view(-1, count)).flatten()

    return forward_mtp_decode


def make(section: dict, **changes: object):
    """A Generator that is ready to serve; its attribute `logits` collects those of every step."""
    from mindie_llm.runtime.layers import attention
    from mindie_llm.runtime.model_runner.input_buffer import input_buffer
    from mindie_llm.runtime.utils.loader import default_model_loader
    from mindie_llm.text_generator.generator import Generator

    attention.update_global_attn_dict("of another Generator in this process", None)
    attention.clear_global_attn_dict()
    input_buffer._buffers, default_model_loader._global_param_dict = {}, None
    config = {
        "backend_type": "torch",
        "model_id": str(glm_env.checkpoint()),
        "models": json.dumps({"avsg": section}),
        "plugin_params": None,
        "npu_mem": 1,
        "cpu_mem": 0,
        "block_size": BLOCK,
        "max_seq_len": MAX_LEN,
        "max_iter_times": MAX_LEN,
        "max_input_len": 256,
        "max_batch_size": MAX_REQUESTS,
        "max_prefill_batch_size": 2,
        "max_prefill_tokens": 512,
        "speculation_gamma": 0,
        "eos_token_id": "[1000]",
        "bos_token_id": 0,
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "npu_device_id": 0,
        "trust_remote_code": False,
        "load_tokenizer": False,
        "enable_warmup_with_sampling": False,
        **changes,
    }
    generator = Generator(config)
    generator.logits = []
    sample = generator.generator_backend.sample

    def listen(logits: object, *args: object, **kwargs: object) -> object:
        generator.logits.append(logits.clone())
        return sample(logits, *args, **kwargs)

    generator.generator_backend.sample = listen
    return generator


class Client:
    """A scheduler that knows when what happens: requests with all their blocks from the start."""

    def __init__(self, generator, seed: int = 0) -> None:
        self.generator, self.rng = generator, np.random.default_rng(seed)
        self.free = list(range(MAX_REQUESTS * MAX_LEN // BLOCK - 1, 0, -1))
        self.requests: dict[int, object] = {}
        self.tokens: dict[int, list[int]] = {}
        self.expected = 0

    def prefill(self, *requests: tuple[int, int], most: int = 100) -> None:
        """(sequence, prompt length) each, random prompts; `most`: tokens that each may generate."""
        from mindie_llm.text_generator.utils.config import SAMPLING_DTYPE
        from mindie_llm.text_generator.utils.generation_metadata import GenerationParams
        from mindie_llm.text_generator.utils.request import Request

        params = GenerationParams(max_new_tokens=most, ignore_eos=True)
        for sequence, length in requests:
            prompt = self.rng.integers(0, 128, length)
            greedy = np.array([(1.0, 0.0, 0.0, 1.0, 0, 1.0, False, 0)], SAMPLING_DTYPE)
            request = Request.request_from_token(prompt, greedy, params, req_id=sequence)
            request.sequences[sequence].block_tables = np.array([self.free.pop() for _ in range(3)], np.int32)
            self.requests[sequence] = request
        self._run([sequence for sequence, _ in requests], self.generator.prefill)

    def decode(self, *sequences: int) -> None:
        self._run(sequences, self.generator.decode)

    def clear(self, sequence: int) -> None:
        """The scheduler's cleanup of a preempted or aborted sequence."""
        self.free += self.requests.pop(sequence).sequences[sequence].block_tables.tolist()
        self.generator.clear_cache(np.array([sequence], np.int64))

    def wait(self) -> None:
        """Until every step's logits are there (asynchronous inference is a step behind)."""
        deadline = time.monotonic() + 60
        while len(self.generator.logits) < self.expected and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(self.generator.logits) == self.expected, "the forward thread did not finish"

    def _run(self, sequences, call) -> None:
        output = call([self.requests[sequence] for sequence in sequences])
        self.expected += 1
        for sequence, tokens in zip(output.sequence_ids.tolist(), output.token_ids.tolist()):
            self.tokens.setdefault(sequence, []).extend(tokens)
