"""``dirtybus run``: options become settings, and the settings an owner."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from dirtybus.cli.complaint import complaining
from dirtybus.cli.first_process import leave_first_place
from dirtybus.cli.ready_mark import ReadyMark
from dirtybus.cli.whereabouts import socket_of
from dirtybus.config import DirtyConfig
from dirtybus.config.sources import load_config
from dirtybus.errors import ConfigError

__all__ = ["run", "settings_of"]

_LEVELS: Final = ("trace", "debug", "info", "success", "warning", "error", "critical")


@click.command()
@click.argument("apps", nargs=-1, metavar="APP[:N]...")
@click.option("--workers", metavar="N", help="Number of worker processes. [1]")
@click.option("--threads", metavar="N", help="Plain actions that run at once in one worker. [1]")
@click.option("--timeout", metavar="DURATION", help="Deadline of each call; 0: none. [300]")
@click.option("--graceful-timeout", metavar="DURATION", help="For running calls once told to end. [30]")
@click.option("--socket", metavar="PATH", help="Where others reach the workers. [a place called after the name]")
@click.option("--name", help="What this instance is called. [dirtybus]")
@click.option("--config", "file", metavar="FILE", type=click.Path(path_type=Path), help="Settings in TOML.")
@click.option("--ready-fd", type=click.IntRange(min=0), metavar="N", help="Write READY to this descriptor when ready.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="info",
    envvar="DIRTYBUS_LOG_LEVEL",
    show_default=True,
    help="What is logged.",
)
@click.option("--log-file", metavar="PATH", help="Log to the end of this file, not to stderr; SIGUSR1 opens it anew.")
def run(
    *,
    apps: tuple[str, ...],
    file: Path | None,
    ready_fd: int | None,
    log_level: str,
    log_file: str | None,
    **options: str | None,
) -> None:
    """Serve each APP (module:Class) in worker processes until SIGTERM or Ctrl-C.

    Modules are found from the current directory. An APP with :N is loaded on N of the workers only.

    Options beat DIRTYBUS_* variables, and these beat the settings in dirtybus.toml or pyproject.toml.

    SIGHUP reads all of them again, and replaces the workers by new ones.
    """
    leave_first_place()
    with complaining():
        given: dict[str, object] = {key: text for key, text in options.items() if text is not None}
        if apps:
            given["apps"] = apps
        settings_now = partial(settings_of, given, file, environ=dict(os.environ))
        config = settings_now()
        mark = None if ready_fd is None else ReadyMark(ready_fd)
        _look_here_first()
        # the other verbs need neither graia nor launart nor a log
        from dirtybus.cli.log_sink import LogFile, log_to_file, log_to_stderr
        from dirtybus.cli.owner import run_owner

        log = None if log_file is None else LogFile(log_file)
        if log is None:
            log_to_stderr(log_level)
        else:
            log_to_file(log, log_level)
        code = run_owner(config, mark, reload_config=settings_now, log_file=log)
    sys.exit(code)


def settings_of(given: dict[str, object], file: Path | None, *, environ: dict[str, str]) -> DirtyConfig:
    """Return the settings of an owner: with at least one app, and with a socket.

    Args:
        given: the settings given on the command line.
        file: the file named there, if any.
        environ: the process's environment.

    Raises:
        ConfigError: a setting is wrong, or there is no app.
    """
    config = load_config(file, environ=environ, overrides=given)
    if not config.apps:
        raise ConfigError(
            "there is no app to serve; name at least one: dirtybus run module:Class, or apps = [...] in dirtybus.toml"
        )
    is_named = "name" in given and "socket" not in given
    return replace(config, socket=socket_of(config, is_named=is_named, environ=environ))


def _look_here_first() -> None:
    here = os.getcwd()
    if not sys.path or os.path.abspath(sys.path[0]) != here:
        sys.path.insert(0, here)
