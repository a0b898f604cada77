"""Options that several verbs share, and the kinds of values they take."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from dirtybus.cli.whereabouts import find_socket
from dirtybus.client import DirtyClient
from dirtybus.config import read_span
from dirtybus.errors import ConfigError

__all__ = ["json_option", "reach", "reaching", "span_option"]

F = TypeVar("F", bound=Callable[..., Any])


def span_option(flag: str, variable: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that takes a span of time as text and gives its seconds, or None when there is no default."""
    return click.option(flag, variable, metavar="DURATION", callback=_seconds, **settings)


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return read_span(value)
    except ConfigError as exc:
        raise click.BadParameter(str(exc), ctx, param) from None


def reaching(verb: F) -> F:
    """Give a verb the options that say which instance is meant."""
    named = click.option("--name", help="The instance's name, if it is not called 'dirtybus'.")
    at = click.option("--socket", metavar="PATH", help="Its socket; else DIRTYBUS_SOCKET or the default for its name.")
    return at(named(verb))


def json_option(verb: F) -> F:
    """Give a verb ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")(verb)


def reach(socket: str | None, name: str | None) -> DirtyClient:
    """Return a client that is connected to the instance that is meant.

    Raises:
        ConfigError: it cannot be found out where that is.
        DirtyConnectionError: nobody listens there.
    """
    client = DirtyClient(find_socket(socket, name, environ=os.environ))
    client.connect()
    return client
