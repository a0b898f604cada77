"""A standalone owner: an application that does nothing but serve its apps to other processes."""

from __future__ import annotations

import os

import click
from creart import it
from graia.broadcast import Broadcast
from launart import Launart
from loguru import logger

from dirtybus.bus import DirtyBus
from dirtybus.cli.launching import launch
from dirtybus.cli.ready_mark import ReadyMark
from dirtybus.config import DirtyConfig
from dirtybus.services.base import DirtyService

__all__ = ["run_owner"]


def run_owner(config: DirtyConfig, mark: ReadyMark | None) -> int:
    """Serve ``config.apps`` until told to end; return the exit code.

    Args:
        config: with the socket to listen at.
        mark: set once every worker is ready.
    """
    launart = it(Launart)
    bus = DirtyBus(config)
    bus.install(launart, it(Broadcast))
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
