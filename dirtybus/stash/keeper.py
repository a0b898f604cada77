"""The one writer of the stash: takes operations from whoever asks, and answers each of them once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Protocol

from dirtybus.config.stash import StashConfig
from dirtybus.errors import DirtyError, StashError
from dirtybus.stash.entry import FOREVER
from dirtybus.stash.leases import LEASES, name_of_lease
from dirtybus.stash.news import News
from dirtybus.stash.note import Note
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp, Transact
from dirtybus.stash.ops_leases import Acquire, Release
from dirtybus.stash.ops_many import Tables
from dirtybus.stash.state import StashState
from dirtybus.stash.waiting_op import Topic, WaitingOp

__all__ = ["Keeper", "Recorder", "Settle"]

#: Takes the answer to one operation.
Settle = Callable[[StashReply | DirtyError], object]
_LONGEST_WAIT_S: Final = 3600.0


class Recorder(Protocol):
    """Brings changes to where they outlive the owner."""

    def record(self, notes: Sequence[Note], version: int, settle: Callable[[DirtyError | None], object]) -> bool:
        """Take the changes of one operation; return whether its answer has to wait until ``settle`` is called."""

    def state(self) -> dict[str, object]:
        """Return how far the writing is, as plain values."""


class _Waiter:
    """One operation that waits."""

    __slots__ = ("caller", "op", "settle")

    def __init__(self, op: WaitingOp, caller: Hashable, settle: Settle) -> None:
        self.op = op
        self.caller = caller
        self.settle: Settle | None = settle


class Keeper:
    """All that one owner keeps for others. Safe for threads; answers come in whichever thread brings them about.

    Args:
        config: bounds, rules, and where to persist.
        clock: the time in seconds, which never goes back.
        first_version: as `StashTables` wants it; None: the microseconds since 1970, so that versions grow over
            restarts.
    """

    def __init__(
        self,
        config: StashConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        first_version: int | None = None,
    ) -> None:
        start = time.time_ns() // 1000 if first_version is None else first_version
        self.config = config or StashConfig()
        self.state: Final = StashState(self.config, first_version=start)
        self._tables: Final = self.state.tables
        #: told of a moment at which `sweep` must be called, whenever that comes earlier than told before
        self.on_due: Callable[[float], object] = lambda _: None
        self.recorder: Recorder | None = None
        #: what changed in tables whose rules say ``watch``
        self.news: Final = News()
        self._clock = clock
        self._lock = threading.RLock()
        self._waiting: dict[Topic, deque[_Waiter]] = {}
        self._timeouts: list[tuple[float, int, _Waiter]] = []
        self._numbers = count()
        self._open = 0
        self._is_closed = False
        self._told_due_at = FOREVER

    def submit(self, op: StashOp, caller: Hashable, settle: Settle) -> None:
        """Carry out ``op`` for ``caller``.

        ``settle`` is called once: before this returns, unless the operation has to wait.
        """
        with self._lock:
            now = self._clock()
            try:
                self._check_store(op)
                if isinstance(op, WaitingOp):
                    self._attempt(_Waiter(op, caller, settle), now)
                else:
                    self._answer(op.apply(self._tables, now), settle, now)
            except DirtyError as exc:
                self._record(now)
                settle(exc)
            if op.writes:  # what only reads makes nothing due earlier
                self._tell_due()

    def withdraw(self, op: StashOp, settle: Settle) -> None:
        """Whoever submitted ``op`` with this ``settle`` waits no more; what was carried out stays so."""
        if not isinstance(op, WaitingOp):
            return
        with self._lock:
            for waiter in self._waiting.get(op.topic, ()):
                if waiter.settle is settle:
                    self._settle(waiter, None)
                    return

    def is_answered_at_once(self, op: StashOp) -> bool:
        """Whether `submit` will have answered ``op`` when it returns, unless the disk cannot keep up."""
        if isinstance(op, WaitingOp):
            return op.longest_wait_s <= 0 and (self.recorder is None or not op.writes)
        tables = self._tables
        if self.recorder is None or not op.writes:
            return True
        parts = op.ops if isinstance(op, Transact) else (op,)
        names = {part.table for part in parts if not isinstance(part, Tables) and part.writes}
        return all(tables.durability(name) != "sync" for name in names)

    def leave(self, caller: Hashable, *, keeps_leases: bool = False) -> None:
        """``caller`` has ended: what it held is free, and what it waits for is forgotten.

        Args:
            caller: as `submit` was given it.
            keeps_leases: it was we who left it, so it may live: what it held is free when its time is over, unless it
                renews it by its token. Only where the leases are persisted.
        """
        with self._lock:
            now = self._clock()
            for waiter in self._all_waiting():
                if waiter.caller == caller:
                    self._settle(waiter, None)
            if self.recorder is not None and (keeps_leases or self._is_closed):
                self.state.leases.disown(caller)
            else:
                self.state.leases.leave(caller, now)
            self._record(now)
            self._tell_due()

    def sweep(self) -> bool:
        """Do some of what is due; return whether there is more to do at once. For whoever is told by ``on_due``."""
        with self._lock:
            now = self._clock()
            self._told_due_at = FOREVER
            has_more = self._tables.sweep(now)
            self.state.logs.sweep(now)
            self._record(now)
            while self._timeouts and self._timeouts[0][0] <= now:
                waiter = heappop(self._timeouts)[2]
                if waiter.settle is not None:
                    self._free_expired(waiter.op, now)
                if waiter.settle is not None:
                    self._settle(waiter, waiter.op.give_up(self.state, now))
            if not has_more:
                self._tell_due()
            return has_more

    def close(self) -> None:
        """End: whoever waits is told so. What is kept can be read on; with a recorder, nothing is written any more."""
        with self._lock:
            self._is_closed = True
            for waiter in self._all_waiting():
                self._settle(waiter, StashError("the owner of the stash has ended; nothing was done"))

    def now(self) -> float:
        """Return the time by the keeper's clock."""
        return self._clock()

    @property
    def waiting(self) -> int:
        """How many operations wait, for a lease, a change, or the disk."""
        return self._open

    def summary(self) -> dict[str, object]:
        """Return what the stash holds, as plain values for a status."""
        with self._lock:
            tables = self._tables
            found = [tables.get(name) for name in tables.names()]
            return {
                "tables": len(found),
                "entries": sum(map(len, found)),
                "memory_bytes": tables.book.memory_bytes,
                "max_bytes": self.config.max_bytes,
                "waiting": self._open,
                "store": None if self.recorder is None else self.recorder.state(),
            }

    # --- inside ---

    def _check_store(self, op: StashOp) -> None:
        if self.config.persist is None:
            return
        if self.recorder is None and not self._is_closed:
            raise StashError(
                f"{op!r}: the stash is kept in {self.config.persist!r}, which has not been read yet; wait until the "
                f"services are prepared"
            )
        if self._is_closed and op.writes and self.recorder is not None:
            raise StashError(f"{op!r}: the owner of the stash has ended, so nothing can be kept any more")

    def _all_waiting(self) -> list[_Waiter]:
        return [waiter for waiters in self._waiting.values() for waiter in waiters]

    def _attempt(self, waiter: _Waiter, now: float) -> None:
        op, settle = waiter.op, waiter.settle
        assert settle is not None
        if isinstance(op, Release):  # whoever gives up waiting says so in the same words
            self._forget_token(op)
        # whoever waits for a lease finds none of its places free, so this one takes away from nobody
        self._free_expired(op, now)
        reply = op.attempt(self.state, waiter.caller, now)
        wait_s = min(op.longest_wait_s, _LONGEST_WAIT_S)
        if reply is None and wait_s <= 0:
            reply = op.give_up(self.state, now)
        if reply is not None:
            self._answer(reply, settle, now)
            return
        if self._is_closed:
            raise StashError(f"{op!r}: the owner of the stash has ended, so nothing will come that could be waited for")
        if self._open >= self.config.max_waiting:
            raise StashError(
                f"{self._open} operations of the stash wait already, for a lease, a change or the disk; wait for some "
                f"of them, or raise stash.max_waiting"
            )
        self._open += 1
        self._waiting.setdefault(op.topic, deque()).append(waiter)
        heappush(self._timeouts, (now + wait_s, next(self._numbers), waiter))

    def _free_expired(self, op: WaitingOp, now: float) -> None:
        """Give the places whose time is over, and that were not swept yet, to whoever waits for them."""
        if isinstance(op, Acquire) and self.state.leases.expire(op.name, now):
            self._record(now)

    def _forget_token(self, op: Release) -> None:
        for waiter in list(self._waiting.get(("lease", op.name), ())):
            if isinstance(waiter.op, Acquire) and waiter.op.token == op.token:
                self._settle(waiter, waiter.op.give_up(self.state, self._clock()))

    def _answer(self, reply: StashReply, settle: Settle, now: float) -> None:
        """Give the answer, as soon as what was done is as safe as it has to be."""
        if not self._tables.book.notes:
            settle(reply)
            return

        def on_recorded(error: DirtyError | None) -> None:
            with self._lock:
                self._open -= 1
            settle(reply if error is None else error)

        self._open += 1
        if not self._record(now, on_recorded):
            self._open -= 1
            settle(reply)

    def _record(self, now: float, settle: Callable[[DirtyError | None], object] = lambda _: None) -> bool:
        """Hand on what changed: to the recorder, the logs, and whoever waits for it."""
        has_to_wait = False
        book = self._tables.book
        while book.notes:
            notes = book.take_notes()
            if self.recorder is not None and self.recorder.record(notes, book.version, settle):
                has_to_wait = True
            settle = _nobody
            if told := [note for note in notes if note.kind != "ruled" and self._is_told(note)]:
                self.news.add(told)
            for table in self.state.logs.record(notes):
                self._poke(("watch", table), now)
            gone = [
                note.key for note in notes
                if note.table == LEASES and note.kind != "put" and note.key is not None
            ]  # fmt: skip
            self.state.leases.forget_gone(gone)
            for name in dict.fromkeys(map(name_of_lease, gone)):
                self._poke(("lease", name), now)
        return has_to_wait

    def _poke(self, topic: Topic, now: float) -> None:
        """Let those who wait for it try again, in the order they came."""
        in_vain = -1
        for waiter in list(self._waiting.get(topic, ())):
            if waiter.settle is None or (waiter.op.is_fair and waiter.op.reach <= in_vain):
                continue  # settled meanwhile, by what another one's turn brought about; or there is nothing for it
            try:
                outcome: StashReply | DirtyError | None = waiter.op.attempt(self.state, waiter.caller, now)
            except DirtyError as exc:
                outcome = exc
            if outcome is not None:
                self._settle(waiter, outcome)
            else:
                waiter.op = waiter.op.moved_on(self.state, now)
                in_vain = max(in_vain, waiter.op.reach)

    def _settle(self, waiter: _Waiter, outcome: StashReply | DirtyError | None) -> None:
        """End a wait; with None, nobody is there any more to be told."""
        settle, waiter.settle = waiter.settle, None
        if settle is None:
            return
        self._open -= 1
        queue = self._waiting[waiter.op.topic]
        queue.remove(waiter)
        if not queue:
            del self._waiting[waiter.op.topic]
        if len(self._timeouts) > 2 * self._open + 64:  # most are of waits that have ended
            self._timeouts = [entry for entry in self._timeouts if entry[2].settle is not None]
            heapify(self._timeouts)
        if isinstance(outcome, StashReply):
            self._answer(outcome, settle, self._clock())
        elif outcome is not None:
            settle(outcome)

    def _is_told(self, note: Note) -> bool:
        return note.was_told or self._tables.is_told(note.table)

    def _tell_due(self) -> None:
        due_at = self._tables.due_at
        if self._timeouts and self._timeouts[0][0] < due_at:
            due_at = self._timeouts[0][0]
        if self.state.logs.has_any:
            due_at = min(due_at, self.state.logs.due_at)
        if due_at < self._told_due_at:
            self._told_due_at = due_at
            self.on_due(due_at)


def _nobody(_: DirtyError | None) -> None:
    """Nobody waits for it."""
