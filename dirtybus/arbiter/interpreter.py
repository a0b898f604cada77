"""The interpreter: the only code that turns an order of the pool into an effect, and the world's news into facts.

It never opens a payload: bodies go from caller to worker and back as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from dirtybus import log
from dirtybus.arbiter.calls import OpenCall, Request, patience_of, pool_call, refusal_error
from dirtybus.arbiter.chronicle import Chronicle
from dirtybus.arbiter.crew import Crew
from dirtybus.arbiter.desk import CallDesk
from dirtybus.arbiter.directory import Terms
from dirtybus.arbiter.dispatcher import Dispatcher
from dirtybus.arbiter.editions import Edition, Editions
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.lobby import Lobby
from dirtybus.arbiter.reloader import Reloader
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.spawner import Spawner
from dirtybus.arbiter.stash_questions import StashQuestions
from dirtybus.arbiter.timer import Timer
from dirtybus.arbiter.watches import Watches
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError, DirtyError, Draining, Unavailable
from dirtybus.events import LifecycleEvent
from dirtybus.pool import ports
from dirtybus.pool.model import CallId, Phase
from dirtybus.pool.model import Refusal as Refused
from dirtybus.pool.pool import Pool
from dirtybus.pool.snapshot import PoolSnapshot
from dirtybus.protocol.heads import (
    BootFailed,
    Cancel,
    Chunk,
    Progress,
    Ready,
    StashAsk,
)
from dirtybus.protocol.messages import Message
from dirtybus.stash.keeper import Keeper
from dirtybus.transport.sinks import Sink

__all__ = ["Interpreter"]


class Interpreter:
    """Run calls on workers, as the pool decides.

    Args:
        spawner: starts the processes.
        stash: what workers ask for.
        observe: told of each change in the life of the workers.
        on_commit: told of the settings that a reload has brought into force.
        on_defect: told when carrying out an order fails in a way that it must not.
    """

    def __init__(
        self,
        spawner: Spawner,
        stash: Keeper,
        *,
        observe: Callable[[LifecycleEvent], object],
        on_commit: Callable[[DirtyConfig], object],
        on_defect: Callable[[Exception], object],
    ) -> None:
        self.desk = CallDesk()
        self._chronicle = Chronicle(observe)
        self.crew = Crew(spawner, on_message=self._take, on_gone=self._note_exit, on_spawned=self._chronicle.born)
        # not bound yet: tests put another in its place
        self.watches = Watches(self.crew, lambda fact: self._feed(fact))
        self.dispatcher = Dispatcher(self.desk, self.crew, on_sent=self.watches.begin, feed=self._feed)
        #: how many calls a drain or a kill has ended before their time
        self.cut = 0
        self._spawner = spawner
        self.lobby = Lobby(lambda call: self.pool.is_full_for(call, self._loop.time()), self.submit, self.cancel)
        self._stash = StashQuestions(stash, lambda worker, message: self.crew.send(worker, message))
        self._on_commit = on_commit
        self._on_defect = on_defect
        self._editions: Editions | None = None
        self._reloader: Reloader | None = None
        self._pool: Pool | None = None
        self._loop: asyncio.AbstractEventLoop
        self._timer = Timer(lambda: self._feed(ports.Ticked()))
        self._orders: deque[ports.Order] = deque()
        self._is_applying = False
        self._manned: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    @property
    def pool(self) -> Pool:
        """The pool.

        Raises:
            Unavailable: the workers were not started.
        """
        if self._pool is None:
            raise Unavailable("not started: there are no workers yet; wait for start()")
        return self._pool

    @property
    def idempotent_actions(self) -> Sequence[tuple[str, str]]:
        """App and action of those that may be run twice; none before the start."""
        return () if self._editions is None else self._editions.current.directory.idempotent

    def snapshot(self) -> PoolSnapshot | None:
        """Return the pool at this moment; None before the start."""
        return None if self._pool is None else self._pool.snapshot()

    def now(self) -> float:
        """Return the moment on the clock of the books; 0 before the start."""
        return 0.0 if self._pool is None else self._loop.time()

    # --- what the arbiter wants ---

    async def man(self, edition: Edition) -> None:
        """Start the workers of ``edition`` and wait until each is ready.

        Raises:
            BootFailed: one could not boot.
        """
        config, directory = edition.config, edition.directory
        self._editions = Editions(edition)
        self._loop = asyncio.get_running_loop()
        self._manned = self._loop.create_future()
        self.watches.heed(config)
        self._pool = Pool(config, directory.specs, jitter=random.random, threads_by_app=directory.threads_by_app)
        self._reloader = Reloader(
            self._editions, self._spawner, feed=self._feed, size=lambda: self.pool.size, on_edition=self._prepare
        )
        self._prepare(edition)
        self._feed(ports.Ticked())
        if self._is_manned():  # there is nobody to wait for
            self._manned.set_result(None)
        await self._manned

    async def reload(self, config: DirtyConfig) -> None:
        """Replace every worker; as `Reloader.reload`.

        Raises:
            Unavailable: the workers were not started.
        """
        if self._reloader is None:
            raise Unavailable("not started: there are no workers yet; wait for start()")
        await self._reloader.reload(config)

    def submit(self, request: Request, sink: Sink) -> CallId:
        """Accept a call; every word on it goes to ``sink``, also a refusal.

        Raises:
            DirtyAppNotFoundError: nothing serves its app.
            Unavailable: the workers were not started.
        """
        terms = self._terms(request)
        now = self._loop.time()
        call = self.desk.accept(request, sink, terms, now)
        asked = pool_call(call.id, request, terms, self._config, expires_at=call.expires_at, now=now)
        self._feed(ports.Submitted(asked))
        return call.id

    async def enter(self, request: Request, sink: Sink, *, stays: bool) -> CallId:
        """As `submit`, but when the settings say so, wait for room in the queue first. Cancelling leaves nothing.

        One that ``stays`` is not sent away when the admission is closed.

        Raises:
            DirtyTimeoutError: there was no room within the call's limits.
            DirtyError: as `submit`.
        """
        terms = self._terms(request)
        if self._config.queue_full != "wait":
            return self.submit(request, sink)
        now = self._loop.time()
        probe = pool_call(CallId(0), request, terms, self._config, expires_at=None, now=now)
        if not self.lobby.is_needed(probe):
            return self.submit(request, sink)
        self.desk.check(request, terms)
        asked = msgspec.structs.replace(request, asked_at=now)
        return await self.lobby.wait(probe, asked, sink, patience_of(request, terms, self._config, now), stays=stays)

    def _terms(self, request: Request) -> Terms:
        return self._current.directory.terms(request.app, request.action, request.timeout_s)

    def cancel(self, call_id: CallId) -> None:
        """The caller does not wait any more. Nothing happens when the call is settled."""
        if self.desk.get(call_id) is not None:
            self._feed(ports.CancelRequested(call_id))

    def resize(self, workers: int, app: str | None = None) -> int:
        """Aim at another number of workers, or instances of the app; returns what the limits allow of it.

        Raises:
            DirtyAppNotFoundError: nothing serves the app.
            ConfigError: a number for one app, where a worker holds several.
        """
        if app is not None:
            self._current.directory.check_alone(app)
        if why := self.pool.why_not(workers, app):
            log.logger.warning("{}", why)
        self._feed(ports.Resized(workers, app))
        return self.pool.size if app is None else self.pool.instances(app)

    def bound(self, least: int, most: int) -> None:
        """Have the elastic pool go by other limits.

        Raises:
            ConfigError: the pool is not elastic, or the apps' own numbers need more.
        """
        if self._config.pool_size is None:
            raise ConfigError("the pool has a fixed number of workers; set a pool_size, such as '1-8', and reload")
        replace(self._config, apps=self._current.directory.specs, pool_size=(least, most))  # it raises what cannot be
        self._feed(ports.Bounded(least, most))

    def release(self) -> None:
        """End soon the calls that a drain would not wait for, those that come later too. May be called in any thread.

        Nothing happens before the start or after the end.
        """

        def feed() -> None:
            if not self.crew.is_ended:
                self._feed(ports.AdmissionClosed())

        if self._pool is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(feed)

    async def drain(self, within_s: float) -> None:
        """Let accepted calls end within so many seconds, then let the workers leave; wait for the last of them."""
        if self._pool is None:
            return
        if self._drained is None:
            self._drained = self._loop.create_future()
        self._feed(ports.DrainBegun(self._loop.time() + within_s))
        await asyncio.shield(self._drained)

    def kill(self) -> None:
        """Kill every worker and fail every open call, now, without awaiting. May be called twice, in any thread."""
        self.crew.kill_all()
        self.cut += len(self.desk)
        self.lobby.dismiss(Draining("the arbiter was stopped at once; the call was not run"))
        if self._pool is not None:  # nothing is open before
            error = Draining("the arbiter was stopped at once; the call was not run to its end")
            self.desk.settle_all(error, self._loop.time())
        if self._reloader is not None:
            self._reloader.kill()
        for waiting in (self._manned, self._drained):
            if waiting is not None and not waiting.done():
                waiting.cancel() if waiting is self._manned else waiting.set_result(None)

    async def close(self) -> None:
        """Kill what is left and wait until it is reaped. May be called twice."""
        self.kill()
        await self.crew.close()
        self.watches.end()
        self._timer.set_for(None)

    # --- the pool: facts in, orders out ---

    def _feed(self, fact: ports.Fact) -> None:
        if self._pool is None:
            return  # killed before there was a pool
        self._orders.extend(self._pool.step(fact, self._loop.time()))
        if self._is_applying:  # an effect told us a new fact: its orders come after the ones under way
            return
        self._is_applying = True
        try:
            while self._orders:
                self._apply(self._orders.popleft())
        except Exception as exc:
            self._on_defect(exc)
            raise
        finally:
            self._is_applying = False
        self._timer.set_for(self._pool.wake_at())
        self.lobby.look()

    def _apply(self, order: ports.Order) -> None:  # noqa: C901 - it only routes
        match order:
            case ports.Dispatch():
                self.dispatcher.dispatch(order)
            case ports.RunBatch():
                self.dispatcher.run_batch(order)
            case ports.Refuse(call_id, why):
                self.cut += why is Refused.DRAINING
                if call := self.desk.get(call_id):
                    self.desk.settle(call_id, self._refusal(call, order), self._loop.time())
            case ports.Interrupt(worker, call_id):
                self.crew.send(worker, Message(Cancel(), call_id))
            case ports.Spawn(worker, apps, generation):
                assert self._editions is not None
                edition = self._editions.of(generation)
                self.crew.spawn(worker, apps, edition.directory.threads(apps), edition.config)
            case ports.Retire(worker):
                self.crew.retire(worker)
            case ports.Kill(worker, why):
                self.crew.kill(worker, why)
            case ports.CommitReload(generation):
                self._commit(generation)
            case ports.ReportReload():
                self._report_reload(order)
            case ports.ReportCircuit(app, is_open) if not self.crew.is_ended:
                self._chronicle.circuit(app, self._config, is_open=is_open)
            case ports.ReportDrained():
                if self._drained is not None and not self._drained.done():
                    self._drained.set_result(None)

    # --- reloads and circuits ---

    @property
    def _current(self) -> Edition:
        if self._editions is None:
            raise Unavailable("not started: there are no workers yet; wait for start()")
        return self._editions.current

    @property
    def _config(self) -> DirtyConfig:
        return self._current.config

    def _prepare(self, edition: Edition) -> None:
        self._stash.make(edition.directory.stashes)

    def _commit(self, generation: int) -> None:
        assert self._editions is not None
        config = self._editions.commit(generation).config
        self.watches.heed(config)
        self._on_commit(config)

    def _report_reload(self, order: ports.ReportReload) -> None:
        assert self._reloader is not None
        lost = None if order.lost is None else self.crew.get(order.lost)
        self._reloader.end(order, None if lost is None else lost.went_wrong)

    def _refusal(self, call: OpenCall, order: ports.Refuse) -> DirtyError:
        if order.why is Refused.APP_BROKEN and self.pool.serves(call.request.app):
            error = self._chronicle.breakage.error(call.request.app, self._config)
            error.details["started"] = order.attempts > 0
            return error
        return refusal_error(call, order, self._config)

    # --- what workers say ---

    def _take(self, record: WorkerRecord, message: Message) -> None:
        match message.head:
            case StashAsk():
                self._stash.take(record, message)
            case Chunk() | Progress():
                if self.desk.pass_on(message, self._loop.time()):
                    self._feed(ports.Streamed(CallId(message.id)))
            case Ready() as head:
                self._note_ready(record, head)
            case BootFailed() as head:
                record.report = head
                self._feed(ports.BootFailed(record.id))
            case _:
                self._finish(record, message)

    def _finish(self, record: WorkerRecord, message: Message) -> None:
        self.desk.pass_on(message, self._loop.time())
        record.calls.pop(CallId(message.id), None)
        record.answered += 1
        self._feed(ports.Finished(record.id, CallId(message.id)))

    # --- the lives of workers ---

    def _note_ready(self, record: WorkerRecord, head: Ready) -> None:
        record.boot_s = head.boot_s
        self._chronicle.ready(record, head.boot_s)
        self._feed(ports.Ready(record.id))
        if self._manned is not None and not self._manned.done() and self._is_manned():
            self._manned.set_result(None)

    def _is_manned(self) -> bool:
        snapshot = self.pool.snapshot()
        return snapshot.count(Phase.READY) >= sum(1 for seat in snapshot.seats if seat.apps)

    def _note_exit(self, record: WorkerRecord, status: ExitStatus) -> None:
        self._stash.leave(record)
        unbegun, why = record.unbegun(), record.why_gone(status)
        self.desk.note_death(record.calls.keys() - unbegun, why, status)
        took_s = self._loop.time() - record.started_at
        record.went_wrong = record.failure(status, took_s)
        self._chronicle.gone(record, status)
        if record.boot_s is None and self._manned is not None and not self._manned.done():
            self._manned.set_exception(record.went_wrong)
        self._feed(ports.Exited(record.id, unbegun, record.blamed()))
