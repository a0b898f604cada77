"""Looking at the apps: a child imports them, reports their class attributes, and leaves. The owner imports nothing."""

from __future__ import annotations

import asyncio

from dirtybus import log
from dirtybus.arbiter.directory import Directory
from dirtybus.arbiter.environment import import_path
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.spawner import Spawner
from dirtybus.config import DirtyConfig
from dirtybus.config.fitting import doubts
from dirtybus.errors import BootFailed
from dirtybus.pool.model import WorkerId
from dirtybus.protocol.heads import BootFailed as BootFailedHead
from dirtybus.protocol.heads import Booting, Inspect, Inspected
from dirtybus.protocol.messages import Message

__all__ = ["inspect_apps", "inspect_directory"]


async def inspect_directory(spawner: Spawner, config: DirtyConfig) -> Directory:
    """Return what is known of the apps, and warn of spans that hardly fit; without an app, nobody is asked.

    Raises as `inspect_apps`.
    """
    directory = await inspect_apps(spawner, config) if config.apps else Directory(config, ())
    for doubt in doubts(config, directory.deadlines):
        log.logger.warning("{}", doubt)
    return directory


async def inspect_apps(spawner: Spawner, config: DirtyConfig) -> Directory:
    """Return what the apps of ``config`` say of themselves. Cancelling kills the child.

    Raises:
        BootFailed: an app cannot be imported; the details hold the report.
        ConfigError: its attributes or limits cannot be.
    """
    loop = asyncio.get_running_loop()
    record = WorkerRecord(WorkerId(0), tuple(spec.path for spec in config.apps), loop.time())
    reported: asyncio.Future[Inspected] = loop.create_future()
    gone: asyncio.Future[None] = loop.create_future()

    def on_message(message: Message) -> None:
        match message.head:
            case Inspected() as head if not reported.done():
                reported.set_result(head)
            case Booting() as head:
                record.note_step(head, loop.time())
            case BootFailedHead() as head:
                record.report = head

    def on_gone(status: ExitStatus) -> None:
        if not reported.done():
            reported.set_exception(_failed(record, record.boot_error(status, loop.time() - record.started_at)))
        gone.set_result(None)

    try:
        record.child = await spawner.spawn(config, on_message, record.lines.append, on_gone)
    except OSError as exc:
        raise BootFailed(f"no process could be started to look at the apps: {exc}", {"step": "spawn"}) from exc
    record.child.send(Message(Inspect(apps=record.apps, path=import_path(config))))
    try:
        async with asyncio.timeout(config.boot_timeout_s or None):
            report = await reported
    except TimeoutError:
        raise BootFailed(
            f"importing the apps took longer than boot_timeout ({config.boot_timeout_s:g} s): {', '.join(record.apps)}",
            {"step": "import", "apps": list(record.apps), "duration_s": config.boot_timeout_s},
        ) from None
    finally:
        record.child.kill()
        reported.cancel()
        await asyncio.shield(gone)
    return Directory(config, report.apps)


def _failed(record: WorkerRecord, error: BootFailed) -> BootFailed:
    """Say that it was the look at the apps, not a worker, that failed."""
    error.message = error.message.replace(f"worker {record.id} could not start", "the apps cannot be loaded", 1)
    error.args = (error.message,)
    return error
