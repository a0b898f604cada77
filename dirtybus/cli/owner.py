"""A standalone owner: an application that does nothing but serve its apps to other processes."""

from __future__ import annotations

import os
from collections.abc import Callable

import click
from creart import it
from graia.broadcast import Broadcast
from launart import Launart
from loguru import logger

from dirtybus.bus import DirtyBus
from dirtybus.cli.launching import launch
from dirtybus.cli.log_sink import LogFile
from dirtybus.cli.ready_mark import ReadyMark
from dirtybus.config import DirtyConfig
from dirtybus.events import LogReopenRequested
from dirtybus.services.base import DirtyService

__all__ = ["run_owner"]


def run_owner(
    config: DirtyConfig,
    mark: ReadyMark | None,
    *,
    reload_config: Callable[[], DirtyConfig] | None = None,
    log_file: LogFile | None = None,
) -> int:
    """Serve ``config.apps`` until told to end; return the exit code.

    Args:
        config: with the socket to listen at.
        mark: set once every worker is ready.
        reload_config: gives the settings that a reload is to bring.
        log_file: opened anew when that is asked for.
    """
    launart, broadcast = it(Launart), it(Broadcast)
    bus = DirtyBus(config)
    bus.reload_config = reload_config
    bus.install(launart, broadcast)
    if log_file is not None:
        broadcast.receiver(LogReopenRequested)(log_file.reopen)
    launart.add_component(Herald(config, mark))
    return launch(launart)


class Herald(DirtyService):
    """Says that all is ready, which it is when this service is prepared: it requires the gate, which requires all."""

    id = "dirtybus.herald"
    requires = frozenset({"dirtybus.gate"})

    def __init__(self, config: DirtyConfig, mark: ReadyMark | None) -> None:
        super().__init__()
        self._config = config
        self._mark = mark

    async def watch(self) -> None:
        apps = ", ".join(map(str, self._config.apps))
        click.echo(f"ready: {self._config.name} serves {apps} at {self._config.socket} (pid {os.getpid()})", err=True)
        if self._mark is not None:
            try:
                self._mark.set()
            except OSError as exc:
                logger.warning("nobody was told that we are ready: {}", exc.strerror)
        await super().watch()
