"""What travels on the bus. An execution event carries one call and its answer; the rest tell of lives and phases."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.errors import CallCancelled, ConfigError, DirtyError
from dirtybus.outcome import Outcome

__all__ = [
    "ArbiterStarting",
    "ChunkArrived",
    "CircuitClosed",
    "CircuitOpened",
    "DirtyEvent",
    "DrainBegun",
    "DrainEnded",
    "EventDropped",
    "ExecutionFailed",
    "ExecutionRequested",
    "ExecutionSucceeded",
    "InferenceRequested",
    "LifecycleEvent",
    "LogReopenRequested",
    "ReloadEnded",
    "ReloadRequested",
    "ScaleRequested",
    "ShutdownRequested",
    "WorkerEvent",
    "WorkerExited",
    "WorkerReady",
    "WorkerSpawned",
]


class DirtyEvent(Dispatchable):
    """The root of our events. Listening on a class here also hears its subclasses."""

    class Dispatcher(BaseDispatcher):
        """Inject any field of the event by its name."""

        @classmethod
        async def catch(cls, interface: DispatcherInterface[Any]) -> Any:
            return getattr(interface.event, "injectable", {}).get(interface.name)

    @property
    def injectable(self) -> Mapping[str, Any]:
        """What a listener can ask for by name."""
        return {k: v for k, v in vars(self).items() if not k.startswith("_")}

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({fields})"


class ExecutionRequested(DirtyEvent):
    """Ask for one action of one app. Settled exactly once: by an answer, a failure or a cancel.

    Subclass it freely, with class attributes or an ``__init__`` of your own; the state of the answer is made on
    first use, so a subclass need not call ours.

    Args:
        app: import path ``module:Class`` of the app.
        action: name of the action.
        args: positional arguments of the action.
        kwargs: keyword arguments of the action.
        timeout_s: one deadline in seconds over holding, queueing and running; None takes the app's own.
        priority: from -100 to 100: of the calls that wait for a worker, the highest go first; None takes the action's.
    """

    app: str = ""
    action: str = ""
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    timeout_s: float | None = None
    priority: int | None = None

    def __init__(
        self,
        app: str | None = None,
        action: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
    ) -> None:
        call = {"app": app, "action": action, "args": args, "kwargs": kwargs}
        terms = {"timeout_s": timeout_s, "priority": priority}
        for name, value in (*call.items(), *terms.items()):
            if value is not None:
                setattr(self, name, value)
        self._outcome = Outcome()

    @property
    def payload(self) -> Any:
        """What the work is about: the one positional argument, or the tuple of all."""
        return self.args[0] if len(self.args) == 1 else tuple(self.args)

    # --- the outcome, settled once ---

    @property
    def _state(self) -> Outcome:
        state: Outcome | None = vars(self).get("_outcome")
        if state is None:
            state = self._outcome = Outcome()
        return state

    @property
    def id(self) -> int:
        """A number that is unique in this process; log records of the call carry it."""
        return self._state.id

    @property
    def is_settled(self) -> bool:
        """Whether the event has its answer, failure or cancel."""
        return self._state.settled

    @property
    def is_deferred(self) -> bool:
        """Whether a listener has taken it upon itself to settle the event later."""
        return self._state.deferred

    def answer(self, value: Any) -> bool:
        """Settle with a value. Returns False, and changes nothing, when the event is settled already.

        Call it, like `fail` and `cancel`, in the thread of the loop that the event was posted on.
        """
        return self._state.settle(value, None)

    def fail(self, error: BaseException) -> bool:
        """Settle with an error. Returns False, and changes nothing, when the event is settled already."""
        return self._state.settle(None, error)

    def cancel(self, reason: str = "cancelled by its event") -> bool:
        """Settle with `CallCancelled`; a call that runs for the event is cancelled. False when settled already."""
        return self._state.settle(None, CallCancelled(f"{self.app} {self.action}: {reason}"))

    def defer(self) -> None:
        """Say that this listener will settle the event later, so that nobody else runs it."""
        self._state.deferred = True

    async def outcome(self) -> Any:
        """Wait for the outcome and return or raise it. Cancelling the wait leaves the event as it is."""
        return await self._state.wait()

    async def emit(self, chunk: Any) -> None:
        """Give one chunk to whoever streams this event; waits while the reader is behind.

        Without a reader, chunks are collected and become the answer when the event is settled by `end`.
        """
        await self._state.emit(chunk)

    def end(self) -> bool:
        """Settle a streamed event: the answer is the list of chunks nobody streamed."""
        self._state.streamed = True
        return self._state.settle(list(self._state.collected), None)

    def time_left_s(self) -> float | None:
        """Seconds until the deadline, which counts from when the event was made; None without one, never below 0."""
        return max(0.0, self._state.born_at + self.timeout_s - time.monotonic()) if self.timeout_s else None


class InferenceRequested(ExecutionRequested):
    """Ask for a model's answer: an `ExecutionRequested` under the name people listen for."""


class _Told(DirtyEvent):
    """An event that reports an execution."""

    def __init__(self, request: ExecutionRequested) -> None:
        self.request = request
        self.app = request.app
        self.action = request.action


class ExecutionSucceeded(_Told):
    """An execution event was answered; ``value`` is the answer."""

    def __init__(self, request: ExecutionRequested, value: Any) -> None:
        super().__init__(request)
        self.value = value


class ExecutionFailed(_Told):
    """An execution event failed; ``error`` says how."""

    def __init__(self, request: ExecutionRequested, error: BaseException) -> None:
        super().__init__(request)
        self.error = error


class ChunkArrived(_Told):
    """A streamed execution yielded; ``index`` counts from 0. Posted only when somebody listens."""

    def __init__(self, request: ExecutionRequested, index: int, chunk: Any) -> None:
        super().__init__(request)
        self.index = index
        self.chunk = chunk


class LifecycleEvent(DirtyEvent):
    """Tells of, or asks for, a change in the life of the pool. The ProcessLocker lets these pass by default."""


class ArbiterStarting(LifecycleEvent):
    """The arbiter is about to start its first worker."""


class WorkerEvent(LifecycleEvent):
    """Something happened to worker ``worker`` (our number, not a pid), a process ``pid`` holding ``apps``."""

    def __init__(self, worker: int, pid: int, apps: Sequence[str]) -> None:
        self.worker = worker
        self.pid = pid
        self.apps = tuple(apps)


class WorkerSpawned(WorkerEvent):
    """The process exists; it takes no work yet."""


class WorkerReady(WorkerEvent):
    """All its apps are initialised; it takes work from now on. ``boot_s`` is how long that took."""

    def __init__(self, worker: int, pid: int, apps: Sequence[str], boot_s: float) -> None:
        super().__init__(worker, pid, apps)
        self.boot_s = boot_s


class WorkerExited(WorkerEvent):
    """The process is gone. ``reason`` is a sentence; ``signal`` a name like SIGKILL, or None."""

    def __init__(
        self, worker: int, pid: int, apps: Sequence[str], *, exit_code: int | None, signal: str | None, reason: str
    ) -> None:
        super().__init__(worker, pid, apps)
        self.exit_code = exit_code
        self.signal = signal
        self.reason = reason


class ShutdownRequested(LifecycleEvent):
    """Ask for an orderly end; ``why`` goes into the log."""

    def __init__(self, why: str = "requested on the bus") -> None:
        self.why = why


class ScaleRequested(LifecycleEvent):
    """Ask for ``workers`` workers, or instances of ``app``; or for another ``pool_size`` of an elastic pool.

    Numbers beyond the limits are moved to them; never below what the apps need. ``why`` goes into the log.

    Raises:
        ConfigError: neither is given, or both.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        app: str | None = None,
        pool_size: tuple[int, int] | None = None,
        why: str = "requested on the bus",
    ) -> None:
        if (workers is None) == (pool_size is None):
            raise ConfigError("ScaleRequested takes either a number of workers or a pool_size")
        self.workers = workers
        self.app = app
        self.pool_size = pool_size
        self.why = why


class ReloadRequested(LifecycleEvent):
    """Ask for new workers with the code and the settings of now; ``why`` goes into the log."""

    def __init__(self, why: str = "requested on the bus") -> None:
        self.why = why


class ReloadEnded(LifecycleEvent):
    """A reload is over. ``error`` is None when the new workers serve, else why the old ones still do."""

    def __init__(self, error: DirtyError | None = None) -> None:
        self.error = error


class LogReopenRequested(LifecycleEvent):
    """Log files were moved away: open them anew."""


class CircuitOpened(LifecycleEvent):
    """The workers of ``app`` failed too often: its calls fail fast with ``error``, which holds the boot report."""

    def __init__(self, app: str, error: DirtyError) -> None:
        self.app = app
        self.error = error


class CircuitClosed(LifecycleEvent):
    """A worker of ``app`` is ready again: its calls are taken."""

    def __init__(self, app: str) -> None:
        self.app = app


class StashChanged(LifecycleEvent):
    """A table of the stash whose rules say ``watch`` was changed.

    ``kind`` is ``put``, ``deleted``, ``expired`` or ``evicted``, or of the whole table ``cleared`` or ``dropped``; or
    ``gap``: ``lost`` changes went by untold, as there were more than the bus could be told of. ``key`` is None of a
    whole table, and of a key whose class the owner has not loaded: ``key_bytes`` has it as it is stored.
    """

    def __init__(
        self,
        table: str,
        kind: str,
        *,
        key: Any = None,
        key_bytes: bytes | None = None,
        version: int = 0,
        lost: int | None = None,
    ) -> None:
        self.table = table
        self.kind = kind
        self.key = key
        self.key_bytes = key_bytes
        self.version = version
        self.lost = lost


class DrainBegun(LifecycleEvent):
    """The end has begun, and the bus is not ready any more. New work is refused once its listeners have ended.

    With a ``drain_delay``, it is taken until that is over, too. What was accepted has ``within_s`` seconds to end.
    """

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s


class DrainEnded(LifecycleEvent):
    """The drain is over; ``clean`` is False when work was cut."""

    def __init__(self, *, clean: bool) -> None:
        self.clean = clean


class EventDropped(LifecycleEvent):
    """The ProcessLocker dropped ``event``; ``reason`` is a `DropReason`'s value."""

    def __init__(self, event: Dispatchable, reason: str) -> None:
        self.event = event
        self.reason = reason
