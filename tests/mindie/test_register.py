# SPDX-License-Identifier: Apache-2.0
"""register(): every name of the table, or none and a sentence; stand-ins for MindIE's modules, no torch."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from avsg.mindie.register import REPLACED, RegistrationError, register, registered, unregister


def stand_in(parameters: str):
    """A function with these parameters that returns what it got."""
    names = parameters.split()
    listed = ", ".join("**kwargs" if name == "kwargs" and name is names[-1] else name for name in names)
    scope: dict = {}
    exec(f"def stock({listed}):\n    return ({', '.join(names)},)", scope)
    return scope["stock"]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    """Modules with the table's names, in the place of MindIE's."""
    made: dict[str, types.ModuleType] = {}
    for entry in REPLACED:
        for name in (entry.module, *entry.copies):
            if name not in made:
                made[name] = types.ModuleType(name)
                monkeypatch.setitem(sys.modules, name, made[name])
        owner: object = made[entry.module]
        *parents, last = entry.path.split(".")
        for parent in parents:
            if not hasattr(owner, parent):
                setattr(owner, parent, type(parent, (), {}))
            owner = getattr(owner, parent)
        setattr(owner, last, stand_in(entry.parameters))
        for copy in entry.copies:
            setattr(made[copy], last, getattr(owner, last))
    yield made
    unregister()


def bound(modules: dict[str, types.ModuleType]) -> list[object]:
    """What stands under every name of the table, copies included."""
    values = []
    for entry in REPLACED:
        owner: object = modules[entry.module]
        *parents, last = entry.path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        values += [getattr(place, last) for place in (owner, *(modules[copy] for copy in entry.copies))]
    return values


def test_every_name_is_replaced_once_and_put_back(modules) -> None:
    stock = bound(modules)
    register()
    replaced = bound(modules)
    assert not set(map(id, replaced)) & set(map(id, stock)) and registered()
    register()
    assert bound(modules) == replaced
    unregister()
    assert bound(modules) == stock and not registered()
    unregister()


def test_a_name_is_replaced_in_the_modules_that_imported_it_by_value(modules) -> None:
    router = next(entry for entry in REPLACED if entry.copies)
    register()
    functions = {getattr(modules[name], router.path) for name in (router.module, *router.copies)}
    assert len(functions) == 1


@pytest.mark.parametrize("entry", REPLACED, ids=lambda entry: entry.path)
def test_a_name_that_moved_is_named_and_nothing_is_replaced(modules, entry) -> None:
    owner: object = modules[entry.module]
    *parents, last = entry.path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    delattr(owner, last)
    rest = {name: vars(module).copy() for name, module in modules.items()}
    with pytest.raises(
        RegistrationError, match="is not the one that AVSG's adapter was written for"
    ) as error:
        register()
    assert f"{entry.module}.{entry.path}: " in str(error.value)
    assert {name: vars(module) for name, module in modules.items()} == rest and not registered()


def test_other_parameters_and_a_missing_module_are_listed_together(modules, monkeypatch) -> None:
    modules[REPLACED[0].module].get_router_ins = stand_in("load_config cache")
    gone = "mindie_llm.text_generator.utils.kvcache_settings"
    monkeypatch.setitem(sys.modules, gone, None)
    with pytest.raises(RegistrationError) as error:
        register()
    assert "its parameters are (load_config cache), not (load_config)" in str(error.value)
    assert f"{gone}.KVCacheSettings.__init__: " in str(error.value)


def test_stock_functions_still_run_where_no_model_enables_avsg(modules) -> None:
    register()
    generator, store = (
        modules[f"mindie_llm.text_generator.{name}"] for name in ("generator", "utils.tg_infer_context_store")
    )
    assert generator.calc_block_mem("info", 128, 3) == ("info", 128, 3)
    assert store.TGInferContextStore.clear_context_by_seq_ids(None, [1]) is None
    assert generator.Generator.copy_blocks(None, "map") is None
    backend = modules["mindie_llm.runtime.layers.attention.sparse_attention_layer"].get_attn_backend
    assert backend(use_sfa=True) == (False, True)


def test_a_call_with_another_section_changes_the_section_only(modules) -> None:
    from avsg.mindie import engine_setup

    register({"enable": True, "slots": 4096})
    replaced = bound(modules)
    assert engine_setup._section == {"enable": True, "slots": 4096}
    register()
    assert engine_setup._section is None and bound(modules) == replaced


def test_importing_the_adapter_loads_neither_torch_nor_mindie() -> None:
    code = (
        "import sys, avsg.mindie.register; "
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'mindie_llm')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_table_names_each_thing_once() -> None:
    names = [(entry.module, entry.path) for entry in REPLACED]
    assert len(set(names)) == len(names)


@pytest.mark.torch
def test_the_table_fits_the_mindie_that_is_here(mindie) -> None:
    register()
    assert registered()
    unregister()
