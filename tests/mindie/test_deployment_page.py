# SPDX-License-Identifier: Apache-2.0
"""The deployment page: its table, configurations, keys, metrics and commands are those of the code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from click.testing import CliRunner

import avsg.mindie
from avsg.cli import main
from avsg.mindie import check_config
from avsg.mindie.settings import Settings
from avsg.mindie.sizing import GIB, LANDING_BLOCKS, MODELS, size_kv, sizing_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = (Path(avsg.mindie.__file__).parent / "README.md").read_text()
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.M | re.S)
COMMANDS = [
    shlex.split(line, comments=True) for kind, text in FENCES if kind == "sh" for line in text.splitlines()
]
ONE_NODE, SEPARATE = (json.loads(text) for kind, text in FENCES if kind == "json")
GLM = MODELS["glm-5.2"]


def test_sizing_table_is_what_the_formula_gives() -> None:
    assert "\n".join(["", *sizing_table(), ""]) in PAGE, (
        "paste what `python -m avsg.mindie.sizing` prints into the page"
    )


def test_figures_in_the_text_follow_from_the_formula() -> None:
    a_request = {name: size_kv(shape, requests=1, context=1) for name, shape in MODELS.items()}
    buffers = [f"{sizing.device_kv_bytes / GIB:.2f} GiB" for sizing in a_request.values()]
    assert f"{buffers[0]} a request\nwith GLM-5.2, {buffers[1]} with DeepSeek-V3.2" in PAGE
    node = 16 * size_kv(GLM, requests=8, context=65536).host_bytes / GIB
    assert f"16 ranks with 8 requests of 64K tokens of GLM-5.2 each take {node:.0f} GiB" in PAGE
    landing = size_kv(GLM, requests=1, context=1, landing_blocks=LANDING_BLOCKS).landing_bytes / GIB
    assert f"with GLM-5.2 these blocks take {landing:.2f} GiB of HBM" in PAGE
    for name in MODELS:
        shape = MODELS[name]
        assert f"{shape.num_layers} layers in {shape.num_groups} groups" in PAGE


def test_the_configuration_of_one_node_is_accepted_and_its_host_memory_is_enough() -> None:
    checked = check_config.check_config(ONE_NODE, GLM)
    assert checked.settings.slots == 8192 and checked.engine.num_queries == 3
    assert checked.sizing.host_bytes <= checked.settings.host_gib * GIB
    model = ONE_NODE["BackendConfig"]["ModelDeployConfig"]["ModelConfig"][0]
    section = {**model["models"]["avsg"], "rows": 16}
    more_rows = json.loads(
        json.dumps(ONE_NODE).replace(json.dumps(model["models"]["avsg"]), json.dumps(section))
    )
    sizing = check_config.check_config(more_rows, GLM).sizing
    assert sizing.device_kv_bytes == 2 * checked.sizing.device_kv_bytes
    schedule = ONE_NODE["BackendConfig"]["ScheduleConfig"]
    deploy = ONE_NODE["BackendConfig"]["ModelDeployConfig"]
    assert schedule["maxPrefillTokens"] >= deploy["maxInputTokenLen"], "MindIE asks for that"


def test_only_the_decode_node_of_the_cluster_has_the_section_and_it_is_accepted() -> None:
    checked = check_config.check_config(SEPARATE["mindie_server_decode_config"], GLM, role="decoder")
    assert checked.engine.role == "decoder" and checked.sizing.staging_tokens == 128
    assert checked.sizing.host_bytes <= checked.settings.host_gib * GIB
    prefill = SEPARATE["mindie_server_prefill_config"]
    assert check_config.check_config(prefill, GLM, role="prefill").settings is None
    assert SEPARATE["deploy_config"] == {"p_instances_num": 5, "d_instances_num": 1}


def test_every_key_and_its_default_is_on_the_page() -> None:
    rows = dict(re.findall(r"^\| `((?!avsg_)\w+)` \| ([^|]+) \|", PAGE, re.M))
    assert set(rows) == {"enable", *(field.name for field in fields(Settings))}
    of_the_engine = {"rows", "host_gib", "mode_file", "metrics_file", "library"}  # said in words
    shown = {name: json.loads(text.strip("`")) for name, text in rows.items() if name not in of_the_engine}
    defaults = {
        field.name: field.default for field in fields(Settings) if field.default not in (None, MISSING)
    }
    assert shown == {"enable": False, **defaults}


@pytest.mark.torch
def test_every_metric_is_on_the_page_and_no_other() -> None:
    pytest.importorskip("torch", reason="torch is missing: run these tests in .venv-torch (scripts/test.sh)")
    from avsg.mindie.metrics import Metrics

    exported = set(re.findall(r"^(avsg_\w+)", Metrics([[0]], row_bytes=1).prometheus(), re.M))
    table = set(re.findall(r"`(avsg_\w+)`", "\n".join(re.findall(r"^\| `avsg_.*", PAGE, re.M))))
    assert table == exported
    assert set(re.findall(r"\bavsg_\w+", PAGE)) == exported


def test_commands_before_the_first_that_needs_an_npu_run(tmp_path: Path) -> None:
    size = next(words for words in COMMANDS if words[:1] == ["avsg"])
    result = CliRunner().invoke(main, size[1:])
    assert result.exit_code == 0 and "device buffers" in result.output
    assert CliRunner().invoke(main, [*size[1:], "--hbm", "24", "--host", "128"]).exit_code == 0
    assert "--hbm 24 --host 128" in PAGE
    check = next(words for words in COMMANDS if "avsg.mindie.check_config" in words)
    (tmp_path / "config.json").write_text(json.dumps(ONE_NODE))
    (tmp_path / "user_config.json").write_text(json.dumps(SEPARATE))
    checks = [words for words in COMMANDS if "avsg.mindie.check_config" in words]
    assert checks[0] == check and len(checks) == 2
    for words in checks:
        run = subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0 and run.stdout.startswith("models.avsg is fine."), run.stderr


def test_every_script_and_module_of_the_page_exists() -> None:
    words = [word for command in COMMANDS for word in command]
    scripts = {word for word in words if word.startswith("scripts/")}
    modules = {
        command[place + 1] for command in COMMANDS for place, word in enumerate(command) if word == "-m"
    }
    assert len(scripts) == 3 and all((ROOT / script).is_file() for script in scripts)
    assert len(modules) == 4
    for module in modules:
        path = ROOT / "python" / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


def test_the_page_says_where_an_npu_is_needed_and_that_none_was_used() -> None:
    assert "Nothing here has run on an NPU" in PAGE and "from the second on you need an NPU" in PAGE


CASES = [
    ({"enable": True}, "standard", "backendType is 'atb'"),
    ({"enable": True, "slot": 1}, "standard", "did you mean slots?"),
    ({"enable": True}, "prefill", "leave the section out on prefill nodes"),
]


@pytest.mark.parametrize(("section", "role", "words"), CASES, ids=[words for *_, words in CASES])
def test_a_wrong_configuration_ends_with_status_2_and_sentences(
    section: dict, role: str, words: str, tmp_path: Path
) -> None:
    config = json.loads(json.dumps(ONE_NODE))
    model = config["BackendConfig"]["ModelDeployConfig"]["ModelConfig"][0]
    model["models"]["avsg"] = section
    model["backendType"] = "atb" if "backendType" in words else "torch"
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    result = CliRunner().invoke(check_config.main, [str(path), "--model", "glm-5.2", "--role", role])
    assert result.exit_code == 2 and words in " ".join(result.output.split()), result.output


def test_check_config_names_what_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(ONE_NODE))
    result = CliRunner().invoke(check_config.main, [str(path)])
    assert result.exit_code == 2 and "name the model with --model" in " ".join(result.output.split())
    path.write_text("{}")
    result = CliRunner().invoke(check_config.main, [str(path)])
    assert result.exit_code == 2 and "has no 'BackendConfig'" in " ".join(result.output.split())


def changed(**changes: object) -> dict:
    """ONE_NODE with other keys of its model."""
    config = json.loads(json.dumps(ONE_NODE))
    config["BackendConfig"]["ModelDeployConfig"]["ModelConfig"][0].update(changes)
    return config


WRONG_FILES = {
    "not an object": ([1], "holds no JSON object"),
    "the file of a cluster": (SEPARATE, "say which node with --role"),
    "no model": (
        {"BackendConfig": {"ModelDeployConfig": {"ModelConfig": []}, "ScheduleConfig": {}}},
        "ModelConfig",
    ),
    "plugin_params an object": (changed(plugin_params={"plugin_type": "mtp"}), "plugin_params is {"),
    "plugin_params not JSON": (changed(plugin_params="{mtp"), "plugin_params is '{mtp'"),
    "models a text": (changed(models='{"avsg": {}}'), "models is '"),
    "a library that is not here": (changed(models={"avsg": {"enable": True, "library": "no.so"}}), "no.so"),
    "a number in quotes": (
        json.loads(json.dumps(ONE_NODE).replace('"maxBatchSize": 8', '"maxBatchSize": "8"')),
        "'8' (str), but a whole number is allowed",
    ),
}


@pytest.mark.parametrize("file", WRONG_FILES)
def test_check_config_says_what_is_wrong_with_a_file_of_another_form(file: str, tmp_path: Path) -> None:
    document, words = WRONG_FILES[file]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    result = CliRunner().invoke(check_config.main, [str(path), "--model", "glm-5.2"])
    assert result.exit_code == 2 and words in " ".join(result.output.split()), result.output


def test_check_config_reads_the_features_that_are_refused() -> None:
    config = json.loads(json.dumps(ONE_NODE))
    backend = config["BackendConfig"]
    model = backend["ModelDeployConfig"]["ModelConfig"][0]
    model |= {"cp": 2, "sp": 2, "plugin_params": '{"plugin_type": "mtp, prefix_cache, la"}'}
    backend["kvPoolConfig"]["backend"] = "unifiedcache"
    backend["ScheduleConfig"]["templateType"] = "Mix"
    config["ServerConfig"] = {"layerwiseDisaggregated": True}
    with pytest.raises(ValueError) as caught:
        check_config.check_config(config, GLM)
    assert len(str(caught.value).splitlines()) == 7


def test_check_config_says_when_sequences_are_too_short_to_gain(tmp_path: Path) -> None:
    config = json.loads(json.dumps(ONE_NODE))
    config["BackendConfig"]["ModelDeployConfig"]["maxSeqLen"] = 4096
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert "saves no HBM" in CliRunner().invoke(check_config.main, [str(path), "--model", "glm-5.2"]).output
    path.write_text(json.dumps(ONE_NODE))
    assert "saves no" not in CliRunner().invoke(check_config.main, [str(path), "--model", "glm-5.2"]).output


def test_check_config_says_that_a_host_memory_holds_no_request(tmp_path: Path) -> None:
    config = json.loads(json.dumps(ONE_NODE))
    section = config["BackendConfig"]["ModelDeployConfig"]["ModelConfig"][0]["models"]["avsg"]
    section["host_gib"] = 1
    with pytest.raises(ValueError, match="a request at its full length takes 512"):
        check_config.check_config(config, GLM)
    section["enable"] = False
    assert check_config.check_config(config, GLM).settings is None
