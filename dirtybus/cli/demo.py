"""``dirtybus demo``: options become a tour, on the screen that there is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dirtybus.cli.complaint import complaining
from dirtybus.cli.whereabouts import default_socket

if TYPE_CHECKING:
    from dirtybus.demo.view import Screen

__all__ = ["demo"]


@click.command()
@click.argument(
    "directory", default=".", metavar="[DIRECTORY]", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Worker processes. [as there are cores, 2-4]")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", default=500, show_default=True, help="Files at most.")
@click.option("--keep", is_flag=True, help="Stay up until Ctrl-C when all is shown.")
@click.option("--plain", is_flag=True, help="Lines instead of a live view.")
@click.option("--no-chat", is_flag=True, help="Leave out the language model.")
def demo(*, directory: Path, workers: int | None, limit: int, keep: bool, plain: bool, no_chat: bool) -> None:
    """Tell what the files below DIRECTORY are, by a deep-learning model in worker processes.

    Every event is posted before any worker is ready. Ends with 0 only if every event was answered.
    """
    with complaining():
        from dirtybus.cli.launching import launch
        from dirtybus.cli.log_sink import log_to_stderr
        from dirtybus.demo.tour import Tour, TourOptions

        log_to_stderr("warning")
        options = TourOptions(
            root=directory,
            limit=limit,
            workers=workers or max(2, min(4, os.cpu_count() or 1)),
            chat=not no_chat,
            socket=default_socket("demo", environ=os.environ) if keep else None,
        )
        code = Tour(options, _screen(plain=plain), sys.stdout).run(launch)
    sys.exit(code)


def _screen(*, plain: bool) -> Screen:
    if plain or not sys.stderr.isatty():
        from dirtybus.demo.view import PlainScreen

        return PlainScreen(sys.stderr)
    from rich.console import Console

    from dirtybus.demo.live_screen import LiveScreen

    return LiveScreen(Console(stderr=True))
