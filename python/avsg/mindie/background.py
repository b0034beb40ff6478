# SPDX-License-Identifier: Apache-2.0
"""Background: a job that a worker process does now and then, beside its steps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Background:
    """Calls job() every period_seconds on a daemon thread from start() to stop().

    A job that raises is logged and called again in the next period: serving goes on without it.
    """

    def __init__(self, period_seconds: float, job: Callable[[], object]) -> None:
        self._period, self._job = period_seconds, job
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="avsg", daemon=True)

    def start(self) -> None:
        """Begins; once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, after a job that is being done; may be called again."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            try:
                self._job()
            except Exception:  # whatever it is, the next period may go well, and requests are being served
                _log.exception("a background job of AVSG failed; it is tried again in %s s", self._period)
