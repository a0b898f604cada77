"""``dirtybus stop``: an orderly end of a running instance, and the wait for it."""

from __future__ import annotations

import os
import time
from contextlib import closing

import click

from dirtybus.cli.complaint import complaining
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reaching, span_option
from dirtybus.cli.whereabouts import find_socket
from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyTimeoutError
from dirtybus.transport.listener import connect

__all__ = ["stop"]


@click.command()
@span_option("--timeout", "timeout_s", default="60s", show_default=True, help="How long to wait; 0: ever.")
@reaching
@json_option
def stop(*, timeout_s: float, socket: str | None, name: str | None, as_json: bool) -> None:
    """Let a running instance finish its calls and end; wait until it has.

    Ends with 124 when it takes longer than --timeout; it goes on ending then.
    """
    began_at = time.monotonic()
    with complaining(as_json=as_json):
        path = find_socket(socket, name, environ=os.environ)
        _stop_and_wait(path, began_at + timeout_s if timeout_s else None, timeout_s)
        took_s = time.monotonic() - began_at
    if as_json:
        click.echo(json_text({"stopped": True, "socket": path, "took_s": round(took_s, 3)}))
    else:
        click.echo(f"stopped after {took_s:.1f} s", err=True)


def _stop_and_wait(path: str, deadline_at: float | None, timeout_s: float) -> None:
    # a connection that says nothing is closed by the arbiter as its last act, or by the kernel when it dies
    with closing(connect(path)) as listening:
        with DirtyClient(path) as client:
            client.stop()
        listening.settimeout(None if deadline_at is None else max(0.001, deadline_at - time.monotonic()))
        try:
            while listening.recv(4096):
                pass
        except TimeoutError:
            raise DirtyTimeoutError(
                f"the instance at {path!r} still finishes its calls after {timeout_s:g} s; it will end by itself. "
                "Wait longer with --timeout",
                timeout_s,
                "--timeout",
                "stop",
            ) from None
        except ConnectionError:
            return  # as good as closed
