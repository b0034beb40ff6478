# SPDX-License-Identifier: Apache-2.0
"""avsg size: what a pool takes, or with --model a rank that serves a model through it."""

from __future__ import annotations

import json

import click

from ..backends import make_backend
from ..config import PoolConfig
from . import common, model_size


@click.command()
@click.option(
    "--slots", default="8K", show_default=True, help="Slots S per row: 8192, 8K (8192) or 4x (times top_k)."
)
@click.option(
    "--top-k", default=2048, show_default=True, help="K, tokens that the indexer selects for one query."
)
@click.option(
    "--queries", default=1, show_default=True, help="Query positions a step (1 + speculative tokens)."
)
@click.option(
    "--rows", default=1, show_default=True, help="Rows of the state: requests times groups of layers."
)
@click.option("--row-bytes", default=1152, show_default=True, help="Bytes of one token's KV in one layer.")
@click.option(
    "--library",
    default="cpu",
    show_default=True,
    help=common.LIBRARY_HELP,
)
@model_size.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def size(
    command: click.Context,
    slots: str,
    top_k: int,
    queries: int,
    rows: int,
    row_bytes: int,
    library: str,
    as_json: bool,
    **of_a_model: object,
) -> None:
    """Memory of a pool: state, device_kv and on-chip buffer (UB), and the largest S that fits.

    With --model: HBM and host memory of one rank that serves the model through MindIE-LLM.

    Exit status: 0, or 2 when the sizes are not allowed; the sentence then says what is.
    """
    model_size.refuse_options_that_do_not_go_together(command)
    if of_a_model["model"] is None:
        _size_of_pool(slots, top_k, queries, rows, row_bytes, library, as_json)
    else:
        rows = rows if model_size.is_given(command, "rows") else None
        with common.refusals():
            model_size.size_of_model(slots, queries, rows, library, as_json, **of_a_model)


def _size_of_pool(
    slots: str, top_k: int, queries: int, rows: int, row_bytes: int, library: str, as_json: bool
) -> None:
    if row_bytes < 16 or row_bytes % 16:
        raise common.InputError(f"--row-bytes is {row_bytes}; a row is a multiple of 16 bytes, at least 16.")
    with common.refusals():
        config = PoolConfig(rows, model_size.parse_one_size(slots, top_k), top_k, queries)
        report = make_backend(config, library, 0).sizes
    values = {
        "num_slots": config.num_slots,
        "top_k": top_k,
        "num_queries": queries,
        "num_rows": rows,
        "row_bytes": row_bytes,
        "library": library,
        "num_buckets": report.num_buckets,
        "probe_rounds": report.probe_rounds,
        "state_bytes": report.state_bytes,
        "state_stride_bytes": report.state_stride_bytes,
        "workspace_bytes": report.workspace_bytes,
        "ub_bytes": report.ub_bytes,
        "device_kv_row_bytes": config.num_slots * row_bytes,
        "device_kv_bytes": rows * config.num_slots * row_bytes,
        "max_num_slots": report.max_num_slots,
    }
    if as_json:
        click.echo(json.dumps(values, indent=1))
        return
    table = common.table("", "one row", f"{rows:,} rows")
    table.add_row("state", f"{report.state_stride_bytes:,} B", f"{report.state_bytes:,} B")
    table.add_row(
        "device_kv, each layer", f"{values['device_kv_row_bytes']:,} B", f"{values['device_kv_bytes']:,} B"
    )
    table.add_row("on-chip buffer (UB) of a match", f"{report.ub_bytes:,} B", "")
    table.add_row("workspace of a call", "", f"{report.workspace_bytes:,} B")
    console = common.console()
    console.print(
        f"S {config.num_slots:,}, top_k {top_k:,}, queries a step: {queries}, rows of {row_bytes:,} bytes, "
        f"library {library}"
    )
    console.print(table)
    console.print(
        f"{report.num_buckets:,} buckets, {report.probe_rounds + 1} probes at most; largest S that fits "
        f"with this top_k: {report.max_num_slots:,}."
    )
