"""What users write: `DirtyApp`, `action`, and the context of the call that runs. Workers load it: keep it lean."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from dirtybus.batch import Batch
from dirtybus.errors import ActionNotFound, CallCancelled, DirtyError

if TYPE_CHECKING:
    import logging

__all__ = ["ActionInfo", "AppInfo", "CallContext", "DirtyApp", "action", "app_info", "current_call", "find_action"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
OnCancel = Literal["kill", "wait"]
OnDrain = Literal["finish", "release"]

_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x200  # inspect.CO_*; importing inspect costs a worker 14 ms
_OPTIONS = "__dirtybus_action__"


class DirtyApp:
    """Base class of an app: a stateful object that lives in workers, loaded once, called many times.

    A class that has ``init``, ``__call__`` and ``close`` of its own may be served without this base.
    """

    #: On how many workers the app is loaded; None: on all. ``module:Class:N`` beats it.
    workers: ClassVar[int | None] = None
    #: From how many to how many workers hold the app where placement is dynamic; ``module:Class:MIN-MAX`` beats it.
    instances: ClassVar[tuple[int, int] | None] = None
    #: Stash tables made before `init` runs.
    stashes: ClassVar[Sequence[str]] = ()
    #: How many sync actions of a worker that holds the app run at once; None: the pool's setting.
    threads: ClassVar[int | None] = None
    #: Deadline of each call in seconds; None: the pool's setting, 0: none.
    timeout: ClassVar[float | None] = None
    #: What becomes of the worker when a cancelled or late call goes on after the grace: `action` has both words.
    on_cancel: ClassVar[OnCancel] = "kill"
    #: What becomes of a call that is not over when a drain begins: `action` has both words.
    on_drain: ClassVar[OnDrain] = "finish"

    def init(self) -> Any:
        """Load what the actions need. Runs once in each worker, after ``__init__``; may be ``async def``."""

    def warm_up(self) -> Any:
        """Do once what makes the first calls slow: compile, fill caches, run the model on nothing.

        Runs after every app's `init`, before the worker is ready and gets calls; may be ``async def``. What it raises
        is a failed boot, as of `init`.
        """

    def __call__(self, action: str, *args: Any, **kwargs: Any) -> Any:
        """Run ``action``, a public method of this class.

        Raises:
            ActionNotFound: there is no such method, or it is not for callers.
        """
        return find_action(self, action)(*args, **kwargs)

    def close(self) -> Any:
        """Release what `init` took. Runs after the worker's last call; may be ``async def``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInfo:
    """What the arbiter knows of an action without importing the app.

    ``timeout_s`` 0 means no deadline. What is None is as the app says.
    """

    is_async: bool = False
    idempotent: bool = False
    timeout_s: float | None = None
    on_cancel: OnCancel | None = None
    on_drain: OnDrain | None = None
    priority: int = 0
    batch: Batch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppInfo:
    """What a child process reports of an app: its class attributes and its actions.

    ``is_open`` says that the class has a ``__call__`` of its own, so that more actions may exist than are listed;
    those are treated like ``default``.
    """

    path: str
    workers: int | None = None
    instances: tuple[int, int] | None = None
    stashes: tuple[str, ...] = ()
    threads: int | None = None
    timeout_s: float | None = None
    on_cancel: OnCancel = "kill"
    on_drain: OnDrain = "finish"
    is_open: bool = False
    actions: Mapping[str, ActionInfo]
    default: ActionInfo = ActionInfo()


def action(
    *,
    idempotent: bool = False,
    timeout: float | None = None,
    on_cancel: OnCancel | None = None,
    on_drain: OnDrain | None = None,
    priority: int = 0,
    batch: Batch | None = None,
) -> Callable[[F], F]:
    """Mark a method with how its calls are to be treated; plain public methods need no mark.

    Args:
        idempotent: running it twice does no harm, so it is run again when its worker died before it answered.
        timeout: deadline of each call in seconds, over queueing and running; 0 for none, None for the app's.
        on_cancel: what happens when a cancelled or late call goes on after ``cancel_grace``: the worker is killed
            and replaced (``kill``), or waited for (``wait``); None for the app's.
        on_drain: what happens when the arbiter begins to drain: the call is waited for (``finish``), or it ends at
            once (``release``), as endless streams and long waits should: what has been streamed is still read, then
            the caller gets `Draining`, and the action is told to stop as if it were cancelled. None for the app's.
        priority: from -100 to 100; of the calls that wait, the highest go first. A caller may give another.
        batch: calls run together, as these terms say: the method gets a list with the one argument of each call, and
            returns, or yields, a list with one entry for each; an exception in it ends that call only.
    """
    if on_cancel not in {"kill", "wait", None}:
        raise ValueError(f"on_cancel must be 'kill' or 'wait', not {on_cancel!r}")
    if on_drain not in {"finish", "release", None}:
        raise ValueError(f"on_drain must be 'finish' or 'release', not {on_drain!r}")
    if type(priority) is not int or not -100 <= priority <= 100:
        raise ValueError(f"priority must be a whole number from -100 to 100, not {priority!r}")
    if batch is not None and not isinstance(batch, Batch):
        raise ValueError(f"batch must be a dirtybus.Batch or None, not {batch!r}")
    options = {
        "idempotent": idempotent,
        "timeout_s": timeout,
        "on_cancel": on_cancel,
        "on_drain": on_drain,
        "priority": priority,
        "batch": batch,
    }

    def mark(function: F) -> F:
        setattr(function, _OPTIONS, options)
        return function

    return mark


def is_public(name: str) -> bool:
    """Whether callers may name it at all: not private, not part of the life cycle."""
    return not name.startswith("_") and name not in {"init", "warm_up", "close"}


def find_action(app: object, name: str) -> Callable[..., Any]:
    """Return the bound action ``name`` of ``app``.

    Raises:
        ActionNotFound: private, part of the life cycle, inherited from the base, or not there; names the nearest.
    """
    # looked up on the class: what the app keeps in an attribute, its model or a callback, is not for callers
    is_action = is_public(name) and not hasattr(DirtyApp, name) and callable(getattr(type(app), name, None))
    if not is_action:
        raise action_not_found(type(app), name)
    return getattr(app, name)  # type: ignore[no-any-return]


def action_not_found(cls: type, name: str, app_path: str | None = None) -> ActionNotFound:
    """Return the error that says so and what was probably meant."""
    known = sorted(_public_methods(cls))
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it has: {', '.join(known) or 'none'}"
    path = app_path or f"{cls.__module__}:{cls.__qualname__}"
    return ActionNotFound(f"{path} has no action {name!r}{hint}", app_path=path, action=name)


def app_info(path: str, cls: type) -> AppInfo:
    """Read what the arbiter must know from the class. Values are reported as found; the arbiter checks them."""
    is_open = has_own_call(cls)
    default = ActionInfo(is_async=is_open and _is_async(cls.__call__))
    return AppInfo(
        path=path,
        workers=getattr(cls, "workers", None),
        instances=getattr(cls, "instances", None),
        stashes=tuple(getattr(cls, "stashes", ())),
        threads=getattr(cls, "threads", None),
        timeout_s=getattr(cls, "timeout", None),
        on_cancel=getattr(cls, "on_cancel", "kill"),
        on_drain=getattr(cls, "on_drain", "finish"),
        is_open=is_open,
        actions={name: _action_info(method, default) for name, method in _public_methods(cls).items()},
        default=default,
    )


def has_own_call(cls: type) -> bool:
    """Whether the class dispatches its actions itself."""
    return getattr(cls, "__call__", None) is not DirtyApp.__call__  # noqa: B004 - which one, not whether


def _public_methods(cls: type) -> dict[str, Callable[..., Any]]:
    names = [n for n in dir(cls) if is_public(n) and not hasattr(DirtyApp, n)]
    return {n: m for n in names if callable(m := getattr(cls, n, None)) and not isinstance(m, type)}


def _is_async(method: Callable[..., Any]) -> bool:
    code = getattr(getattr(method, "__wrapped__", method), "__code__", None)
    return bool(code is not None and code.co_flags & (_COROUTINE | _ASYNC_GENERATOR))


def _action_info(method: Callable[..., Any], default: ActionInfo) -> ActionInfo:
    return ActionInfo(is_async=default.is_async or _is_async(method), **getattr(method, _OPTIONS, {}))


# --- the call that runs -------------------------------------------------------------------------------------------

_current: ContextVar[CallContext] = ContextVar("dirtybus_current_call")
_PROGRESS_INTERVAL_S = 0.1


class CallContext:
    """The call that an action runs for: its id, its deadline, whether anybody still waits, and its progress.

    ``deadline_at`` is a moment of `time.monotonic` in this process, or None.
    """

    def __init__(
        self,
        *,
        id: int,  # noqa: A002 - the word users look for
        app: str,
        action: str,
        attempt: int = 1,
        deadline_at: float | None = None,
        report: Callable[[float, float | None, str], None] | None = None,
        look: Callable[[], object] | None = None,
    ) -> None:
        self.id = id
        self.app = app
        self.action = action
        self.attempt = attempt
        self.deadline_at = deadline_at
        self._report = report
        self._look = look
        self._cancelled = False
        self._reported_at = float("-inf")

    def time_left_s(self) -> float | None:
        """Seconds until the deadline (never below 0), or None without one."""
        return None if self.deadline_at is None else max(0.0, self.deadline_at - time.monotonic())

    def cancelled(self) -> bool:
        """Whether nobody waits any more: cancelled, or past the deadline. Ask it now and then in long loops."""
        if self._look is not None:
            self._look()
        return self._cancelled or (self.deadline_at is not None and time.monotonic() >= self.deadline_at)

    def check(self) -> None:
        """Raise `CallCancelled` when nobody waits any more."""
        if self.cancelled():
            raise CallCancelled(f"{self.app} {self.action}: nobody waits for call {self.id} any more")

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell the caller how far the work is. Cheap: at most ten reports a second leave, and the last one."""
        now = time.monotonic()
        is_last = total is not None and done >= total
        if self._report is None or (now - self._reported_at < _PROGRESS_INTERVAL_S and not is_last):
            return
        self._reported_at = now
        self._report(done, total, text)

    def track(self, items: Iterable[T], text: str = "") -> Iterator[T]:
        """Yield the items, reporting progress after each and stopping when nobody waits any more."""
        total = len(items) if isinstance(items, Sequence) else None
        for done, item in enumerate(items, 1):
            self.check()
            yield item
            self.progress(done, total, text)

    @property
    def logger(self) -> logging.Logger:
        """A stdlib logger named after the app; the owner's log shows its records with worker, app and call id."""
        import logging  # a worker that logs nothing need not load it

        return logging.getLogger(self.app.replace(":", "."))

    def __repr__(self) -> str:
        return f"<call {self.id} {self.app} {self.action} attempt {self.attempt}>"


def current_call() -> CallContext:
    """Return the context of the call that runs in this thread or task.

    Raises:
        DirtyError: no call runs here, e.g. in `init` or in a thread that the action started without its context.
    """
    try:
        return _current.get()
    except LookupError:
        raise DirtyError("no call runs here; current_call() works inside actions") from None
