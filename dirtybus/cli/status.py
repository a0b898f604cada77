"""``dirtybus status``: what is going on in a running instance, on one screen."""

from __future__ import annotations

import os
import sys

import click

from dirtybus.cli.complaint import complain, complaining
from dirtybus.cli.exits import ExitCode
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reaching
from dirtybus.cli.status_form import plain_status, screen_of
from dirtybus.cli.whereabouts import find_socket
from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyConnectionError

__all__ = ["status"]


@click.command()
@reaching
@json_option
def status(*, socket: str | None, name: str | None, as_json: bool) -> None:
    """Show the workers, the queue and the ledger of a running instance.

    Ends with 3 when nothing runs there. In a pipe, the tables are tab-separated.
    """
    with complaining(as_json=as_json):
        path = find_socket(socket, name, environ=os.environ)
        with _connected(path, as_json=as_json) as client:
            told = client.status()
    if as_json:
        click.echo(json_text({"schema": "dirtybus.status/1", "socket": path, **told}))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(screen_of(told))
    else:
        click.echo(plain_status(told), nl=False)


def _connected(path: str, *, as_json: bool) -> DirtyClient:
    client = DirtyClient(path)
    try:
        client.connect()
    except DirtyConnectionError as exc:
        complain(exc, ExitCode.NOT_RUNNING, as_json=as_json)
        sys.exit(ExitCode.NOT_RUNNING)
    return client
