# SPDX-License-Identifier: Apache-2.0
"""The command line: avsg demo, replay, trace, size, doctor."""

from __future__ import annotations

import errno

import click

from .commands.common import InputError
from .commands.demo import demo
from .commands.doctor import doctor
from .commands.model import trace
from .commands.replay import replay
from .commands.size import size


class Commands(click.Group):
    """The commands; output that cannot be written, as on a full disk, is a sentence too."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise
            raise InputError(f"The output cannot be written ({error.strerror}): write elsewhere.") from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="avsg", message="avsg %(version)s")
def main() -> None:
    """Keep the KV entries that sparse attention selects most on the device, and all of them on the host."""


for command in (demo, replay, trace, size, doctor):
    main.add_command(command)
