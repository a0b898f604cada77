"""``dirtybus scale``: another number of workers for a running instance."""

from __future__ import annotations

import click

from dirtybus.cli.complaint import complaining
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reach, reaching
from dirtybus.errors import DirtyError

__all__ = ["scale"]


@click.command()
@click.argument("workers", type=click.IntRange(min=0), metavar="N")
@reaching
@json_option
def scale(workers: int, *, socket: str | None, name: str | None, as_json: bool) -> None:
    """Have N workers from now on. Does not wait for them; running calls finish.

    Never goes below what the apps' own limits require: then it says so, goes as low as it can, and ends with 1.
    """
    with complaining(as_json=as_json):
        with reach(socket, name) as client:
            told = client.scale(workers)
        if told["workers"] != workers:
            why = f": {told['note']}" if told.get("note") else ""
            raise DirtyError(f"aimed at {told['workers']} workers instead of {workers}{why}", told)
        click.echo(json_text(told) if as_json else f"{told['workers']} workers")
