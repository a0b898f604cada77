"""The worker processes: started, ordered about, killed, accounted for to the last one. Decides nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from dirtybus import log
from dirtybus.arbiter.environment import compute_threads, import_path
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.spawner import Spawner
from dirtybus.config import DirtyConfig
from dirtybus.pool.model import WorkerId
from dirtybus.pool.ports import KillReason
from dirtybus.protocol.heads import Boot, Booting, Log, Stop
from dirtybus.protocol.messages import Message

__all__ = ["Crew"]

#: where it matters what the worker was doing
_PUZZLING: Final = frozenset({KillReason.STUCK, KillReason.HEARTBEAT, KillReason.BOOT_TIMEOUT})


class Crew:
    """Hold a record of each worker from its order to its exit.

    Args:
        spawner: starts the processes.
        on_message: told of each message of a worker, but for log records and steps of its boot.
        on_gone: told once of each worker, after its last message; its record is still there then.
        on_spawned: told when a process exists.
    """

    def __init__(
        self,
        spawner: Spawner,
        *,
        on_message: Callable[[WorkerRecord, Message], None],
        on_gone: Callable[[WorkerRecord, ExitStatus], None],
        on_spawned: Callable[[WorkerRecord], None],
    ) -> None:
        self._spawner = spawner
        self._on_message = on_message
        self._on_gone = on_gone
        self._on_spawned = on_spawned
        self._records: dict[WorkerId, WorkerRecord] = {}
        self._births: dict[WorkerId, asyncio.Task[None]] = {}
        #: everything was killed at once, and nothing is born any more
        self.is_ended = False

    def __iter__(self) -> Iterator[WorkerRecord]:
        return iter(list(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def get(self, worker: WorkerId) -> WorkerRecord | None:
        """Return the record of a worker that is ordered and not gone."""
        return self._records.get(worker)

    def spawn(self, worker: WorkerId, apps: tuple[str, ...], threads: int, config: DirtyConfig) -> None:
        """Begin to start a worker as ``config`` says; its exit is told even when it never came to be.

        After `kill_all` nothing happens.
        """
        if self.is_ended:
            return
        loop = asyncio.get_running_loop()
        record = self._records[worker] = WorkerRecord(worker, apps, loop.time())
        self._births[worker] = loop.create_task(
            self._bear(record, threads, config), name=f"dirtybus spawn worker {worker}"
        )

    def send(self, worker: WorkerId, message: Message) -> bool:
        """Send to a worker; False when it has no link."""
        record = self._records.get(worker)
        return record is not None and record.child is not None and record.child.send(message)

    def retire(self, worker: WorkerId) -> None:
        """Tell a worker to close its apps and leave; one that is being born dies at birth."""
        record = self._records.get(worker)
        if record is not None:
            record.is_retired = True
            self.send(worker, Message(Stop()))

    def kill(self, worker: WorkerId, why: KillReason) -> None:
        """End a worker's process; one that is being born dies at birth.

        Where the reason leaves open what it was doing, the log gets the stacks of its threads first, which takes a
        third of a second at most. A second kill does not wait for them.
        """
        record = self._records.get(worker)
        if record is None:
            return
        is_first, record.killed_for = record.killed_for is None, why
        if is_first and why in _PUZZLING and record.child is not None:
            record.child.show_stacks(partial(self._end, record, why))
        else:
            self._end(record, why)

    def _end(self, record: WorkerRecord, why: KillReason) -> None:
        log.logger.bind(worker=record.id, pid=record.pid).warning("worker {} is killed: {}", record.id, why.value)
        if record.child is not None:
            record.child.kill()

    def kill_all(self) -> None:
        """End every process now, without awaiting, and let none be born. May be called twice."""
        self.is_ended = True
        for record in self:
            record.is_dismissed = True
            if record.child is not None:
                record.child.kill()

    def reopen_logs(self) -> None:
        """Have every worker open its log files anew."""
        for record in self:
            if record.child is not None:
                record.child.reopen_log_files()

    async def close(self) -> None:
        """Wait until every process is reaped; kills what lives. May be called twice."""
        self.kill_all()
        if self._births:
            await asyncio.wait(self._births.values())
        while self._records:
            changed = asyncio.Event()
            for record in self:
                record.when_gone.append(changed.set)
            await changed.wait()
        self._spawner.close()

    async def _bear(self, record: WorkerRecord, threads: int, config: DirtyConfig) -> None:
        try:
            child = await self._spawner.spawn(
                config,
                partial(self._take, record),
                lambda line: self._hear(record, line),
                lambda status: self._bury(record, status),
            )
        except Exception as exc:  # no descriptor, no memory, no thread
            log.logger.bind(worker=record.id).error("worker {} could not be started: {}", record.id, exc)
            record.lines.append(str(exc))
            self._bury(record, ExitStatus(None, None))
            return
        finally:
            del self._births[record.id]
        record.child = child
        self._on_spawned(record)
        if self.is_ended or record.is_retired or record.killed_for is not None:
            child.kill()
        else:
            child.send(Message(_boot(record, threads, config)))

    def _take(self, record: WorkerRecord, message: Message) -> None:
        record.unanswered = 0  # whoever speaks is alive
        head = message.head
        if isinstance(head, Booting):
            record.note_step(head, asyncio.get_running_loop().time())
        elif isinstance(head, Log):
            log.repeat(
                level=head.level,
                text=head.text,
                name=head.logger,
                worker=record.id,
                app=head.app,
                call=message.id,
                traceback=head.traceback,
            )
        else:
            self._on_message(record, message)

    def _hear(self, record: WorkerRecord, line: str) -> None:
        """What a process printed past its own streams: C libraries, the interpreter's last words."""
        record.lines.append(line)
        log.repeat(level=30, text=line, name="output", worker=record.id, app=None, call=0, traceback=None)

    def _bury(self, record: WorkerRecord, status: ExitStatus) -> None:
        try:
            self._on_gone(record, status)
        finally:
            del self._records[record.id]
            for tell in record.when_gone:
                tell()


def _boot(record: WorkerRecord, threads: int, config: DirtyConfig) -> Boot:
    hooks: Mapping[str, Any] = config.hooks
    return Boot(
        worker=record.id,
        apps=record.apps,
        path=import_path(config),
        threads=threads,
        async_concurrency=config.async_concurrency,
        compute_threads=compute_threads(config),
        owner_pid=os.getpid(),
        post_fork=hooks.get("dirty_post_fork"),
        worker_init=hooks.get("dirty_worker_init"),
    )
