"""The thread that writes behind: many submissions become one commit. Knows a store, and not what is written."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from dirtybus import log
from dirtybus.errors import DirtyError, StashNotStored
from dirtybus.stash.coalesce import coalesced
from dirtybus.stash.entry import size_of
from dirtybus.stash.store import Change, Define, StashStore, Upsert

__all__ = ["StashWriter"]

OnDone = Callable[[DirtyError | None], object]
#: So long a change waits for others to go with it, unless somebody waits for it.
_LINGER_S: Final = 0.05
#: From here on, whoever submits more has to wait.
_MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
#: A commit takes so many bytes at most, or one submission.
_MAX_COMMIT_BYTES: Final = 16 * 1024 * 1024
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class _Submission:
    """The changes of one operation, which are never parted."""

    __slots__ = ("at", "changes", "is_durable", "is_urgent", "on_done", "size_bytes", "version")

    def __init__(self, changes: Sequence[Change], version: int, on_done: OnDone | None, *, is_durable: bool) -> None:
        self.changes = changes
        self.version = version
        self.on_done = on_done
        self.is_durable = is_durable
        self.is_urgent = is_durable or on_done is not None
        self.at = time.monotonic()
        self.size_bytes = sum(map(_size_of, changes))


class StashWriter:
    """Writes changes to a store, in the order in which they are submitted.

    What waits while one commit is made goes together into the next. When the store fails, whoever waits is told so,
    and the changes are kept and tried again.

    Args:
        store: used by this writer's thread alone, from `start` to `close`.
        linger_s: how long a change may wait for others, unless somebody waits for it.
        max_pending_bytes: from how much on that waits to be written the writer `is_full`.
    """

    def __init__(
        self, store: StashStore, *, linger_s: float = _LINGER_S, max_pending_bytes: int = _MAX_PENDING_BYTES
    ) -> None:
        self._store = store
        self._linger_s = linger_s
        self._max_pending_bytes = max_pending_bytes
        self._changed = threading.Condition()
        self._queue: deque[_Submission] = deque()
        self._pending_bytes = 0
        self._urgent = 0
        self._is_closing = False
        self._has_ended = False
        self._written_at: float | None = None
        self._failed_at = 0.0
        self._error: DirtyError | None = None
        self._pause_s = 0.0
        self._commits = 0
        self._thread = threading.Thread(target=self._run, name="dirtybus-stash", daemon=True)

    def start(self) -> None:
        """Begin to write. The store is open."""
        self._thread.start()

    def submit(
        self, changes: Sequence[Change], *, version: int, is_durable: bool, on_done: OnDone | None = None
    ) -> None:
        """Take changes, from any thread and at once.

        Args:
            changes: of one operation; a crash leaves all of them or none.
            version: no change up to here had a higher version.
            is_durable: somebody waits until they are on disk.
            on_done: called once, in the writer's thread, or in this one when that has ended: with None when they are
                written, or with why they are not; unless it has ended, they are tried again.
        """
        submission = _Submission(changes, version, on_done, is_durable=is_durable)
        with self._changed:
            has_ended = self._has_ended
            if not has_ended:
                was_waiting_for_more = not self._urgent
                self._queue.append(submission)
                self._pending_bytes += submission.size_bytes
                self._urgent += submission.is_urgent
                if len(self._queue) == 1 or (self._urgent and was_waiting_for_more) or self.is_full:
                    self._changed.notify_all()
        if has_ended and on_done is not None:
            _tell([on_done], _not_written("the owner has ended"))

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be written that whoever brings more should wait."""
        return self._pending_bytes > self._max_pending_bytes

    def state(self) -> dict[str, object]:
        """Return how far the writing is, as plain values."""
        with self._changed:
            return {
                "pending": sum(len(submission.changes) for submission in self._queue),
                "pending_bytes": self._pending_bytes,
                "commits": self._commits,
                "last_commit_s": None if self._written_at is None else time.monotonic() - self._written_at,
                "error": None if self._error is None else self._error.message,
            }

    def close(self, within_s: float) -> int:
        """Write what is left, for so long at most, and end; return how many changes could not be written.

        What failed is tried once more. Whoever still waits is told why it is not written. May be called twice, and
        from any thread. Blocks.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(within_s)
        with self._changed:
            left = sum(len(submission.changes) for submission in self._queue)
            waiting = self._take_waiting()
        if waiting:
            _tell(waiting, _not_written(f"the disk took longer than {within_s:g} s; it may be written yet"))
        return left

    # --- the thread ---

    def _run(self) -> None:
        try:
            while some := self._next():
                was_closing = self._is_closing
                if not self._write(some) and was_closing:
                    break
        finally:
            with self._changed:
                self._has_ended = True
                waiting, error = self._take_waiting(), self._error
            _tell(waiting, error or _not_written("the owner has ended"))
            self._store.close()

    def _next(self) -> list[_Submission]:
        """Wait for something to write and return it, without taking it off the queue; nothing: it is time to end."""
        with self._changed:
            while True:
                if not self._queue:
                    if self._is_closing:
                        return []
                    self._changed.wait()
                elif (left_s := self._left_s()) > 0:
                    self._changed.wait(left_s)
                else:
                    return list(self._some())

    def _left_s(self) -> float:
        """How long to wait before the next commit; 0: not at all."""
        if self._is_closing:
            return 0.0
        if self._pause_s:
            return self._failed_at + self._pause_s - time.monotonic()
        if self._urgent or self.is_full:
            return 0.0
        return self._queue[0].at + self._linger_s - time.monotonic()

    def _some(self) -> Iterator[_Submission]:
        size_bytes = 0
        for submission in self._queue:
            if size_bytes and size_bytes + submission.size_bytes > _MAX_COMMIT_BYTES:
                return
            size_bytes += submission.size_bytes
            yield submission

    def _write(self, some: list[_Submission]) -> bool:
        """Make one commit, and tell whoever waits for it; return whether it succeeded."""
        error: DirtyError | None = None
        try:
            changes = coalesced(change for submission in some for change in submission.changes)
            is_durable = any(submission.is_durable for submission in some)
            self._store.write(changes, some[-1].version, is_durable=is_durable)
        except DirtyError as exc:
            error = exc
        except Exception as exc:  # whatever a store does, this thread goes on: all later changes need it
            if self._error is None:
                log.logger.opt(exception=exc).error("the stash's store failed in a way that it should not")
            error = _not_written(f"{type(exc).__name__}: {exc}")
        with self._changed:
            if error is None:
                self._note_written(some)
                waiting = _waiting_of(some)
            else:
                self._note_failed(error)
                waiting = self._take_waiting()  # those behind would fail as well, or wait for long
        _tell(waiting, error)
        return error is None

    def _take_waiting(self) -> list[OnDone]:
        return _waiting_of(self._queue)

    def _note_written(self, some: list[_Submission]) -> None:
        for submission in some:
            self._queue.popleft()
            self._pending_bytes -= submission.size_bytes
            self._urgent -= submission.is_urgent
        self._commits += 1
        self._written_at = time.monotonic()
        if self._error is not None:
            log.logger.info("the stash can be written again")
        self._error, self._pause_s = None, 0.0

    def _note_failed(self, error: DirtyError) -> None:
        if self._error is None:
            log.logger.error("{}", error)
        self._error = error
        self._failed_at = time.monotonic()
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)


def _waiting_of(submissions: Iterable[_Submission]) -> list[OnDone]:
    """Return whom to tell, each of them once."""
    waiting = []
    for submission in submissions:
        if submission.on_done is not None:
            waiting.append(submission.on_done)
            submission.on_done = None
    return waiting


def _tell(waiting: Iterable[OnDone], error: DirtyError | None) -> None:
    for on_done in waiting:
        try:
            on_done(error)
        except Exception as exc:  # one who cannot be told keeps nobody else from it
            log.logger.opt(exception=exc).error("whoever waits for a commit of the stash could not be told")


def _not_written(why: str) -> StashNotStored:
    return StashNotStored(f"changes of the stash are kept in memory but are not written: {why}")


def _size_of(change: Change) -> int:
    """Return about how much memory a change takes."""
    if isinstance(change, Upsert):
        value = change.row.value
        parts = sum(len(part) + len(item) for part, item in change.parts_put) + sum(map(len, change.parts_gone))
        return 200 + len(change.row.key) + (0 if value is None else size_of(value)) + parts
    return 200 + (len(change.rules) if isinstance(change, Define) else 0)
