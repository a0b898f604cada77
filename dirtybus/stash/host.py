"""A keeper on an event loop: its clockwork, and, where the settings say so, the file that it is kept in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from dirtybus import log
from dirtybus.errors import StashError
from dirtybus.in_thread import in_thread
from dirtybus.stash.entry import Entry, Stored
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.ops_many import Rules
from dirtybus.stash.parts import ListValue, SetValue
from dirtybus.stash.recorder import StoreRecorder
from dirtybus.stash.store import Change, Define, Drop, Row, StashStore, Upsert
from dirtybus.stash.sweeper import Sweeper
from dirtybus.stash.writer import StashWriter

__all__ = ["StashHost"]

_Batch = Sequence[Define | Upsert]
#: the clocks are not read at the same moment
_CLOCK_ERROR_S: Final = 0.01


class StashHost:
    """Starts and stops all that a keeper needs.

    Args:
        keeper: to be given operations from `start` on.
        store: where it is persisted; None: in the file that its settings name, if they do.
    """

    def __init__(self, keeper: Keeper, store: StashStore | None = None) -> None:
        self._keeper = keeper
        path = keeper.config.persist
        if store is None and path is not None:
            from dirtybus.stash.store_sqlite import SqliteStore  # not on top: most keep nothing, and start faster

            store = SqliteStore(path)
        self._store = store
        self._sweeper = Sweeper(keeper)
        self._writer: StashWriter | None = None

    async def start(self) -> None:
        """Read what is persisted, and begin. May be called twice.

        Raises:
            StashError: the file cannot be used; the message says why, and what to do.
        """
        if self._store is not None and self._writer is None:
            mended = await self._restore(self._store)
            self._writer = self._begin_to_write(self._store, mended)
        self._sweeper.start()

    async def stop(self, within_s: float) -> None:
        """End; write what is left, for so long at most. May be called twice.

        Raises:
            StashError: something could not be written; the message says how much and why.
        """
        self._sweeper.stop()
        self._keeper.close()
        writer = self._writer
        if writer is None:
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="dirtybus-stash-close")  # the loop's may all be busy
        try:
            left = await in_thread(writer.close, within_s, executor=thread)
        finally:
            thread.shutdown(wait=False)  # it ends by itself, within that time
        self._writer = None
        if left:
            why = writer.state()["error"] or f"the disk took longer than {within_s:g} s"
            raise StashError(f"{left} changes of the stash are lost, as they could not be written: {why}")

    def kill(self) -> None:
        """End at once; what is left is written if the process lives long enough. May be called twice."""
        self._sweeper.stop()
        self._keeper.close()
        if self._writer is not None:
            self._writer.close(0)

    def _begin_to_write(self, store: StashStore, mended: Sequence[Change]) -> StashWriter:
        loop = asyncio.get_running_loop()

        def hop(tell: Callable[[], object]) -> None:
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:  # the loop has ended, and with it whoever waited in it; threads may yet wait
                tell()

        writer = StashWriter(store)
        writer.start()
        if mended:
            writer.submit(mended, version=store.version, is_durable=False)
        self._keeper.recorder = StoreRecorder(self._keeper.state.tables, writer, self._keeper.now, hop)
        return writer

    # --- reading what is persisted ---

    async def _restore(self, store: StashStore) -> list[Change]:
        """Return what has to be changed in the store after this."""
        began_at = time.monotonic()
        restoring = _Restoring(self._keeper)
        with ThreadPoolExecutor(1, thread_name_prefix="dirtybus-load") as thread:
            try:
                await in_thread(store.open, executor=thread)
                batches: Iterator[_Batch] = store.load()
                while (batch := await in_thread(next, batches, None, executor=thread)) is not None:
                    restoring.take(batch)
            except BaseException:
                await in_thread(store.close, executor=thread)
                raise
        restoring.end(store.version)
        count = sum(len(restoring.tables.get(name)) for name in restoring.tables.names())
        log.logger.info("the stash has {} entries from before, read in {:.2f} s", count, time.monotonic() - began_at)
        return [*(Drop(name) for name in restoring.unkept), *restoring.mended]


class _Restoring:
    """Puts what comes from a store into the tables."""

    def __init__(self, keeper: Keeper) -> None:
        self.tables = keeper.state.tables
        self.unkept: list[str] = []
        self.mended: list[Change] = []
        self._keeper = keeper
        self._now = keeper.now()
        self._shift_s = self._now - time.time()

    def take(self, batch: _Batch) -> None:
        for record in batch:
            if isinstance(record, Define):
                self._take_table(record)
            else:
                self._take_entry(record)

    def _take_table(self, record: Define) -> None:
        try:
            rules = Rules.from_bytes(record.rules).as_config()
        except StashError as exc:
            raise StashError(
                f"the stash in {self._keeper.config.persist!r} cannot be read: of table {record.table!r}, {exc}; use "
                f"the version of dirtybus that wrote it, or name another file in stash.persist"
            ) from exc
        self.tables.restore_table(record.table, rules)
        if self.tables.durability(record.table) == "none":  # the settings have changed since
            self.unkept.append(record.table)

    def end(self, version: int) -> None:
        """All was taken: go on counting where the last owner ended."""
        book = self.tables.book
        book.version = max(book.version, version)
        self._keeper.state.leases.restore()

    def _take_entry(self, record: Upsert) -> None:
        row = record.row
        if row.table in self.unkept:
            return
        table = self.tables.find(row.table)
        if table is None:  # its definition comes first
            raise StashError(
                f"the stash in {self._keeper.config.persist!r} is damaged: it has entries of table {row.table!r}, but "
                f"no such table; move it away, and restore what was exported with `dirtybus stash import`"
            )
        if not record.is_new:
            self._add_parts(row, record.parts_put)
            return
        # a clock that was set back meanwhile does not make it live longer than it was given
        expires_at = min(row.expires_at + self._shift_s, self._now + row.ttl_s)
        if expires_at < row.expires_at + self._shift_s - _CLOCK_ERROR_S:  # nor does the next restart
            sooner = msgspec.structs.replace(row, value=None, expires_at=expires_at - self._shift_s)
            self.mended.append(Upsert(sooner))
        table.restore(
            row.key,
            Entry(_value_of(record), row.version, expires_at, row.ttl_s, row.idle_s),
            self._now,
        )

    def _add_parts(self, row: Row, parts: Sequence[tuple[bytes, bytes]]) -> None:
        table = self.tables.get(row.table)
        entry = table.entries.get(row.key)
        assert entry is not None, "the first piece of a collection comes first"
        value = entry.value
        before = value.size_bytes if isinstance(value, ListValue | SetValue) else 0
        if isinstance(value, ListValue):
            value.push(item for _, item in parts)
        elif isinstance(value, SetValue):
            value.add(member for member, _ in parts)
        if isinstance(value, ListValue | SetValue):
            table.count(value.size_bytes - before)


def _value_of(record: Upsert) -> Stored:
    row = record.row
    if row.kind == "list":
        return ListValue.of_parts(record.parts_put)
    if row.kind == "set":
        return SetValue.of_parts(record.parts_put)
    assert row.value is not None, "a store gives whole values"
    return row.value
