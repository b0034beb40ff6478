# SPDX-License-Identifier: Apache-2.0
"""Layers of a DSA model that share one indexer: one top-k, one row of the pool and one match a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import sentence

FULL, SHARED = "full", "shared"
_LETTERS = {"F": FULL, "S": SHARED}


def layer_groups(config: object) -> list[list[int]]:
    """Layers that share a top-k, in order; the first of each group is the one with the indexer.

    config: the model's config.json as a mapping, or an object with its keys as attributes. The draft layer
    (num_hidden_layers and up) has an indexer of its own, its KV stays in HBM, and it is in no group. GLM-5.2:
    [0], [1], [2, 3, 4, 5], [6, 7, 8, 9] to [74, 75, 76, 77]. A config without the keys of shared indexers
    (DeepSeek-V3.2, GLM-5) gives a group a layer. ValueError: the types do not fit the layers.
    """
    groups: list[list[int]] = []
    for layer, kind in enumerate(indexer_types(config)):
        if kind == FULL:
            groups.append([])
        groups[-1].append(layer)
    return groups


def indexer_types(config: object) -> list[str]:
    """Each hidden layer's type, full or shared; the first is full (source: transformers, glm_moe_dsa).

    `indexer_types` counts most, then `index_topk_pattern` ("FFFSSS" or a list), then every
    `index_topk_freq`-th layer after the first `index_skip_topk_offset` (2 where it is absent).
    """
    num_layers = _get(config, "num_hidden_layers")
    if isinstance(num_layers, bool) or not isinstance(num_layers, int) or num_layers < 1:
        raise ValueError(
            sentence("num_hidden_layers", repr(num_layers), "1 or more", "pass the model's config.json")
        )
    name = next((key for key in ("indexer_types", "index_topk_pattern") if _get(config, key)), None)
    if name is None:
        return _scheduled(config, num_layers)
    given = _get(config, name)
    if not isinstance(given, Sequence):
        raise ValueError(sentence(name, repr(given), "a list with a type a layer", "pass the published list"))
    types = [_LETTERS.get(kind, kind) for kind in given]
    if len(types) != num_layers:
        raise ValueError(
            sentence(
                f"the length of {name}",
                len(types),
                f"num_hidden_layers = {num_layers}",
                "give one type a layer, without the draft layer",
            )
        )
    wrong = next((i for i, kind in enumerate(types) if kind not in (FULL, SHARED)), None)
    if wrong is not None:
        raise ValueError(
            sentence(f"{name}[{wrong}]", repr(given[wrong]), "full or shared", "correct config.json")
        )
    if types[0] != FULL:
        raise ValueError(
            sentence(
                f"{name}[0]",
                repr(given[0]),
                "full",
                "give the first layer an indexer: no layer before it has a top-k to share",
            )
        )
    return types


def _scheduled(config: object, num_layers: int) -> list[str]:
    period, offset = _get(config, "index_topk_freq"), _get(config, "index_skip_topk_offset")
    period, offset = 1 if period is None else period, 2 if offset is None else offset
    for name, value in (("index_topk_freq", period), ("index_skip_topk_offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(sentence(name, repr(value), "a whole number from 1", "correct config.json"))
    return [FULL if max(i - offset + 1, 0) % period == 0 else SHARED for i in range(num_layers)]


def _get(config: object, name: str) -> object:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
