# SPDX-License-Identifier: Apache-2.0
"""What the checks of the silicon share: the library and the device under test, pools, and steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from device import Device, DeviceError
from device_pool import DevicePool, ReferencePool, Shape
from golden import fill

from avsg import _abi

SEED = 11


@dataclass
class Run:
    """What a check works with; repeats scales the long ones down for a trial run."""

    library: _abi.NativeLibrary
    device: Device
    repeats: float = 1.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))

    def count(self, full: int) -> int:
        return max(int(full * self.repeats), 2)

    @contextmanager
    def pools(self, shape: Shape) -> Iterator[tuple[DevicePool, ReferencePool]]:
        """The same pool twice, with the same random rows; a pool on a broken device is left alone."""
        twin = ReferencePool(shape)
        fill(twin, self.rng)
        pool = DevicePool(self.library, self.device, shape)
        pool.set_inputs(twin)
        try:
            yield pool, twin
        except DeviceError as error:
            if not error.is_broken:
                pool.close()
            raise
        except Exception:
            pool.close()
            raise
        pool.close()


def lines(
    tokens: np.ndarray, lease: int, seq_len: int = 1 << 20, verified_len: int | None = None
) -> dict[str, np.ndarray]:
    """A step with these top_k [B, Q, K]: entry b in row b, all tokens verified if verified_len is None."""
    verified_len = seq_len if verified_len is None else verified_len
    values = {"verified_lens": verified_len, "seq_lens": seq_len, "leases": lease}
    line = np.arange(len(tokens), dtype=np.int32)
    entries = {name: np.full_like(line, value) for name, value in values.items()}
    return {"topk_tokens": tokens.astype(np.int32), **entries, "rows": line}


def match_both(pool: DevicePool, twin: ReferencePool, step: dict[str, np.ndarray]) -> None:
    """A match on the device and in numpy: the same plan and state."""
    pool.set_step(step)
    pool.poison_plan()
    pool.match()
    twin.match(step)
    pool.check_against(twin, "plan", "state")
