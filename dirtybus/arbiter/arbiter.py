"""The arbiter: carries out the pool's orders on real processes, and books every call to its one outcome.

It is the only code that turns a pool order into an effect. It never opens a payload: bodies go from caller to worker
and back as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dirtybus import log
from dirtybus.arbiter.caller import LocalCaller
from dirtybus.arbiter.calls import Request, refusal_error
from dirtybus.arbiter.crew import Crew
from dirtybus.arbiter.desk import CallDesk
from dirtybus.arbiter.directory import Directory
from dirtybus.arbiter.door import Door
from dirtybus.arbiter.hooks import OwnerHooks
from dirtybus.arbiter.inspection import inspect_apps
from dirtybus.arbiter.ledger import Ledger
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.spawner import ExitStatus, ProcessSpawner, Spawner
from dirtybus.arbiter.status import status_of
from dirtybus.arbiter.timer import Timer
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError, DirtyError, Draining, LocalProtocolError, Unavailable
from dirtybus.events import ArbiterStarting, LifecycleEvent, WorkerExited, WorkerReady, WorkerSpawned
from dirtybus.pool import ports
from dirtybus.pool.model import Call as PoolCall
from dirtybus.pool.model import CallId, Phase
from dirtybus.pool.pool import Pool
from dirtybus.protocol.messages import (
    BootFailed,
    Call,
    Cancel,
    Chunk,
    Credit,
    Message,
    Progress,
    Ready,
    Refusal,
    StashAsk,
)
from dirtybus.stash.ops import StashOp
from dirtybus.stash.port import LocalPort
from dirtybus.stash.tables import StashTables
from dirtybus.stash.wire import answer_message, op_of
from dirtybus.transport.sinks import Sink

__all__ = ["Arbiter"]

Observer = Callable[[LifecycleEvent], object]
_HEAD_ROOM_BYTES = 4096


class Arbiter(LocalCaller):
    """Run calls of ``config.apps`` in worker processes.

    Made anywhere; used from one event loop, from `start` to `close`.

    Args:
        config: what to serve and how.
        tables: the stash that workers reach; a new one by default.
        spawner: starts the processes; real ones by default.
        observer: told of each change in the life of the workers, in the loop's thread.
    """

    def __init__(
        self,
        config: DirtyConfig,
        *,
        tables: StashTables | None = None,
        spawner: Spawner | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.config = config
        self.stash_port = LocalPort(tables if tables is not None else StashTables())
        self._spawner: Spawner = spawner or ProcessSpawner(config)
        self._observer = observer
        self._hooks = OwnerHooks(config.hooks)
        self._desk = CallDesk()
        self._crew = Crew(
            config, self._spawner, on_message=self._take, on_gone=self._note_exit, on_spawned=self._note_birth
        )
        self._directory: Directory | None = None
        self._pool: Pool | None = None
        self._timer = Timer(lambda: self._feed(ports.Ticked()))
        self._orders: deque[ports.Order] = deque()
        self._is_applying = False
        self._is_open = False
        self._is_draining = False
        self._door: Door | None = None
        self._started: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._failed: asyncio.Future[None] | None = None
        #: told when a client asks for the end; by default the arbiter drains itself
        self.on_stop: Callable[[str], object] = lambda _: None

    @property
    def ledger(self) -> Ledger:
        """The books of all calls."""
        return self._desk.ledger

    @property
    def target(self) -> int:
        """How many workers are aimed at."""
        return self.config.workers if self._pool is None else self._pool.size

    # --- life ---

    async def listen(self) -> None:
        """Open the socket for other processes, if the settings name one. Clients wait there until `admit`.

        Raises:
            ConfigError: the path is taken, too long, or its directory is not safe.
        """
        if self.config.socket is not None and self._door is None:
            door = Door(self.config.socket, self)
            await door.open()
            self._door = door
            log.logger.info("other processes reach the workers at {}", door.path)

    async def start(self) -> None:
        """Look at the apps, start the workers, and return when every one is ready.

        Cancelling it, or a failure, leaves no worker behind once `kill` or `close` was called.

        Raises:
            ConfigError: an app's limits or attributes can never be met.
            BootFailed: a worker could not boot; the details hold the report.
        """
        if not self.config.apps:
            raise ConfigError("there is no app to serve; give at least one as 'module:Class'")
        self._observe(ArbiterStarting())
        self._directory = directory = await inspect_apps(self._spawner, self.config)
        for table in directory.stashes:
            self.stash_port.ask(StashOp("ensure", table))
        self._started = asyncio.get_running_loop().create_future()
        self._pool = Pool(self.config, directory.specs, jitter=random.random, threads_by_app=directory.threads_by_app)
        self._feed(ports.Ticked())
        await self._started

    def admit(self) -> None:
        """Take calls from now on, and let in the clients that wait."""
        self._is_open = True
        if self._door is not None:
            self._door.admit()

    def close_admission(self) -> None:
        """Refuse new calls with `Draining` from now on; what was accepted goes on."""
        if self._is_draining:
            return
        self._is_open, self._is_draining = False, True
        if self._door is not None:
            self._door.announce_drain()

    async def watch(self) -> None:
        """Wait for ever; raises when the arbiter itself has failed, which is a defect. Cancel it to stop waiting."""
        self._failed = asyncio.get_running_loop().create_future()
        await self._failed

    def resize(self, workers: int) -> int:
        """Aim at another number of workers; never below what the apps' own limits require.

        Running calls finish; idle workers go first. Returns the number that is aimed at now.

        Raises:
            Unavailable: the workers were not started.
        """
        if self._pool is None:
            raise Unavailable("not started: there are no workers to scale")
        if why := self._pool.why_not(workers):
            log.logger.warning("{}", why)
        self._feed(ports.Resized(workers))
        return self._pool.size

    async def drain(self, within_s: float) -> bool:
        """Take no new calls, let the accepted ones end, then let every worker close its apps and leave.

        After ``within_s`` seconds, calls that still wait or run fail with `Draining` and busy workers are killed.
        Cancelling leaves the arbiter draining; call `kill` to end at once.

        Returns:
            True when every call ended by itself.
        """
        self.close_admission()
        if self._pool is None:
            return True
        loop = asyncio.get_running_loop()
        if self._drained is None:
            self._drained = loop.create_future()
        before = self.ledger.refused
        self._feed(ports.DrainBegun(loop.time() + within_s))
        await asyncio.shield(self._drained)
        return self.ledger.refused == before

    async def close(self) -> None:
        """End what is left at once and give everything back. May be called twice."""
        self.kill()
        await self._crew.close()
        self._timer.set_for(None)
        if self._door is not None:
            self._door.close()

    def kill(self) -> None:
        """Kill every worker and fail every open call, now, without awaiting. May be called twice."""
        self.close_admission()
        self._crew.kill_all()
        self._desk.settle_all(Draining("the arbiter was stopped at once; the call was not run to its end"))
        if self._started is not None and not self._started.done():
            self._started.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # --- calls ---

    def submit(self, request: Request, sink: Sink) -> CallId:
        """Accept a call; every word on it goes to ``sink``, also a refusal.

        Raises:
            DirtyError: it was not accepted: nothing serves it, or not now.
        """
        if not self._is_open or self._directory is None:
            raise self._not_open()
        size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in request.body)
        if size + _HEAD_ROOM_BYTES > self.config.max_payload_bytes:
            raise LocalProtocolError(
                f"{request.app} {request.action}: arguments of {size} bytes are over max_payload_bytes "
                f"({self.config.max_payload_bytes}); send less, or raise the setting"
            )
        terms = self._directory.terms(request.app, request.action, request.timeout_s)
        call = self._desk.accept(request, sink, terms, asyncio.get_running_loop().time())
        self._feed(
            ports.Submitted(
                PoolCall(
                    id=call.id,
                    app=request.app,
                    expires_at=call.expires_at,
                    kind=terms.kind,
                    idempotent=terms.idempotent,
                    on_cancel=terms.on_cancel,
                )
            )
        )
        return call.id

    def cancel(self, call_id: CallId) -> None:
        """The caller does not wait any more. Nothing happens when the call is settled."""
        if self._desk.get(call_id) is not None:
            self._feed(ports.CancelRequested(call_id))

    def credit(self, call_id: CallId, chunks: int) -> None:
        """The reader took so many chunks: the worker may send as many more."""
        call = self._desk.get(call_id)
        if call is not None and call.worker is not None:
            self._crew.send(call.worker, Message(Credit(chunks=chunks), call_id))

    # --- what clients ask of the arbiter itself ---

    def status(self) -> Mapping[str, Any]:
        """Return what is going on, as plain values."""
        state = "draining" if self._is_draining else "open" if self._is_open else "starting"
        snapshot = None if self._pool is None else self._pool.snapshot()
        return status_of(self.config.name, state, snapshot, self._crew, self.ledger)

    def manage(self, verb: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out an order of a client: ``scale`` with ``workers``, or ``stop``.

        Raises:
            DirtyError: no such verb, or arguments it cannot use.
        """
        match verb:
            case "scale":
                workers = arguments.get("workers")
                if type(workers) is not int or workers < 0:
                    raise DirtyError(f"scale needs workers, a whole number >= 0, not {workers!r}")
                why = None if self._pool is None else self._pool.why_not(workers)
                return {"workers": self.resize(workers), "asked": workers, "note": why}
            case "stop":
                self.on_stop("a client asked for it")
                return {"stopping": True}
        raise DirtyError(f"there is no order {verb!r}; there are: scale, stop")

    # --- the pool: facts in, orders out ---

    def _feed(self, fact: ports.Fact) -> None:
        if self._pool is None:
            return  # killed before there was a pool
        self._orders.extend(self._pool.step(fact, asyncio.get_running_loop().time()))
        if self._is_applying:  # an effect told us a new fact: its orders come after the ones under way
            return
        self._is_applying = True
        try:
            while self._orders:
                self._apply(self._orders.popleft())
        finally:
            self._is_applying = False
        self._timer.set_for(self._pool.wake_at())

    def _apply(self, order: ports.Order) -> None:
        match order:
            case ports.Dispatch():
                self._dispatch(order)
            case ports.Refuse(call_id):
                if call := self._desk.get(call_id):
                    self._desk.settle(call_id, refusal_error(call, order))
            case ports.Interrupt(worker, call_id):
                self._crew.send(worker, Message(Cancel(), call_id))
            case ports.Spawn(worker, apps):
                assert self._directory is not None
                self._crew.spawn(worker, apps, self._directory.threads(apps))
            case ports.Retire(worker):
                self._crew.retire(worker)
            case ports.Kill(worker, why):
                self._crew.kill(worker, why)
            case ports.ReportDrained():
                if self._drained is not None and not self._drained.done():
                    self._drained.set_result(None)

    def _dispatch(self, order: ports.Dispatch) -> None:
        call, record = self._desk.get(order.call), self._crew.get(order.worker)
        if call is None or record is None:
            return  # settled or gone while the order waited; the pool hears of it by another fact
        call.worker = order.worker
        record.calls.add(order.call)
        left = None if call.expires_at is None else call.expires_at - asyncio.get_running_loop().time()
        request = call.request
        head = Call(
            app=request.app, action=request.action, time_left_s=left, window=request.window, attempt=order.attempt
        )
        self._crew.send(order.worker, Message(head, order.call, request.body))

    # --- what workers say ---

    def _take(self, record: WorkerRecord, message: Message) -> None:
        match message.head:
            case Chunk() | Progress():
                if self._desk.pass_on(message):
                    self._feed(ports.Streamed(CallId(message.id)))
            case Ready() as head:
                self._note_ready(record, head)
            case BootFailed() as head:
                record.report = head
                self._feed(ports.BootFailed(record.id))
            case StashAsk():
                self._answer_stash(record, message)
            case _:
                self._finish(record, message)

    def _finish(self, record: WorkerRecord, message: Message) -> None:
        self._desk.pass_on(message)
        record.calls.discard(CallId(message.id))
        record.answered += 1
        self._feed(ports.Finished(record.id, CallId(message.id)))

    def _answer_stash(self, record: WorkerRecord, message: Message) -> None:
        try:
            answer = answer_message(self.stash_port.ask(op_of(message)), message.id)
        except DirtyError as exc:
            answer = Message(Refusal(error=exc.to_dict()), message.id)
        self._crew.send(record.id, answer)

    # --- the lives of workers ---

    def _observe(self, event: LifecycleEvent) -> None:
        self._hooks.tell(self, event)
        if self._observer is not None:
            self._observer(event)

    def _note_birth(self, record: WorkerRecord) -> None:
        self._observe(WorkerSpawned(record.id, record.pid, record.apps))

    def _note_ready(self, record: WorkerRecord, head: Ready) -> None:
        record.boot_s = head.boot_s
        bound = log.logger.bind(worker=record.id, pid=record.pid, apps=record.apps)
        bound.info("worker {} is ready after {:.2f} s (pid {})", record.id, head.boot_s, record.pid)
        self._observe(WorkerReady(record.id, record.pid, record.apps, head.boot_s))
        self._feed(ports.Ready(record.id))
        if self._started is not None and not self._started.done() and self._is_manned():
            self._started.set_result(None)

    def _is_manned(self) -> bool:
        assert self._pool is not None
        snapshot = self._pool.snapshot()
        return snapshot.count(Phase.READY) >= sum(1 for seat in snapshot.seats if seat.apps)

    def _note_exit(self, record: WorkerRecord, status: ExitStatus) -> None:
        why = record.why_gone(status)
        unbegun = record.unbegun()
        for call_id in record.calls - unbegun:
            if call := self._desk.get(call_id):
                call.deaths = (*call.deaths, why)
        self._log_exit(record, status, why)
        if record.boot_s is None and self._started is not None and not self._started.done():
            took_s = asyncio.get_running_loop().time() - record.started_at
            self._started.set_exception(record.boot_error(status, took_s))
        self._observe(
            WorkerExited(record.id, record.pid, record.apps, exit_code=status.code, signal=status.signal, reason=why)
        )
        self._feed(ports.Exited(record.id, unbegun))

    def _log_exit(self, record: WorkerRecord, status: ExitStatus, why: str) -> None:
        bound = log.logger.bind(worker=record.id, pid=record.pid, exit_code=status.code, signal=status.signal)
        if status.code == 0 or record.is_dismissed:
            bound.info("worker {} left", record.id)
        elif record.boot_s is None:
            took_s = asyncio.get_running_loop().time() - record.started_at
            bound.error("{}", record.boot_error(status, took_s))
        else:
            bound.warning("worker {} died with {} calls in it: {}", record.id, len(record.calls), why)

    def _not_open(self) -> Unavailable:
        if self._is_draining:
            return Draining("shutting down: no new calls are taken", retry_after_s=5.0)
        return Unavailable("not started: the workers are not ready yet; wait for start(), or post an event instead")
