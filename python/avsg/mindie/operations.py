# SPDX-License-Identifier: Apache-2.0
"""Operations: what an operator sees and switches while a worker serves: metrics, mode, shadow check."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .background import Background
from .settings import MODES
from .shadow import ShadowCheck

if TYPE_CHECKING:
    from .runtime import Runtime

TICK_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Operations:
    """Runs beside the steps of one Runtime, by its settings.

    start, once the worker serves, begins a daemon thread that calls tick every second. between_steps is for
    the thread that queues steps. A wrong row that the shadow check finds switches to full offload where
    shadow_action is "full"; the mode file switches back and forth whenever its text changes.
    """

    def __init__(self, runtime: Runtime, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime, self._settings, self._clock = runtime, runtime.settings, clock
        self._group_of = {layer: group for group in runtime.groups for layer in group.layers}
        self._layers = sorted(self._group_of)
        self._mode_text: str | None = None
        self._next_write = clock()
        self.shadow = ShadowCheck(
            runtime.rows,
            runtime.metrics,
            num_slots=self._settings.slots,
            rows_per_minute=self._settings.shadow_rows_per_minute,
            on_wrong=self._on_wrong,
            clock=clock,
        )
        self._background = Background(TICK_SECONDS, self.tick)

    def start(self) -> None:
        """Begins the background thread and says so in the log; once."""
        self._background.start()
        _log.info(
            "AVSG serves %d layers in %d groups: %d rows of %d slots each, mode %s.",
            len(self._layers),
            len(self._runtime.groups),
            self._settings.rows,
            self._settings.slots,
            self._runtime.mode,
        )

    def stop(self) -> None:
        """Ends it."""
        self._background.stop()

    def between_steps(self, sequences: Sequence[Hashable], block_table: torch.Tensor) -> None:
        """Takes a shadow sample when it is time to; otherwise it costs a look at the clock.

        To be called on the steps' stream after a decode step is queued and before the next one changes
        anything. sequences, block_table int32 [B, M] (on the device): the step's, entry by entry.
        """
        if not self.shadow.due():
            return
        layer = self.shadow.pick(self._layers)
        group = self._group_of[layer]
        self.shadow.take(
            layer=layer,
            sequences=sequences,
            state=group.pool.state,
            device_kv=group.device_kv[layer],
            host_kv=self._runtime.host_layer(layer),
            block_table=block_table,
        )

    def tick(self) -> None:
        """Reads the mode file, compares shadow samples, and writes the metrics file when it is time to."""
        device = self._runtime.device
        if device.type != "cpu":  # a new thread of torch starts on device 0
            getattr(torch, device.type).set_device(device)
        self._read_mode()
        self.shadow.verify()
        if self._settings.metrics_file and self._clock() >= self._next_write:
            self._next_write = self._clock() + self._settings.metrics_seconds
            metrics, rows = self._runtime.metrics, self._runtime.rows
            metrics.gauge("rows", rows.capacity)
            metrics.gauge("rows_in_use", len(rows))
            metrics.gauge("full_offload", int(self._runtime.mode == "full"))
            metrics.write(self._settings.metrics_file)

    def _read_mode(self) -> None:
        path = self._settings.mode_file
        if path is None:
            return
        try:
            text = Path(path).read_text().strip()
        except OSError:
            return  # not there yet, or just being replaced
        if text == self._mode_text:
            return
        self._mode_text = text
        if text in MODES:
            self._runtime.set_mode(text)
            _log.warning("AVSG: the mode is %s from the next step on, as %s says.", text, path)
        elif text:
            allowed = " or ".join(MODES)
            _log.error("AVSG: %s says %r, but %s is allowed: the mode stays as it is.", path, text, allowed)

    def _on_wrong(self, text: str) -> None:
        if self._settings.shadow_action == "full":
            self._runtime.set_mode("full")
            _log.error("AVSG switched to full offload because a device row was wrong: %s", text)
