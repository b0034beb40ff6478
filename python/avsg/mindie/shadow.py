# SPDX-License-Identifier: Apache-2.0
"""ShadowCheck: a few device rows a minute compared with the host's, byte for byte, off the step's path."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch

from .. import layout
from ..row_table import Ownership
from .metrics import Metrics
from .request_rows import RequestRows

SAMPLE_ROWS = 8  # rows of one sample
MOST_PENDING = 4  # samples that wait to be verified; more are not taken
SETTLE_SECONDS = 2.0  # before a row is called wrong: the request may have ended, and its blocks been given on
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Sample:
    """One request's rows as they were between two steps; tensors on the CPU, complete once `event` is."""

    layer: int
    sequence: Hashable
    owned: Ownership
    slots: torch.Tensor  # int64 [n]
    tokens: torch.Tensor  # int32 [n], negative: the slot was empty
    header: torch.Tensor  # int32 [HEADER_POISON + 1], the row's own
    blocks: torch.Tensor  # int32 [M], the request's line of the block table
    device_rows: list[torch.Tensor]  # a payload each, uint8 [n, row_bytes]
    host_kv: Sequence[torch.Tensor]
    event: object  # None on a CPU


class ShadowCheck:
    """Samples of what device_kv holds, against host_kv (SPEC.md: no hit returns another row than the host's).

    take, between two steps, queues copies of one request's sample and returns; verify compares it later, on
    any thread. Only tokens that the state holds are sampled: their host rows no longer change as long as the
    request keeps its lease. A sample whose request has lost its row or got another lease by then is
    discarded, and so is one of a poisoned row, or of a row whose state has another lease: it was given out
    for a step to come, or full offload runs. A wrong row is counted, logged in a sentence and given to
    on_wrong. rows_per_minute: 0 turns the check off.
    """

    def __init__(
        self,
        rows: RequestRows,
        metrics: Metrics,
        *,
        num_slots: int,
        rows_per_minute: int,
        on_wrong: Callable[[str], None] | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows, self._metrics, self._num_slots = rows, metrics, num_slots
        self._period = 60 * SAMPLE_ROWS / rows_per_minute if rows_per_minute else None
        self._on_wrong, self._clock = on_wrong, clock
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(
            seed
        )  # the model's own random numbers stay as they are
        self._next = clock()
        self._pending: deque[_Sample] = deque()
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Is it time to take a sample?"""
        return self._period is not None and self._clock() >= self._next

    def pick(self, layers: Sequence[int]) -> int:
        """The layer to sample."""
        return self._random.choice(layers)

    def take(
        self,
        *,
        layer: int,
        sequences: Sequence[Hashable],
        state: torch.Tensor,
        device_kv: Sequence[torch.Tensor],
        host_kv: Sequence[torch.Tensor],
        block_table: torch.Tensor,
    ) -> bool:
        """Queues a sample of one request of the step; False when none of them owns a row.

        To be called on the step's stream once all loads and stores of the step are queued, and before the
        next step. sequences: the step's ids, entry by entry (dummies and padding may be among them). state
        uint8 [num_rows, stride] of the layer's group; device_kv and host_kv of the layer, as for load;
        block_table int32 [B, M], a line an entry.
        """
        self._next = self._clock() + (self._period or 0)
        found = [(entry, self._rows.find(key)) for entry, key in enumerate(sequences)]
        owners = [(entry, owned) for entry, owned in found if owned is not None]
        if not owners or len(self._pending) >= MOST_PENDING:
            return False
        entry, owned = self._random.choice(owners)
        row = owned.row
        start, stop = layout.slot_token_offset(), layout.slot_stamp_offset(self._num_slots)
        slot_tokens = state[row, start:stop].view(torch.int32)[: self._num_slots]
        on_host = {"generator": self._generator, "pin_memory": state.device.type != "cpu"}
        order = torch.rand(self._num_slots, **on_host).to(state.device, non_blocking=True)
        slots = torch.where(slot_tokens >= 0, order, -1.0).topk(min(SAMPLE_ROWS, self._num_slots)).indices
        taken = [
            slots,
            slot_tokens[slots],
            state[row, :start].view(torch.int32)[: layout.HEADER_POISON + 1],
            block_table[entry],
            *(_bytes(payload)[row * self._num_slots + slots] for payload in device_kv),
        ]
        copies, event = _to_host(taken)
        sample = _Sample(layer, sequences[entry], owned, *copies[:4], copies[4:], host_kv, event)
        with self._lock:
            self._pending.append(sample)
        return True

    def verify(self) -> str | None:
        """Compares the samples whose copies have arrived; returns the sentence of the first wrong row."""
        wrong = []
        while (sample := self._arrived()) is not None:
            text = self._verify(sample)
            if text:
                wrong.append(text)
                _log.error("%s", text)
                if self._on_wrong:
                    self._on_wrong(text)
        return wrong[0] if wrong else None

    def _arrived(self) -> _Sample | None:
        with self._lock:
            if not self._pending or not (self._pending[0].event is None or self._pending[0].event.query()):
                return None
            return self._pending.popleft()

    def _verify(self, sample: _Sample) -> str:
        tokens = sample.tokens.long()
        index = tokens // sample.host_kv[0].shape[1]
        known = (tokens >= 0) & (index < len(sample.blocks))
        blocks = sample.blocks.long()[torch.where(known, index, 0)]
        known &= (blocks >= 0) & (blocks < sample.host_kv[0].shape[0])
        place = blocks * sample.host_kv[0].shape[1] + tokens % sample.host_kv[0].shape[1]
        different = torch.zeros(len(tokens), dtype=torch.int64)
        for host, device_rows in zip(sample.host_kv, sample.device_rows):
            host_rows = _bytes(host.flatten(0, 1))[torch.where(known, place, 0)]
            different += (host_rows != device_rows).sum(dim=1)
        count, bad = int(known.sum()), (known & (different > 0)).nonzero().flatten().tolist()
        if bad:
            time.sleep(SETTLE_SECONDS)  # an engine may give blocks on before it says that a request has ended
        lease, poison = (int(sample.header[word]) for word in (layout.HEADER_LEASE, layout.HEADER_POISON))
        # after the host's rows were read: with the same lease, their blocks belonged to the request
        if poison or lease != sample.owned.lease or self._rows.find(sample.sequence) != sample.owned:
            self._metrics.count("shadow_rows_discarded", count)
            return ""
        self._metrics.count("shadow_rows_compared", count)
        self._metrics.count("shadow_rows_wrong", len(bad))
        if not bad:
            return ""
        first = bad[0]
        return (
            f"{len(bad)} of {count} sampled device rows of layer {sample.layer} differ from the host's: "
            f"sequence {sample.sequence!r}, row {sample.owned.row}, slot {int(sample.slots[first])} holds "
            f"token {int(tokens[first])} with {int(different[first])} other bytes."
        )


def _bytes(rows: torch.Tensor) -> torch.Tensor:
    """[n, ...] of any dtype as uint8 [n, row_bytes]."""
    return rows.flatten(1).view(torch.uint8)


def _to_host(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], object]:
    """CPU copies, and the event after which they are complete (None: they are)."""
    device = tensors[0].device
    if device.type == "cpu":
        return [tensor.clone() for tensor in tensors], None
    copies = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
    for copy, tensor in zip(copies, tensors):
        copy.copy_(tensor, non_blocking=True)
    event = getattr(torch, device.type).Event()
    event.record()
    return copies, event
