"""The arbiter: the owner's door to the workers. Admits calls, opens the socket, tells what is going on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dirtybus import log
from dirtybus.arbiter.audit import check_books
from dirtybus.arbiter.caller import LocalCaller
from dirtybus.arbiter.calls import Request
from dirtybus.arbiter.door import Door
from dirtybus.arbiter.editions import Edition
from dirtybus.arbiter.environment import compute_rule
from dirtybus.arbiter.hooks import OwnerHooks
from dirtybus.arbiter.inspection import inspect_directory
from dirtybus.arbiter.interpreter import Interpreter
from dirtybus.arbiter.ledger import Ledger
from dirtybus.arbiter.restart_files import RestartFiles
from dirtybus.arbiter.spawner import ProcessSpawner, Spawner
from dirtybus.arbiter.status import status_of
from dirtybus.config import DirtyConfig
from dirtybus.config.extent import Extents
from dirtybus.errors import ConfigError, DirtyError, Draining, LocalProtocolError, Unavailable
from dirtybus.events import ArbiterStarting, LifecycleEvent
from dirtybus.pool.model import CallId
from dirtybus.pool.target import Load, load_of
from dirtybus.stash.host import StashHost
from dirtybus.stash.keeper import Keeper
from dirtybus.transport.sinks import Sink

__all__ = ["Arbiter"]

Observer = Callable[[LifecycleEvent], object]
_HEAD_ROOM_BYTES = 4096
#: for the last changes of a stash that is ours to be written
_STASH_WITHIN_S = 10.0
#: more than one machine can use; a slip of the finger must not start a million processes
_MOST_WORKERS = 1024


class Arbiter(LocalCaller):
    """Run calls of ``config.apps`` in worker processes.

    Made anywhere; used from one event loop, from `start` to `close`.

    Args:
        config: what to serve and how.
        stash: the stash that workers reach, which its owner starts and stops; by default a new one, ours.
        spawner: starts the processes; real ones by default.
        observer: told of each change in the life of the workers, in the loop's thread.
    """

    def __init__(
        self,
        config: DirtyConfig,
        *,
        stash: Keeper | None = None,
        spawner: Spawner | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.config = config
        self.stash = stash or Keeper(config.stash)
        self._stash_host = StashHost(self.stash) if stash is None else None
        self._spawner: Spawner = spawner or ProcessSpawner()
        self._observer = observer
        self._hooks = OwnerHooks(config.hooks)
        self._interpreter = Interpreter(
            self._spawner,
            self.stash,
            observe=self._observe,
            on_commit=self._adopt,
            on_defect=self._note_defect,
        )
        self._restarts = self._interpreter.watches.restarts = RestartFiles(lambda: self.on_reload())
        self._is_open = False
        self._is_leaving = False
        self._is_draining = False
        self._is_over = False
        self._door: Door | None = None
        self._failed: asyncio.Future[None] | None = None
        #: told when a client asks for the end; by default nobody listens
        self.on_stop: Callable[[str], object] = lambda _: None
        #: says whether the code that runs now works for something that was accepted: that is finished in a drain
        self.is_accepted_work: Callable[[], bool] = lambda: False
        #: called when a client asks for a reload; what it returns is awaited, and raises why there was none
        self.on_reload: Callable[[], Awaitable[object]] = self.reload

    @property
    def ledger(self) -> Ledger:
        """The books of all calls."""
        return self._interpreter.desk.ledger

    @property
    def target(self) -> int:
        """How many workers are aimed at."""
        snapshot = self._interpreter.snapshot()
        return self.config.workers if snapshot is None else snapshot.size

    @property
    def on_work(self) -> Callable[[], object] | None:
        """Who is told, in the loop, of each call that a worker was sent."""
        return self._interpreter.watches.on_work

    @on_work.setter
    def on_work(self, tell: Callable[[], object] | None) -> None:
        self._interpreter.watches.on_work = tell

    def load(self, memory: float = 0.0) -> Load:
        """Return what is going on, for a policy of scaling; ``memory`` is the share of the machine's that is in use."""
        return load_of(self._interpreter.snapshot(), self.config.threads, self._interpreter.now(), memory)

    @property
    def is_ready(self) -> bool:
        """Whether calls are taken and should be sent here: from `admit` until `stand_down`, or an end."""
        return self._is_open and not self._is_leaving

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
        if not self.config.apps and self.config.workers:
            raise ConfigError("there is no app to serve; give at least one as 'module:Class', or set workers to 0")
        if rule := compute_rule(self.config):
            log.logger.info("{}", rule)
        self._observe(ArbiterStarting())
        if self._stash_host is not None:
            await self._stash_host.start()
        directory = await inspect_directory(self._spawner, self.config)
        await self._interpreter.man(Edition(self.config, directory))

    def admit(self) -> None:
        """Take calls from now on, and let in the clients that wait."""
        self._is_open, self._is_leaving = True, False
        if self._door is not None:
            self._door.admit()

    def stand_down(self) -> None:
        """Say in the status that calls should go elsewhere from now on; they are taken as before."""
        self._is_leaving = True

    def close_admission(self) -> None:
        """Refuse new calls with `Draining` from now on; what was accepted goes on, and the calls that it makes.

        Not so the calls of actions with ``on_drain="release"``, which fail with `Draining` too.
        """
        if self._is_draining:
            return
        self._is_open, self._is_draining = False, True
        self._interpreter.release()
        self._interpreter.lobby.dismiss(self._not_open(), all_of_them=False)
        if self._door is not None:
            self._door.announce_drain()

    async def watch(self) -> None:
        """Wait for ever; raises when the arbiter itself has failed, which is a defect. Cancel it to stop waiting."""
        self._failed = asyncio.get_running_loop().create_future()
        await self._failed

    def why_not(self, workers: int, app: str | None = None) -> str | None:
        """Return the sentence that forbids so many workers, or instances of the app.

        None when it is allowed, or nothing was started.
        """
        return None if self._interpreter.snapshot() is None else self._interpreter.pool.why_not(workers, app)

    def resize(self, workers: int, app: str | None = None) -> int:
        """Aim at another number of workers, or of those with ``app`` where each worker holds one.

        Running calls finish; idle workers go first. An elastic pool has at least so many from then on. Returns the
        number that is aimed at now: it is never beyond the limits, nor below what the apps' own numbers require.

        Raises:
            Unavailable: the workers were not started.
            DirtyAppNotFoundError: nothing serves the app.
            ConfigError: a number for one app, where a worker holds several.
        """
        return self._interpreter.resize(workers, app)

    def bound(self, least: int, most: int) -> None:
        """Have an elastic pool go by another ``pool_size``; more workers than the new most are let go, idle ones first.

        A reload goes back to the settings.

        Raises:
            Unavailable: the workers were not started.
            ConfigError: the pool is not elastic, or the apps' own numbers need more.
        """
        self._interpreter.bound(least, most)

    async def reload(self, config: DirtyConfig | None = None) -> None:
        """Replace every worker by one with the code of now, and go by ``config`` from then on; return when they serve.

        At most ``max_surge`` workers more than usual exist meanwhile, and no call fails for it: each new worker is
        ready before an old one is let go, and the old one finishes what runs in it. The first worker of the new
        generation proves it; if that cannot boot, nothing has changed. If a later one cannot, the old workers that
        are left serve on. A second reload waits for the first. Cancelling it does not take back what has begun.

        Args:
            config: other settings; None keeps those in force. ``socket``, ``name``, ``gate`` and
                ``max_payload_bytes`` cannot change.

        Raises:
            ConfigError: the settings cannot be.
            BootFailed: the new generation failed; the details hold the report.
            Unavailable: not started, or shutting down.
        """
        if self._is_draining:
            raise Draining("shutting down: there will be no new workers")
        wanted = config if config is not None else self.config
        OwnerHooks(wanted.hooks)  # one that cannot be loaded is refused before anything is replaced
        await self._interpreter.reload(wanted)

    def reopen_logs(self) -> None:
        """Have every worker open the files of its `logging` handlers anew, after somebody has moved them away."""
        self._interpreter.crew.reopen_logs()

    async def drain(self, within_s: float) -> bool:
        """Take no new calls, let the accepted ones end, then let every worker close its apps and leave.

        After ``within_s`` seconds, calls that still wait or run fail with `Draining` and busy workers are killed.
        Cancelling leaves the arbiter draining; call `kill` to end at once.

        Returns:
            True when every call that was waited for ended by itself.
        """
        self.close_admission()
        self._is_over = True
        before = self._interpreter.cut
        await self._interpreter.drain(within_s)
        return self._interpreter.cut == before

    async def close(self) -> None:
        """End what is left at once and give everything back. May be called twice."""
        self.kill()
        await self._restarts.close()
        await self._interpreter.close()
        if self._door is not None:
            self._door.close()
        if self._stash_host is not None:
            await self._stash_host.stop(_STASH_WITHIN_S)

    def kill(self) -> None:
        """Kill every worker and fail every open call, now, without awaiting. May be called twice, in any thread."""
        self._is_open, self._is_draining, self._is_over = False, True, True
        self._interpreter.kill()

    # --- calls ---

    def submit(self, request: Request, sink: Sink) -> CallId:
        """Accept a call; every word on it goes to ``sink``, also a refusal.

        Raises:
            DirtyError: it was not accepted: nothing serves it, or not now.
        """
        self._check(request)
        return self._interpreter.submit(request, sink)

    async def enter(self, request: Request, sink: Sink) -> CallId:
        """As `submit`; with ``queue_full = "wait"``, when there is room in the queue. Cancelling leaves nothing."""
        self._check(request)
        return await self._interpreter.enter(request, sink, stays=self.is_accepted_work())

    def cancel(self, call_id: CallId) -> None:
        """The caller does not wait any more. Nothing happens when the call is settled."""
        self._interpreter.cancel(call_id)

    def credit(self, call_id: CallId, chunks: int) -> None:
        """The reader took so many chunks: the worker may send as many more."""
        self._interpreter.dispatcher.credit(call_id, chunks)

    def check_invariants(self) -> None:
        """Check the books of calls, workers and pool against each other. Slow; not to be asked while one changes.

        Raises:
            AssertionError: naming what is broken. It is a defect of the arbiter.
        """
        self._interpreter.desk.check_books()
        pool = self._interpreter.snapshot()
        if pool is not None and not self._interpreter.crew.is_ended:
            self._interpreter.pool.check_invariants()
            check_books(pool, self._interpreter.desk.apps(), self._interpreter.crew)

    # --- what clients ask of the arbiter itself ---

    def idempotent_actions(self) -> Sequence[tuple[str, str]]:
        """Return the app and action of those that a client may send again when it got no answer."""
        return self._interpreter.idempotent_actions

    def status(self) -> Mapping[str, Any]:
        """Return what is going on, as plain values."""
        taking = "leaving" if self._is_leaving else "open"
        state = "draining" if self._is_draining else taking if self._is_open else "starting"
        interpreter = self._interpreter
        told = status_of(
            self.config.name, state, interpreter.snapshot(), interpreter.crew, self.ledger, now=interpreter.now()
        )
        return {**told, "ready": self.is_ready, "stash": self.stash.summary()}

    def manage(self, verb: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out an order of a client: ``scale`` with ``workers``, ``app``, ``pool_size``; ``reload``; ``stop``.

        Returns:
            The answer as plain values; for a reload, an awaitable of it. Cancelling that leaves the reload going on.

        Raises:
            DirtyError: no such verb, or arguments it cannot use.
        """
        match verb:
            case "scale":
                return self._scaled(arguments)
            case "reload":
                return self._reloaded()
            case "stop":
                self.on_stop("a client asked for it")
                return {"stopping": True}
        raise DirtyError(f"there is no order {verb!r}; there are: scale, reload, stop")

    def _scaled(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        workers, app, extent = (arguments.get(key) for key in ("workers", "app", "pool_size"))
        if extent is not None:
            self.bound(*Extents().settle(extent) or (0, 0))
            return {"workers": self.target, "pool_size": extent}
        if type(workers) is not int or not 0 <= workers <= _MOST_WORKERS:
            raise DirtyError(f"scale needs workers, a whole number from 0 to {_MOST_WORKERS}, not {workers!r}")
        if app is not None and not isinstance(app, str):
            raise DirtyError(f"scale needs the import path of an app, not {app!r}")
        why = self.why_not(workers, app)
        return {"workers": self.resize(workers, app), "asked": workers, "note": why}

    # --- small parts ---

    def _adopt(self, config: DirtyConfig) -> None:
        self.config = config
        self._hooks = OwnerHooks(config.hooks)
        if self._door is not None:
            self._door.greet_all()

    async def _reloaded(self) -> Mapping[str, Any]:
        await self.on_reload()
        return {"reloaded": True}

    def _observe(self, event: LifecycleEvent) -> None:
        self._hooks.tell(self, event)
        if self._observer is not None:
            self._observer(event)

    def _note_defect(self, exc: Exception) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(exc)

    def _check(self, request: Request) -> None:
        if not (self._is_open or self._may_still_call()):
            raise self._not_open()
        if request.size + _HEAD_ROOM_BYTES > self.config.max_payload_bytes:
            raise LocalProtocolError(
                f"{request.app} {request.action}: arguments of {request.size} bytes are over max_payload_bytes "
                f"({self.config.max_payload_bytes}); send less, or raise the setting"
            )

    def _may_still_call(self) -> bool:
        """Say whether accepted work asks, and the workers are there to do it."""
        return self._is_draining and not self._is_over and self.is_accepted_work()

    def _not_open(self) -> Unavailable:
        if self._is_draining:
            return Draining("shutting down: no new calls are taken", retry_after_s=5.0)
        return Unavailable("not started: the workers are not ready yet; wait for start(), or post an event instead")
