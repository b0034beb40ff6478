# SPDX-License-Identifier: Apache-2.0
"""avsg replay: a trace through the pool and through baseline policies."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .. import plots
from .. import replay as engine
from ..backends import make_backend
from ..policies import POLICIES
from ..replay import PolicyRunner, PoolRunner, ReplayResult, Settings
from ..traces import Trace, load_trace, shipped_traces
from . import common

DEFAULT_RATIOS = (2, 4, 8)
COLUMNS = ("slots S", "policy", "hit rate", "rows copied", "per step", "bytes", "core share", "unlinked")


def replay_trace(
    settings: Settings, sizes: list[int], policies: list[str], *, as_json: bool, plot: str | None
) -> bool:
    """Replays, prints and plots; False when a row was wrong."""
    with common.refusals():
        for size in sizes:
            config = settings.config(size)
            if "avsg" in policies:
                make_backend(config, settings.library, settings.num_cores)
            for policy in set(policies) - {"avsg", "belady"}:
                PolicyRunner(settings, policy, size)
        if plot:
            plots.check(plot)  # before the run: a missing matplotlib costs no time
    results = _run_all(settings, sizes, policies, show_progress=not as_json)
    if as_json:
        click.echo(json.dumps(_document(settings, results), indent=1))
    else:
        _print_results(settings, results)
    if plot:
        with common.refusals():
            plots.hit_rate_figure(results, settings.trace, plot)
        click.echo(f"Plot: {plot}", err=as_json)
    return not any(result.wrong_rows for result in results)


def _run_all(
    settings: Settings, sizes: list[int], policies: list[str], show_progress: bool
) -> list[ReplayResult]:
    """Every policy at every size, with a progress bar on standard error."""
    memory = engine.Memory(settings.trace.num_tokens)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = common.console(stderr=True)
    results = []
    hidden = not (show_progress and screen.is_terminal)
    with Progress(*columns, console=screen, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=len(sizes) * len(policies) * settings.trace.num_positions)
        for size in sizes:
            for policy in policies:
                progress.update(task, description=f"{policy} S={size}")
                is_pool = policy == "avsg"
                runner = (
                    PoolRunner(settings, size, memory) if is_pool else PolicyRunner(settings, policy, size)
                )
                results.append(
                    engine.run(settings, policy, size, runner, lambda n: progress.advance(task, n))
                )
    return results


def _print_results(settings: Settings, results: list[ReplayResult]) -> None:
    """The table of a replay, with what its words mean."""
    trace, queries, console = settings.trace, settings.num_queries, common.console()
    console.print(
        f"{trace.name}: top_k {trace.top_k}, query positions {trace.context_start:,} to "
        f"{trace.num_tokens - 1:,} ({settings.warm_up} of them not counted), queries a step: {queries}"
    )
    tight = console.width < common.PLAIN_WIDTH
    table = common.table(*COLUMNS, "wrong rows", left=2, tight=tight)
    last = None
    for result in results:
        if last not in (None, result.num_slots):
            table.add_section()
        last = result.num_slots
        table.add_row(*_row(result))
    console.print(table)
    notes = (
        f"Counted on this CPU: avsg in library {settings.library} with {sum(engine.ROW_BYTES):,}-byte rows, "
        "the others in numpy without rows.\n4x: four times top_k. Core share: copies of the busiest core "
        "over the mean. Wrong rows: slots\nthat do not hold the host's row, byte for byte."
    )
    console.print(notes.replace("\n", " ") if tight else notes, style="dim")


def _row(result: ReplayResult) -> list[str]:
    dash = "-"
    share, unlinked, wrong = result.core_share_max_over_mean, result.unlinked, result.wrong_rows
    return [
        f"{result.num_slots:,} ({result.slots_per_top_k:g}x)",
        result.policy,
        f"{result.hit_rate:.2%}",
        f"{result.rows_copied:,}",
        f"{result.rows_copied_per_step:.1f}",
        common.byte_text(result.bytes_copied),
        dash if share is None else f"{share:.2f}",
        dash if unlinked is None else f"{unlinked:,}",
        dash if wrong is None else f"{wrong:,} of {result.checked_rows:,}",
    ]


def _document(settings: Settings, results: list[ReplayResult]) -> dict:
    trace = settings.trace
    return {
        "format": 1,
        "trace": trace.name,
        "top_k": trace.top_k,
        "context_start": trace.context_start,
        "positions": trace.num_positions,
        "warm_up_positions": settings.warm_up,
        "queries": settings.num_queries,
        "library": settings.library,
        "row_bytes": sum(engine.ROW_BYTES),
        "results": [asdict(result) for result in results],
    }


def parse_policies(text: str) -> list[str]:
    """Names of a comma-separated list."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise common.InputError(f"--policy has {unknown[0]!r}; the policies are {', '.join(POLICIES)}.")
    return names


def default_sizes(settings: Settings) -> list[int]:
    """2, 4 and 8 times top_k, as far as they hold a step and fit the library; else the first power of two."""
    step = settings.num_queries * settings.trace.top_k
    smallest = max(64, 1 << (step - 1).bit_length())
    try:
        backend = make_backend(settings.config(smallest), settings.library, settings.num_cores)
    except ValueError as error:
        queries = settings.num_queries
        raise ValueError(f"--queries {queries} needs {smallest} slots or more: {error}") from None
    sizes = [ratio * settings.trace.top_k for ratio in DEFAULT_RATIOS]
    fitting = [size for size in sizes if step <= size <= backend.sizes.max_num_slots and size % 64 == 0]
    return fitting or [smallest]


def checked_warm_up(trace: Trace, queries: int, warm_up: int | None) -> int:
    """The warm-up in positions; at most half of a short trace unless it was given."""
    if queries < 1:
        raise common.InputError(f"--queries is {queries}; a step has at least 1 (1 + speculative tokens).")
    if warm_up is None:
        warm_up = min(engine.WARM_UP, trace.num_positions // 2)
    # steps start at multiples of `queries`; one must start at or past the warm-up
    if warm_up < 0 or -(-warm_up // queries) * queries + queries > trace.num_positions:
        raise common.InputError(
            f"--warm-up is {warm_up} positions and a step takes {queries}, but {trace.name} has "
            f"{trace.num_positions} positions in all: nothing would be counted."
        )
    return warm_up


@click.command(epilog=f"Shipped traces: {', '.join(shipped_traces())}.")
@click.argument("trace")
@click.option(
    "--slots",
    help="Sizes, separated by commas: 8192 (slots), 8K (8192 slots, as the paper writes) or 4x (four times "
    "the trace's top_k). Default: 2x,4x,8x, as far as they hold a step and fit the library.",
)
@click.option("--policy", default=",".join(POLICIES), show_default=True, help="Separated by commas.")
@click.option("--queries", default=1, show_default=True, help="Positions a step: 1 + accepted drafts.")
@click.option(
    "--warm-up", type=int, help="First positions that are checked, not counted. Default: 256, at most half."
)
@click.option("--library", default="cpu", show_default=True, help=common.LIBRARY_HELP)
@click.option("--cores", default=0, help="Cores of the library that share the copies. Default: all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--plot", metavar="FILE", help="Draw hit rate against slots: .png, .svg or .pdf (needs matplotlib)."
)
@click.pass_context
def replay(
    context: click.Context,
    trace: str,
    slots: str | None,
    policy: str,
    queries: int,
    warm_up: int | None,
    library: str,
    cores: int,
    as_json: bool,
    plot: str | None,
) -> None:
    """Replay TRACE: a shipped trace's name, or the path of an .npz file (format: avsg/data/README.md).

    Policy avsg runs in the library on real rows; every row that a slot returns is compared with the host's.
    Exit status: 0 all rows right, 1 a row was wrong, 2 wrong input.
    """
    policies = parse_policies(policy)
    with common.refusals():
        loaded = load_trace(trace)
        settings = Settings(loaded, queries, checked_warm_up(loaded, queries, warm_up), library, cores)
        sizes = default_sizes(settings) if slots is None else common.parse_slots(slots, loaded.top_k)
    if not replay_trace(settings, sizes, policies, as_json=as_json, plot=plot):
        context.exit(1)
