"""What apps, listeners and clients hold: the stash's functions for code that may wait. Knows no table and no socket."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from dirtybus.errors import DirtyError, StashConflict
from dirtybus.protocol.codec import Resolver, loaded_types
from dirtybus.stash.leasing import Leasing
from dirtybus.stash.names import RESERVED
from dirtybus.stash.op import StashReply
from dirtybus.stash.port import SyncPort, begin_at
from dirtybus.stash.questions import ABSENT, Paged, Question, Questions
from dirtybus.stash.spans import Span
from dirtybus.stash.table_view import StashTable
from dirtybus.stash.transactions import Transaction
from dirtybus.stash.tries import Tries
from dirtybus.stash.watchers import Watcher

__all__ = ["Stash"]

T = TypeVar("T")


class Stash(Leasing):
    """The stash for code that may wait: each function is one round trip to the owner, except `table`, which is none.

    Keys are any hashable value that can be sent; they are the same when they are equal and of the same type, so
    ``None`` is a key and ``1``, ``True`` and ``"1"`` are three. Values are any value that can be sent; what you get is
    your own copy. A missing table is like an empty one, except for `info`. Every operation is done wholly or not at
    all, and no two at the same time.

    ``expires_in`` is how long an entry lives, ``idle`` how long it lives unused: seconds, text such as ``"30m"``, or a
    timedelta; None: what the table says; ``math.inf``: for ever.

    Every function raises `StashError` for a key, name or span that cannot be one, `EncodeError` for a key or value that
    cannot be sent, and what the port raises if the owner cannot be reached; those that store raise `StashFull`.

    Args:
        port: brings operations to the tables.
        resolve: finds the classes of values that come back; by default only among modules already loaded.
    """

    def __init__(self, port: SyncPort, *, resolve: Resolver = loaded_types) -> None:
        self._port = port
        self._resolve = resolve
        self._questions = Questions(resolve)

    # --- one entry ---

    def put(self, table: str, key: Any, value: Any, *, expires_in: Span | None = None, idle: Span | None = None) -> int:
        """Store ``value`` under ``key``, making the table if need be; return the entry's version.

        Versions are numbers that only grow. The entry's life begins anew.
        """
        return self._ask(self._questions.put(table, key, value, expires_in, idle))

    def get(self, table: str, key: Any, default: Any = None) -> Any:
        """Return the value, or ``default`` if there is no such key."""
        return self._ask(self._questions.get(table, key, default))

    def get_with_version(self, table: str, key: Any, default: Any = None) -> tuple[Any, int]:
        """Return the value and its version; ``default`` and 0 if there is no such key."""
        return self._ask(self._questions.get_with_version(table, key, default))

    def pop(self, table: str, key: Any, default: Any = None) -> Any:
        """Remove the key and return its value, or ``default``; of several that try, one gets the value."""
        return self._ask(self._questions.pop(table, key, default))

    def setdefault(
        self,
        table: str,
        key: Any,
        default: Any = None,
        *,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> Any:
        """Return the value, storing ``default`` first if there is none; of several that try, one stores."""
        return self._ask(self._questions.setdefault(table, key, default, expires_in, idle))

    def delete(self, table: str, key: Any) -> bool:
        """Remove the key; return whether it was there."""
        return self._ask(self._questions.delete(table, key))

    def exists(self, table: str, key: Any = ABSENT) -> bool:
        """Whether the table has the key; without a key, whether there is such a table. It is no use of the entry."""
        return self._ask(self._questions.exists(table, key))

    def touch(self, table: str, key: Any, expires_in: Span | None = None) -> bool:
        """Let the entry live its span anew, or another one from now on; return whether it was there."""
        return self._ask(self._questions.touch(table, key, expires_in))

    def ttl(self, table: str, key: Any) -> float | None:
        """Return how many seconds the entry still lives if nobody uses it; None: for ever. It is no use of the entry.

        Raises:
            StashKeyNotFoundError: there is no such key.
        """
        return self._ask(self._questions.ttl(table, key))

    def incr(
        self, table: str, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Any:
        """Add ``by`` to the number and return the sum. A missing one is 0; another keeps the rest of its life.

        Raises:
            StashError: what stands there is no int and no float.
        """
        return self._ask(self._questions.incr(table, key, by, expires_in, idle))

    def decr(
        self, table: str, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Any:
        """As `incr`, but take away."""
        return self._ask(self._questions.incr(table, key, -by, expires_in, idle))

    def cas(self, table: str, key: Any, expected: Any, new: Any, *, expires_in: Span | None = None) -> bool:
        """Compare and swap: store ``new`` if the value is ``expected``; return whether it was.

        `ABSENT` stands for no entry, as either. What is there keeps the rest of its life. Values are the same when they
        are equal, of the same types, and dicts also in their order.
        """
        return self._ask(self._questions.cas(table, key, expected, new, expires_in))

    # --- many entries ---

    def put_many(
        self,
        table: str,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> int:
        """Store all entries, a thousand (or a mebibyte) in each round trip, each of these wholly or not at all."""
        return sum(self._ask_each(self._questions.put_many(table, entries, expires_in, idle)))

    update = put_many

    def get_many(self, table: str, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return those of the keys that are there with their values, a thousand in each round trip."""
        found: dict[Any, Any] = {}
        for some in self._ask_each(self._questions.get_many(table, keys)):
            found.update(some)
        return found

    def delete_many(self, table: str, keys: Iterable[Any]) -> int:
        """Remove the keys, a thousand in each round trip; return how many were there."""
        return sum(self._ask_each(self._questions.delete_many(table, keys)))

    def keys(self, table: str, pattern: str | None = None) -> list[Any]:
        """Return the keys; with a glob such as ``"user:*"``, the str keys that match it.

        They come in the order they came, as they are at one moment; those of a table of more than a thousand entries
        in no order and a thousand at a time, as with `scan`.
        """
        return list(self.iterate(lambda cursor: self._questions.page_of_keys(table, cursor, 1000, pattern)))

    def items(self, table: str, pattern: str | None = None) -> list[tuple[Any, Any]]:
        """Return the keys with their values; order and moment are as with `keys`."""
        return list(self.iterate(lambda cursor: self._questions.page(table, cursor, 1000, pattern)))

    def scan(
        self, table: str, cursor: tuple[int, int] | None = None, *, count: int = 1000, pattern: str | None = None
    ) -> Paged[tuple[Any, Any]]:
        """Return some entries and the cursor to go on with; None: these were the last.

        What is there from the first call to the last is given exactly once; what comes or goes meanwhile, perhaps.
        ``count`` is how many are looked at: fewer may match.

        Raises:
            StashError: the owner was started anew since the cursor was given.
        """
        return self._ask(self._questions.page(table, cursor, count, pattern))

    # --- a table ---

    def length(self, table: str) -> int:
        """Return the number of entries; 0 if there is no such table."""
        return self._ask(self._questions.length(table))

    def clear(self, table: str) -> int:
        """Remove every entry but not the table; return how many there were."""
        return self._ask(self._questions.clear(table))

    def info(self, table: str) -> dict[str, Any]:
        """Return what is known of the table.

        ``name``, ``size`` in entries, ``bytes`` of its keys and values, ``memory_bytes`` as its bounds count them, how
        many entries ``expired`` or were ``evicted``, and its rules.

        Raises:
            StashTableNotFoundError: there is no such table.
        """
        return self._ask(self._questions.info(table))

    def ensure(self, table: str, **rules: Any) -> bool:
        """Make the table unless it is there; return whether it was made.

        Args:
            table: its name.
            **rules: let these hold for what is stored from now on: the fields of `TableConfig`, with or without their
                units: ``ensure("sessions", idle="30m", max_entries=10_000, on_full="lru")``.
        """
        return self._ask(self._questions.ensure(table, rules))

    def delete_table(self, table: str) -> bool:
        """Remove the table with its entries; return whether there was one."""
        return self._ask(self._questions.delete_table(table))

    def tables(self) -> list[str]:
        """Return the names of all tables, sorted. Those that begin with ``dirtybus.`` are the stash's own."""
        return self._ask(self._questions.tables())

    def table(self, name: str) -> StashTable:
        """Return a dict-like view of one table, which need not exist yet."""
        return StashTable(self, name, self._questions)

    def export(self, *tables: str) -> Iterator[str]:
        """Give all that these tables, or all, hold as JSON lines, for `import_lines`, a thousand entries at a time.

        What changes meanwhile may be among them or not. Tables of the stash's own are left out, unless they are named.

        Raises:
            StashTableNotFoundError: there is no such table.
        """
        from dirtybus.stash.lines import first_line, table_line  # not on top: it loads json

        yield first_line()
        for table in tables or [name for name in self.tables() if not name.startswith(RESERVED)]:
            yield table_line(self.info(table))
            yield from self.iterate(partial(self._questions.page_to_export, table))

    def import_lines(self, lines: Iterable[str]) -> int:
        """Store what `export` gave, over what stands under the same keys; return how many entries.

        Tables get their rules. What has expired meanwhile is left out; the rest keeps what was left of its life.

        Raises:
            StashError: a line is not one of those; what stands before it was stored.
        """
        return sum(self._ask_each(self._questions.imported(lines)))

    # --- lists and sets ---

    def push(
        self,
        table: str,
        key: Any,
        *items: Any,
        left: bool = False,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> int:
        """Add items at the right end of the list, or at its left one; return how long it is now.

        A missing list is made. The list is not sent: this takes as long for a long one as for a short one.

        Raises:
            StashError: what stands there is no list.
        """
        return self._ask(self._questions.push(table, key, items, expires_in, idle, left=left))

    def pop_left(self, table: str, key: Any, default: Any = None) -> Any:
        """Take the leftmost item of the list, or return ``default`` if there is none. Raises as `push`."""
        return self._ask(self._questions.pop_item(table, key, default, left=True))

    def pop_right(self, table: str, key: Any, default: Any = None) -> Any:
        """Take the rightmost item of the list, or return ``default`` if there is none. Raises as `push`."""
        return self._ask(self._questions.pop_item(table, key, default, left=False))

    def pop_many(self, table: str, key: Any, count: int, *, left: bool = True) -> list[Any]:
        """Take up to ``count`` items from an end of the list, the outermost first. Raises as `push`."""
        return self._ask(self._questions.pop_items(table, key, count, left=left))

    def add(self, table: str, key: Any, *members: Any, expires_in: Span | None = None, idle: Span | None = None) -> int:
        """Add members to the set, which is made if it is missing; return how many are new.

        Raises:
            StashError: what stands there is no set, or a member is not hashable.
        """
        return self._ask(self._questions.add(table, key, members, expires_in, idle))

    def remove(self, table: str, key: Any, *members: Any) -> int:
        """Remove members from the set; return how many were in it. Raises as `add`."""
        return self._ask(self._questions.remove(table, key, members))

    def size(self, table: str, key: Any) -> int:
        """Return how many items the list, or members the set, has; 0 if there is none.

        Raises:
            StashError: what stands there is neither.
        """
        return self._ask(self._questions.size(table, key))

    # --- several together ---

    def transaction(self) -> Transaction:
        """Begin a transaction: ``with stash.transaction() as tx: …``."""
        return Transaction(self._port, self._questions)

    def transact(self, function: Callable[..., T], *args: Any, within: Span = 30.0) -> T:
        """Run ``function(tx, *args)`` in a transaction, again and again until nobody interferes; return its result.

        Raises:
            StashConflict: somebody interfered each time, for as long as ``within``.
            Exception: whatever ``function`` raises; nothing was done then.
        """
        tries = Tries(within)
        while True:
            try:
                with self.transaction() as tx:
                    result = function(tx, *args)
            except StashConflict:
                time.sleep(tries.pause_s())
            else:
                return result

    # --- what changes ---

    def watch(self, table: str, pattern: str | None = None, *, timeout: Span | None = None) -> Watcher:
        """Return an iterator over the changes of a table, from now on, which waits for the next one.

        Args:
            table: its name; it need not exist yet.
            pattern: only changes of str keys that match this glob, and of the whole table.
            timeout: the iteration ends after so long without a change; None: never.
        """
        return Watcher(self._port, table, pattern, timeout, self._resolve)

    # --- for the package ---

    def iterate(self, page: Callable[[tuple[int, int] | None], Question[Paged[T]]]) -> Iterator[T]:
        """Give what stands on all pages, one after the other."""
        cursor: tuple[int, int] | None = None
        while True:
            found, cursor = self._ask(page(cursor))
            yield from found
            if cursor is None:
                return

    def _ask_each(self, questions: Iterable[Question[T]]) -> Iterator[T]:
        """Give what the questions come to, in their order; while one is answered, the next is written."""
        under_way: deque[tuple[Question[T], Callable[[], StashReply]]] = deque()
        try:
            for question in questions:
                under_way.append((question, begin_at(self._port, question.op)))
                if len(under_way) > 1:
                    first, finish = under_way.popleft()
                    yield first.read(finish())
            while under_way:
                first, finish = under_way.popleft()
                yield first.read(finish())
        finally:
            for _, finish in under_way:
                with suppress(DirtyError):  # another is on its way up already, which came first
                    finish()

    def _ask(self, question: Question[T]) -> T:
        answer = question.answer(self._port.ask(question.op))
        return question.read(answer if isinstance(answer, StashReply) else self._port.ask(answer))
