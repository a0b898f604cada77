"""``dirtybus scale``: another number of workers for a running instance."""

from __future__ import annotations

import click

from dirtybus.cli.complaint import complaining
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reach, reaching
from dirtybus.config.extent import Extents
from dirtybus.config.kinds import placed
from dirtybus.errors import ConfigError, DirtyError

__all__ = ["scale"]


@click.command()
@click.argument("workers", type=click.IntRange(min=0), metavar="[N]", required=False)
@click.option("--app", metavar="PATH", help="N is for this app alone, where each worker holds one.")
@click.option("--pool-size", metavar="MIN-MAX", help="Other limits for a pool that grows and shrinks by itself.")
@reaching
@json_option
def scale(
    workers: int | None, *, app: str | None, pool_size: str | None, socket: str | None, name: str | None, as_json: bool
) -> None:
    """Have N workers from now on. Does not wait for them; running calls finish.

    Never goes below what the apps' own limits require: then it says so, goes as low as it can, and ends with 1.
    """
    with complaining(as_json=as_json):
        if (workers is None) == (pool_size is None):
            raise ConfigError("give either a number of workers or --pool-size MIN-MAX")
        extent = placed("--pool-size", Extents().read, pool_size)
        with reach(socket, name) as client:
            told = client.scale(workers, app=app, pool_size=extent)
        if workers is not None and told["workers"] != workers:
            why = f": {told['note']}" if told.get("note") else ""
            raise DirtyError(f"aimed at {told['workers']} workers instead of {workers}{why}", told)
        click.echo(json_text(told) if as_json else f"{told['workers']} workers")
