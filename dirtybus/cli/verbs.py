"""The list of verbs, in the order in which `dirtybus --help` shows them. Each verb stands in a file of its own."""

from __future__ import annotations

import click

from dirtybus import __version__
from dirtybus.cli.call import call
from dirtybus.cli.demo import demo
from dirtybus.cli.reload import reload
from dirtybus.cli.run import run
from dirtybus.cli.scale import scale
from dirtybus.cli.stash import stash
from dirtybus.cli.status import status
from dirtybus.cli.stop import stop

__all__ = ["VERBS", "dirtybus"]

VERBS = (run, call, status, stash, scale, reload, stop, demo)


class _InOrder(click.Group):
    """Lists the verbs as they were added: by what people need first, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="dirtybus %(version)s")
def dirtybus() -> None:
    """An event bus whose heavy work runs in isolated, stateful worker processes.

    Results are written to stdout, everything else to stderr.
    """


for _verb in VERBS:
    dirtybus.add_command(_verb)
