# SPDX-License-Identifier: Apache-2.0
"""The command line: avsg demo, replay, trace, size, doctor."""

from __future__ import annotations

import click

from .commands.demo import demo
from .commands.doctor import doctor
from .commands.model import trace
from .commands.replay import replay
from .commands.size import size


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="avsg", message="avsg %(version)s")
def main() -> None:
    """Keep the KV entries that sparse attention selects most on the device, and all of them on the host."""


for command in (demo, replay, trace, size, doctor):
    main.add_command(command)
