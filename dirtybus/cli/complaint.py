"""The complaint: an error of ours in words on stderr, or as one line of JSON, and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from dirtybus.cli.exits import ExitCode, code_of
from dirtybus.cli.json_form import json_text
from dirtybus.errors import DirtyError

__all__ = ["complain", "complaining"]


@contextmanager
def complaining(*, as_json: bool = False) -> Iterator[None]:
    """End the process with a complaint when the block raises an error of ours, and with 130 on Ctrl-C."""
    try:
        yield
    except DirtyError as exc:
        code = code_of(exc)
        complain(exc, code, as_json=as_json)
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


def complain(error: BaseException, code: int, *, as_json: bool = False) -> None:
    """Say on stderr what went wrong."""
    click.echo(_json_line(error, code) if as_json else _words(error), err=True)


def _json_line(error: BaseException, code: int) -> str:
    told: dict[str, Any] = {"code": "error", "message": str(error)}
    if isinstance(error, DirtyError):
        told = {"code": error.code, "message": str(error), "details": error.details}
    return json_text({"error": told, "exit": int(code)})


def _words(error: BaseException) -> str:
    text = f"dirtybus: {error}" if isinstance(error, DirtyError) else f"dirtybus: {type(error).__name__}: {error}"
    # the traceback of the user's own code in the worker, never one of ours
    traceback = error.details.get("traceback") if isinstance(error, DirtyError) else None
    lines = str(traceback).rstrip().splitlines() if traceback else []
    return "\n".join([text, *(f"  | {line}" for line in lines)])
