"""``dirtybus reload``: new workers with the code and the settings of now, and the wait for them."""

from __future__ import annotations

import sys
import time

import click

from dirtybus.cli.complaint import complain, complaining
from dirtybus.cli.exits import ExitCode
from dirtybus.cli.json_form import json_text
from dirtybus.cli.options import json_option, reach, reaching, span_option
from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyConnectionError, DirtyError, DirtyTimeoutError, Unavailable

__all__ = ["reload"]


@click.command()
@span_option("--timeout", "timeout_s", default="5m", show_default=True, help="How long to wait; 0: ever.")
@reaching
@json_option
def reload(*, timeout_s: float, socket: str | None, name: str | None, as_json: bool) -> None:
    """Replace the workers of a running instance by new ones, with the code and the settings of now.

    Waits until they serve. When they cannot, the old ones serve on, and it ends with 1 and says why.

    Ends with 124 when it takes longer than --timeout; the reload goes on then.
    """
    began_at = time.monotonic()
    with complaining(as_json=as_json):
        with reach(socket, name) as client:
            error = _failure_of_reload(client, timeout_s)
        if error is not None:
            complain(error, ExitCode.FAILED, as_json=as_json)
            sys.exit(ExitCode.FAILED)
        took_s = time.monotonic() - began_at
    if as_json:
        click.echo(json_text({"reloaded": True, "socket": client.socket_path, "took_s": round(took_s, 3)}))
    else:
        click.echo(f"reloaded after {took_s:.1f} s", err=True)


def _failure_of_reload(client: DirtyClient, timeout_s: float) -> DirtyError | None:
    """Reload; return why that failed there, as a `ConfigError` from there does not mean that this verb was mistyped.

    Raises:
        DirtyConnectionError: the instance is out of reach.
        Unavailable: not now.
        DirtyTimeoutError: nobody knows yet.
    """
    try:
        client.reload(timeout_s)
    except (DirtyConnectionError, Unavailable):
        raise
    except DirtyError as exc:
        if not (isinstance(exc, DirtyTimeoutError) and exc.phase == "unanswered"):
            return exc
        raise DirtyTimeoutError(
            f"the instance at {client.socket_path!r} still reloads after {timeout_s:g} s; it goes on by itself. "
            "Wait longer with --timeout",
            timeout_s,
            "--timeout",
            "reload",
        ) from None
    return None
