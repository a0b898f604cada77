"""The launch of a launart application as a program: to its end, and what its exit code is. Knows no service by name."""

from __future__ import annotations

import gc

import click
from launart import Launart

from dirtybus.cli.complaint import complain
from dirtybus.cli.exits import ExitCode
from dirtybus.errors import ConfigError
from dirtybus.services.guard import attach

__all__ = ["launch"]


def launch(launart: Launart) -> int:
    """Run the application to its end, say on stderr what went wrong, and return the exit code."""
    code = 0
    # what is loaded by now stays: the collector need not look through all of it while the loop waits, 30 ms each time
    gc.collect()
    gc.freeze()
    try:
        launart.launch_blocking()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else ExitCode.FAILED
    verdict = attach(launart).verdict
    failures = list(verdict.failures.values())
    for error in failures:
        complain(error, code)
    if code and not failures:
        click.echo(f"dirtybus: {verdict.reason}", err=True)
    if code == ExitCode.FAILED and any(isinstance(error, ConfigError) for error in failures):
        return ExitCode.USAGE
    # 3 and 4 can only come from a sys.exit of somebody's hook, and would end an old gunicorn that started us
    return ExitCode.FAILED if code in (3, 4) else code
