# SPDX-License-Identifier: Apache-2.0
"""One top-k for a group of attention layers, whatever their implementation class."""

from __future__ import annotations

from functools import partial
from typing import Any


def share_topk(impls: list[Any]) -> None:
    """Binds `indexer_select` of a group's attention implementations: the first selects, the others reuse.

    impls: the group in order; each has MindIE's `indexer_select(...) -> topk_indices`. The others return the
    tensor that the first returned in this forward, prefill or decode, and touch neither indexer nor index
    cache; the last lets go of it (a prompt's top-k is large). RuntimeError: the first has not selected.
    A captured graph holds the order of the layers, so a replay needs nothing.
    """
    first, *others = impls
    if not others:
        return
    select, kept = first.indexer_select, []

    def select_and_keep(*args: Any, **kwargs: Any) -> Any:
        kept[:] = [select(*args, **kwargs)]
        return kept[0]

    def reuse(is_last: bool, *args: Any, **kwargs: Any) -> Any:
        if not kept:
            raise RuntimeError(
                "A layer that shares an indexer ran before the one that has it: keep the order of layers."
            )
        return kept.pop() if is_last else kept[0]

    first.indexer_select = select_and_keep
    for impl in others:
        impl.indexer_select = partial(reuse, impl is others[-1])
