# SPDX-License-Identifier: Apache-2.0
"""The models.avsg section: what it gives, and that everything wrong in it is named in a sentence."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from avsg.mindie.settings import EngineFacts, Settings, parse_settings

ENGINE = EngineFacts(top_k=2048, max_requests=32, max_seq_len=131072)


def refusal(section: object, **facts: object) -> str:
    engine = EngineFacts(**{"top_k": 2048, "max_requests": 32, "max_seq_len": 131072, **facts})
    with pytest.raises(ValueError) as caught:
        parse_settings(section, engine=engine)
    text = str(caught.value)
    assert all(re.search(r"[.?]$", line) for line in text.splitlines()), "every line is a sentence"
    return text


@pytest.mark.parametrize("section", [None, {}, {"enable": False}, {"enable": False, "slots": 100}])
def test_an_absent_or_disabled_section_gives_nothing(section: object) -> None:
    assert parse_settings(section, engine=ENGINE) is None


def test_the_shortest_section_gives_a_row_for_each_request() -> None:
    settings = parse_settings({"enable": True}, engine=ENGINE)
    assert settings == Settings(rows=32)
    config = settings.pool_config(ENGINE)
    assert (config.num_rows, config.num_slots, config.top_k, config.num_queries) == (32, 8192, 2048, 1)


def test_every_key_reaches_the_settings() -> None:
    section = {
        "slots": 4096,
        "rows": 40,
        "max_life": 500,
        "mode": "full",
        "mode_file": "mode",
        "host_gib": 1.5,
        "huge_pages": False,
        "shadow_rows_per_minute": 0,
        "shadow_action": "log",
        "metrics_file": "avsg-{rank}.prom",
        "metrics_seconds": 5,
        "library": "cpu",
    }
    assert parse_settings({"enable": True, **section}, engine=ENGINE) == Settings(**section)


def test_the_section_object_of_mindie_is_read() -> None:
    class SectionConfig:
        def to_dict(self) -> dict:
            return {"enable": True, "slots": 4096}

    assert parse_settings(SectionConfig(), engine=ENGINE).slots == 4096


@pytest.mark.parametrize("enable", [True, False])
def test_an_unknown_key_is_refused_with_the_nearest_one_even_when_disabled(enable: bool) -> None:
    assert "no key 'slot': did you mean slots?" in refusal({"enable": enable, "slot": 8192})
    assert "take it out?" in refusal({"enable": enable, "zzz": 1})


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ([1], "models.avsg is [1]"),
        ({"enable": 1}, "models.avsg.enable is 1, but true or false"),
        ({"slots": 8000}, "models.avsg.slots is 8000, but a multiple of 128 is allowed: round it up to 8064"),
        ({"slots": "8192"}, "models.avsg.slots is '8192', but a whole number"),
        ({"slots": True}, "models.avsg.slots is True"),
        ({"slots": 8192.0}, "models.avsg.slots is 8192.0"),
        ({"slots": 1024}, "num_queries * top_k"),
        ({"slots": 16384}, "the largest num_slots that fits this top_k is 8192"),
        ({"rows": 31}, "maxBatchSize = 32 or more"),
        ({"max_life": 2001}, "1 to 2000"),
        ({"mode": "off"}, "avsg or full"),
        ({"shadow_action": "stop"}, "full or log"),
        ({"host_gib": 0}, "a number above 0"),
        ({"host_gib": True}, "a number above 0"),
        ({"huge_pages": 1}, "true or false"),
        ({"shadow_rows_per_minute": -1}, "a whole number from 0"),
        ({"metrics_seconds": 0}, "a whole number from 1"),
        ({"metrics_file": ""}, "a text"),
        ({"library": 5}, "a text"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_in_a_sentence(section: object, words: str) -> None:
    section = {"enable": True, **section} if isinstance(section, dict) else section
    assert words in refusal(section)


def test_drafts_need_slots_for_every_query() -> None:
    assert "num_queries * top_k is 5 * 2048 = 10240" in refusal({"enable": True}, num_queries=5)
    settings = parse_settings({"enable": True}, engine=EngineFacts(2048, 8, 4096, num_queries=4))
    assert settings.slots == 8192


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("backend", "atb", 'set it to "torch"'),
        ("prefix_cache", True, "prefix_cache"),
        ("splitfuse", True, "splitfuse"),
        ("context_parallel", 2, "cp is 2"),
        ("sequence_parallel", 2, "sp is 2"),
        ("kv_pool", True, "kvPoolConfig"),
        ("layerwise", True, "layerwiseDisaggregated"),
        ("lookahead", True, "memory_decoding"),
        ("quantized_kv", True, "int8 KV"),
        ("nz_format", True, "NZ format"),
        ("role", "prefill", "leave the section out on prefill nodes"),
        ("role", "flex", "flex nodes are not handled"),
    ],
)
def test_a_feature_that_does_not_go_together_is_refused(fact: str, value: object, words: str) -> None:
    assert words in refusal({"enable": True}, **{fact: value})
    assert parse_settings({"enable": False}, engine=EngineFacts(2048, 1, 1, **{fact: value})) is None


def test_everything_wrong_is_named_at_once() -> None:
    text = refusal({"enable": True, "slot": 1, "mode": "off"}, prefix_cache=True, splitfuse=True)
    assert len(text.splitlines()) == 4


def test_the_decoder_of_separated_prefill_is_served() -> None:
    assert parse_settings({"enable": True}, engine=EngineFacts(2048, 8, 4096, role="decoder")) is not None


def test_importing_the_adapter_loads_neither_torch_nor_mindie() -> None:
    code = (
        "import sys, avsg.mindie\n"
        "from avsg.mindie import RequestRows, parse_settings, size_kv\n"
        "assert not {'torch', 'mindie_llm', 'torch_npu'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
