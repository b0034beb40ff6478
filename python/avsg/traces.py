# SPDX-License-Identifier: Apache-2.0
"""Top-k traces: read, check and find the shipped ones (format: data/README.md)."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import layout

DATA_DIR = Path(__file__).parent / "data"
DEMO_TRACE = "agent16k_L15_K512"


class TraceError(ValueError):
    """A trace that cannot be replayed; the text says why."""


@dataclass(frozen=True)
class Trace:
    """The tokens that one layer selects at consecutive query positions.

    topk_tokens: int32 [num_positions, top_k]; row i belongs to query position
    context_start + i, negative = padding.
    """

    name: str
    topk_tokens: np.ndarray
    context_start: int
    meta: dict

    @property
    def top_k(self) -> int:
        return self.topk_tokens.shape[1]

    @property
    def num_positions(self) -> int:
        return self.topk_tokens.shape[0]

    @property
    def num_tokens(self) -> int:
        """Length of the text at the end of the trace."""
        return self.context_start + self.num_positions


def shipped_traces() -> list[str]:
    """Names of the traces in the package."""
    return sorted(path.stem for path in DATA_DIR.glob("*.npz"))


def load_trace(source: str) -> Trace:
    """Read a trace by an .npz file's path or a shipped one's name; TraceError says what is wrong."""
    path = Path(source)
    if source in shipped_traces():
        path = DATA_DIR / f"{source}.npz"
    elif not path.is_file():
        names = ", ".join(shipped_traces())
        raise TraceError(
            f"No trace {source!r}: give the path of an .npz file or one of the shipped traces {names}."
        )
    tokens, meta = _read(path)
    return Trace(path.stem, _checked_tokens(path, tokens, meta), meta["context_start"], meta)


def _read(path: Path) -> tuple[np.ndarray, dict]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise TraceError(
                    f"{path} holds one array; a trace is an .npz file with the arrays topk and meta."
                )
            missing = {"topk", "meta"} - set(arrays.files)
            if missing:
                raise TraceError(
                    f"{path} has no array {' and '.join(sorted(missing))}; a trace holds topk and meta."
                )
            tokens, meta_text = arrays["topk"], str(arrays["meta"])
    except TraceError:
        raise
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror or error}).") from None
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise TraceError(
            f"{path} is not a trace, or is damaged: an .npz file with the arrays topk and meta is needed."
        ) from None
    try:
        meta = json.loads(meta_text)
    except json.JSONDecodeError as error:
        raise TraceError(f"meta of {path} is not JSON ({error}).") from None
    start = meta.get("context_start") if isinstance(meta, dict) else None
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise TraceError(
            f"meta of {path} needs context_start, a whole number of at least 0; it is {start!r}."
        )
    return tokens, meta


def _checked_tokens(path: Path, tokens: np.ndarray, meta: dict) -> np.ndarray:
    """int32 [positions, K] of a trace whose shape and values follow the format."""
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or 0 in tokens.shape:
        raise TraceError(
            f"topk of {path} must be whole numbers [steps, top_k], at least 1 x 8; it is {tokens.dtype} "
            f"{list(tokens.shape)}."
        )
    num_positions, top_k = tokens.shape
    if top_k % layout.TOP_K_MULTIPLE:
        raise TraceError(f"top_k of {path} is {top_k}; it must be a multiple of {layout.TOP_K_MULTIPLE}.")
    start = meta["context_start"]
    if start + num_positions > layout.MAX_TOKENS:
        raise TraceError(
            f"{path} ends at token {start + num_positions}; a request holds at most {layout.MAX_TOKENS}."
        )
    position = start + np.arange(num_positions)
    late = np.flatnonzero(tokens.max(axis=1) > position)
    if late.size:
        row = int(late[0])
        raise TraceError(
            f"Row {row} of {path} selects token {tokens[row].max()}, but its query stands at position "
            f"{position[row]}; a query sees tokens up to its own position."
        )
    return np.ascontiguousarray(
        np.maximum(tokens, layout.PAD_TOKEN) if tokens.dtype.kind == "i" else tokens, np.int32
    )
