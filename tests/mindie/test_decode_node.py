# SPDX-License-Identifier: Apache-2.0
"""MindIE's real Generator as a decode node: KV is pulled into host memory; logits as of one stock node."""

from __future__ import annotations

import generator_env
import numpy as np
import pytest
from test_generator import SECTION

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PREFILL_NODE = 7


class OneNode(generator_env.Client):
    """Stock MindIE. sent: a copy of all KV after each prefill, and the first token of each request."""

    def __init__(self, generator) -> None:
        super().__init__(generator)
        self.sent, self.decoded = [], []

    def prefill(self, *requests: tuple[int, int], most: int = 100) -> None:
        super().prefill(*requests, most=most)
        kv = [
            [kind.clone() for kind in layer]
            for layer in self.generator.generator_backend.cache_pool.npu_cache
        ]
        self.sent.append((kv, [self.tokens[sequence][-1] for sequence, _ in requests]))

    def decode(self, *sequences: int) -> None:
        super().decode(*sequences)
        self.decoded.append(self.generator.logits[-1])


class DecodeNode(generator_env.Client):
    """The same requests, whose prompts are pulled from the node that made `sent`."""

    def __init__(self, generator, sent: list) -> None:
        super().__init__(generator)
        self.sent = list(sent)
        worker = generator.separate_deployment_worker
        worker.cluster_comm_map, worker.separate_deployment_engine = {PREFILL_NODE: 0}, self

    def pull_kv(self, model_id: int, src_block_table, dst_block_table, remote_cluster_id: int) -> object:
        """What LLM-DataDist does."""
        from mindie_llm.utils.status import MindieLlmStatusCode

        from avsg.mindie import engine_memory

        kind = {engine_memory.NOPE: 0, engine_memory.ROPE: 1, engine_memory.INDEX: 2}[model_id]
        for landed, layer in zip(engine_memory._landing.layers, self.kv):
            landed[kind][list(dst_block_table)] = layer[kind][list(src_block_table)]
        return MindieLlmStatusCode.SUCCESS

    def _run(self, sequences, call) -> None:
        if call != self.generator.prefill:
            super()._run(sequences, call)
            return
        from mindie_llm.text_generator.utils.input_metadata import InputMetadata

        self.kv, first = self.sent.pop(0)
        requests = [self.requests[sequence] for sequence in sequences]
        tables = [request.sequences[request.req_id].block_tables for request in requests]
        for request, token in zip(requests, first):
            request.input_ids = np.append(request.input_ids, token)
        metadata = InputMetadata.from_requests(requests, np.stack(tables), True)
        blocks = np.concatenate(tables).tolist()
        status, _ = self.generator.pull_kv(metadata, [(PREFILL_NODE, blocks, blocks)])
        assert status.name == "SUCCESS"


def serve(client: generator_env.Client) -> None:
    """Arrivals, a preempted request that is prefilled again elsewhere, one pulled anew without a cleanup."""
    client.prefill((1, 40), (2, 150))
    for number in range(6):
        client.decode(*((2, 1) if number % 2 else (1, 2)))
    client.clear(2)
    client.prefill((3, 200))
    for _ in range(3):
        client.decode(1, 3)
    client.prefill((2, 170))
    for _ in range(4):
        client.decode(2, 1, 3)
    client.decode(1, 2)  # asynchronous MindIE takes a sequence of the step before for the same text
    client.free += client.requests.pop(3).sequences[3].block_tables.tolist()
    client.prefill((3, 130))
    for _ in range(4):
        client.decode(3, 2, 1)
    client.wait()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_a_decode_node_gives_the_logits_of_one_node(mindie, monkeypatch, asynchronous: bool) -> None:
    from mindie_llm.utils.env import ENV

    from avsg.mindie.active import find_runtime
    from avsg.mindie.register import register, unregister

    generator_env.prepare(mindie, monkeypatch, asynchronous=False)
    register()
    try:
        one = OneNode(generator_env.make({"enable": False}))
        serve(one)
        monkeypatch.setattr(ENV, "async_inference", asynchronous)
        changes = {"role": "decoder", "plugin_params": "", "local_device_ip": "1.1.1.1"}
        node = DecodeNode(generator_env.make(SECTION, **changes), one.sent)
        serve(node)
        for step, (left, right) in enumerate(zip(one.decoded, node.generator.logits, strict=True)):
            assert mindie.equal(left, right), f"the logits of decode step {step} differ"
        totals = find_runtime().metrics.snapshot()
        assert all(group["hits"] > 0 and group["bad_blocks"] == 0 for group in totals["groups"])
        assert totals["groups"][0]["resets"] == 5 and totals["shadow_rows_wrong"] == 0
    finally:
        unregister()
