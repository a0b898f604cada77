"""One table: entries with versions, spans and bounds. Time is an argument; values stay closed."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from dirtybus.config.stash import TableConfig
from dirtybus.errors import StashFull
from dirtybus.stash.book import Book
from dirtybus.stash.buckets import Bucket, Buckets, alarm_of, key_of_alarm, moment_of_alarm
from dirtybus.stash.entry import ENTRY_BYTES, FOREVER, Entry, is_large, size_of
from dirtybus.stash.lru import SAMPLE, OldestFinder
from dirtybus.stash.note import ChangeKind, Note

__all__ = ["Table"]

#: So many entries make room for one at most: the owner's loop waits meanwhile.
_MOST_EVICTED: Final = 4096
#: How many entries that are due are removed before a full table refuses anything.
_EXPIRE_FIRST: Final = 1024


class Table:
    """The entries of one table.

    Args:
        name: its name.
        rules: its bounds and spans.
        book: what all tables count together.

    Entries that are due are gone for whoever looks, but counted until `expire` has removed them. The one used the
    longest time ago is exact up to 16 full buckets (65,536 entries); beyond, it is the oldest of 16 buckets by turns.
    """

    __slots__ = (
        "_oldest",
        "book",
        "due_at",
        "entries",
        "evicted",
        "expired",
        "is_followed",
        "name",
        "rules",
        "size_bytes",
    )

    def __init__(self, name: str, rules: TableConfig, book: Book) -> None:
        self.name = name
        self.rules = rules
        self.book = book
        self.entries: Buckets[Entry] = Buckets()
        self.size_bytes = 0
        self.due_at = FOREVER
        self.is_followed = False
        self.evicted = 0
        self.expired = 0
        self._oldest = OldestFinder()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def memory_bytes(self) -> int:
        """What the table takes, as its bounds count it."""
        return self.size_bytes + ENTRY_BYTES * len(self.entries)

    # --- one key ---

    def find(self, key: bytes, now: float) -> Entry | None:
        """Return the entry, which counts as a use of it; None if there is none."""
        bucket = self.entries.bucket_of(key)
        entry = bucket.entries.get(key)
        if entry is None:
            return None
        if entry.alarm_at <= now and entry.due_at <= now:
            self._remove(key, entry, "expired")
            return None
        if self.rules.on_full == "lru":
            self._note_use(key, entry)
            entry.used_at = now
            bucket.entries[key] = bucket.entries.pop(key)
        elif entry.idle_s != FOREVER:
            self._note_use(key, entry)
            entry.used_at = now
        return entry

    def peek(self, key: bytes, now: float) -> Entry | None:
        """As `find`, but not a use."""
        entry = self.entries.get(key)
        return None if entry is None or (entry.alarm_at <= now and entry.due_at <= now) else entry

    def put(self, key: bytes, entry: Entry, now: float) -> None:
        """Store ``entry`` under ``key``, over whatever stands there.

        Raises:
            StashFull: it does not fit, and nothing may make room for it.
        """
        old = self.entries.get(key)
        if old is not None and old.alarm_at <= now and old.due_at <= now:
            self._remove(key, old, "expired")
            old = None
        if old is None:
            grown, more = ENTRY_BYTES + len(key) + size_of(entry.value), 1
        else:
            grown, more = size_of(entry.value) - size_of(old.value), 0
        if not self.has_room(grown, more):
            self._make_room(key, grown, more, now)
        if self.book.undo is not None:
            if old is not None and self.rules.on_full == "lru":
                self._keep_order(key)
            used_at = 0.0 if old is None else old.used_at
            self.book.undo.append(lambda: self._put_back(key, old, used_at))
        self._store(key, entry, now)
        if old is not None and type(old.value) is not bytes:
            self._give_up(old)
        if self.is_followed:
            self._note("put", key, entry)

    def delete(self, key: bytes, now: float) -> Entry | None:
        """Remove the key and return what stood there, or None."""
        entry = self.peek(key, now)
        if entry is not None:
            self._remove(key, entry, "deleted")
        return entry

    def change_parts(
        self, key: bytes, entry: Entry, grown_bytes: int, undo: Callable[[], object], now: float, note: Note
    ) -> None:
        """Book that the collection under ``key`` has changed in place, by so many bytes; ``undo`` takes it back.

        The caller has made sure that there is room, with `check_growth`.
        """
        self.count(grown_bytes)
        if self.book.undo is not None:
            version, used_at = entry.version, entry.used_at

            def take_back() -> None:
                undo()
                self.count(-grown_bytes)
                entry.version, entry.used_at = version, used_at

            self.book.undo.append(take_back)
        entry.version = note.version
        entry.used_at = now
        if self.is_followed:
            self.book.notes.append(note)

    def check_growth(self, key: bytes, more_bytes: int, now: float) -> None:
        """Make room for a value to grow. Raises as `put`."""
        if not self.has_room(more_bytes, 0):
            self._make_room(key, more_bytes, 0, now)

    def set_span(self, key: bytes, entry: Entry, ttl_s: float, now: float) -> None:
        """Let the entry live so long from now on."""
        before = (entry.expires_at, entry.ttl_s, entry.version)
        entry.expires_at, entry.ttl_s, entry.version = now + ttl_s, ttl_s, self.book.next_version()
        self._set_alarm(self.entries.bucket_of(key), key, entry)
        if self.book.undo is not None:
            self.book.undo.append(lambda: self._restore_span(key, entry, before))
        self._note("put", key, entry, is_whole=False)

    def restore(self, key: bytes, entry: Entry, now: float) -> None:
        """Put an entry of before a restart in its place, whatever the bounds say: it was let in then."""
        self._store(key, entry, now)

    # --- all keys ---

    def clear(self) -> int:
        """Remove every entry; return how many there were."""
        old, size_bytes = self.entries, self.size_bytes
        count = len(old)
        self._replace(Buckets(), 0)
        if self.book.undo is not None:
            self.book.undo.append(lambda: self._replace(old, size_bytes))
        for bucket in old.all:
            self.book.give_up(bucket.entries)
        if self.is_followed:
            self.book.notes.append(Note("cleared", self.name, None, self.book.next_version()))
        return count

    def expire(self, now: float, most: int) -> int:
        """Remove up to ``most`` entries that are due; return how many alarms it has looked at: ``most`` if more are."""
        if self.due_at > now:
            return 0
        looked_at = 0
        for bucket in list(self.entries.all):
            alarms = bucket.alarms
            while alarms and moment_of_alarm(alarms[0]) <= now:
                if looked_at >= most:
                    return looked_at
                looked_at += 1
                self._ring(bucket, heappop(alarms), now)
        self._find_due()
        return min(looked_at, most - 1)

    # --- inside ---

    def _find_due(self) -> None:
        first = min((bucket.alarms[0] for bucket in self.entries.all if bucket.alarms), default=None)
        self.due_at = FOREVER if first is None else moment_of_alarm(first)
        self.book.note_due(self.due_at)

    def _ring(self, bucket: Bucket[Entry], alarm: bytes, now: float) -> None:
        key = key_of_alarm(alarm)
        entry = bucket.entries.get(key)
        if entry is None or entry.alarm_at != moment_of_alarm(alarm):
            return  # it is gone, or has another alarm by now
        if entry.due_at <= now:
            self._remove(key, entry, "expired")
        else:
            entry.alarm_at = entry.due_at
            heappush(bucket.alarms, alarm_of(entry.alarm_at, key))

    def _store(self, key: bytes, entry: Entry, now: float) -> None:
        old = self.entries.get(key)
        if old is None:
            grown = len(key) + size_of(entry.value)
            self.book.memory_bytes += grown + ENTRY_BYTES
        else:
            grown = size_of(entry.value) - size_of(old.value)
            self.book.memory_bytes += grown
            if self.rules.on_full == "lru":
                self.entries.pop(key)  # to the end of its bucket: it is the one used last
        self.size_bytes += grown
        entry.used_at = now
        entry.alarm_at = FOREVER
        bucket = self.entries.put(key, entry)
        if entry.expires_at != FOREVER or entry.idle_s != FOREVER:
            self._set_alarm(bucket, key, entry)

    def _forget(self, key: bytes) -> None:
        entry = self.entries.pop(key)
        assert entry is not None, "what is removed must be there"
        self.count(-len(key) - size_of(entry.value))
        self.book.memory_bytes -= ENTRY_BYTES

    def _remove(self, key: bytes, entry: Entry, why: ChangeKind) -> None:
        if self.book.undo is not None:
            self._keep_order(key)
            self.book.undo.append(lambda: self._put_back(key, entry, entry.used_at))
            self.book.undo.append(lambda: self._count_gone(why, -1))
        self._forget(key)
        self._count_gone(why, 1)
        self._give_up(entry)
        self._note(why, key, None)

    def _count_gone(self, why: ChangeKind, more: int) -> None:
        if why == "expired":
            self.expired += more
        elif why == "evicted":
            self.evicted += more

    def _give_up(self, entry: Entry) -> None:
        if is_large(entry.value):
            self.book.give_up(entry.value)

    # --- taking back ---

    def _put_back(self, key: bytes, entry: Entry | None, used_at: float) -> None:
        """Let ``entry``, or nothing, stand under ``key`` again."""
        if entry is not None:
            self._store(key, entry, used_at)
        elif key in self.entries:
            self._forget(key)

    def _note_use(self, key: bytes, entry: Entry) -> None:
        if self.book.undo is not None:
            if self.rules.on_full == "lru":
                self._keep_order(key)
            used_at = entry.used_at
            self.book.undo.append(lambda: self._restore_use(key, entry, used_at))

    def _restore_use(self, key: bytes, entry: Entry, used_at: float) -> None:
        entry.used_at = used_at
        self._set_alarm(self.entries.bucket_of(key), key, entry)

    def _keep_order(self, key: bytes) -> None:
        """Remember in which order the keys around this one came or were used, before a transaction changes that.

        Of many buckets, only the use counts, and only where the one used the longest time ago is exact.
        """
        count = len(self.entries.all)
        if count > (SAMPLE if self.rules.on_full == "lru" else 1):
            return
        bucket = self.entries.bucket_of(key)
        if self.book.undo is None or not self.book.is_first_look(bucket):
            return
        if count == 1:
            order = list(bucket.entries)
            self.book.undo.append(lambda: self._reorder(order))
        else:
            self.book.undo.append(lambda: self._reorder_by_use(key))

    def _reorder_by_use(self, key: bytes) -> None:
        entries = self.entries.bucket_of(key).entries
        self._reorder(sorted(entries, key=lambda other: entries[other].used_at))

    def _reorder(self, order: list[bytes]) -> None:
        for key in order:
            entries = self.entries.bucket_of(key).entries
            entries[key] = entries.pop(key)

    def _replace(self, entries: Buckets[Entry], size_bytes: int) -> None:
        self.book.memory_bytes -= self.memory_bytes
        self.entries, self.size_bytes = entries, size_bytes
        self.book.memory_bytes += self.memory_bytes
        self._find_due()

    def count(self, more_bytes: int) -> None:
        """Book that the values have grown by so many bytes."""
        self.size_bytes += more_bytes
        self.book.memory_bytes += more_bytes

    def _note(self, kind: ChangeKind, key: bytes, entry: Entry | None, *, is_whole: bool = True) -> None:
        if self.is_followed:
            version = self.book.next_version() if entry is None else entry.version
            self.book.notes.append(Note(kind, self.name, key, version, entry, is_whole=is_whole))

    def _restore_span(self, key: bytes, entry: Entry, before: tuple[float, float, int]) -> None:
        entry.expires_at, entry.ttl_s, entry.version = before
        self._set_alarm(self.entries.bucket_of(key), key, entry)

    def _set_alarm(self, bucket: Bucket[Entry], key: bytes, entry: Entry) -> None:
        due_at = entry.due_at
        if due_at >= entry.alarm_at:
            return  # an earlier look is set already; then it is set anew
        entry.alarm_at = due_at
        alarms = bucket.alarms
        if len(alarms) > 2 * len(bucket.entries) + 64:  # most are of entries that are gone
            others = ((k, e) for k, e in bucket.entries.items() if e.alarm_at != FOREVER and k != key)
            alarms[:] = [alarm_of(e.alarm_at, k) for k, e in others]
            heapify(alarms)
        heappush(alarms, alarm_of(due_at, key))
        if due_at < self.due_at:
            self.due_at = due_at
            self.book.note_due(due_at)

    def _make_room(self, key: bytes, more_bytes: int, more_entries: int, now: float) -> None:
        self.expire(now, _EXPIRE_FIRST)
        if self.has_room(more_bytes, more_entries):
            return
        if self.rules.on_full != "lru" or not self._could_fit(key, more_bytes):
            raise self._full(more_bytes)
        # what surely needs few victims cannot be refused in the middle, so nothing need be remembered for that
        if more_bytes <= _MOST_EVICTED * ENTRY_BYTES and self._is_within_rules():
            self._evict(key, more_bytes, more_entries)
        else:
            self.book.all_or_nothing(lambda: self._evict(key, more_bytes, more_entries))

    def _evict(self, key: bytes, more_bytes: int, more_entries: int) -> None:
        count, memory_bytes = len(self.entries), self.memory_bytes
        evicted = 0
        while not self.has_room(more_bytes, more_entries):
            victim = self._oldest.find(self.entries, key) if evicted < _MOST_EVICTED else None
            if victim is None:
                # bounds that were lowered below what is there are met step by step
                if len(self.entries) + more_entries <= count and self.memory_bytes + more_bytes <= memory_bytes:
                    return
                raise self._full(more_bytes)
            evicted += 1
            self._remove(*victim, "evicted")

    def _is_within_rules(self) -> bool:
        rules = self.rules
        return (rules.max_entries is None or len(self.entries) <= rules.max_entries) and (
            rules.max_bytes is None or self.memory_bytes <= rules.max_bytes
        )

    def _could_fit(self, key: bytes, more_bytes: int) -> bool:
        """Whether it would fit if nothing else were in the table."""
        old = self.entries.get(key)
        alone_bytes = more_bytes + (0 if old is None else ENTRY_BYTES + len(key) + size_of(old.value))
        rules, book = self.rules, self.book
        return (rules.max_bytes is None or alone_bytes <= rules.max_bytes) and (
            book.max_bytes is None or book.memory_bytes - self.memory_bytes + alone_bytes <= book.max_bytes
        )

    def has_room(self, more_bytes: int, more_entries: int) -> bool:
        """Whether so much more fits without anything having to go."""
        rules, book = self.rules, self.book
        if rules.max_entries is not None and more_entries and len(self.entries) + more_entries > rules.max_entries:
            return False
        if rules.max_bytes is not None and more_bytes > 0 and self.memory_bytes + more_bytes > rules.max_bytes:
            return False
        return book.max_bytes is None or more_bytes <= 0 or book.memory_bytes + more_bytes <= book.max_bytes

    def _full(self, more_bytes: int) -> StashFull:
        self.book.check_room(more_bytes, self.name)
        rules = self.rules
        remedy = "raise its bounds" if rules.on_full == "lru" else "raise its bounds, or let it be on_full='lru'"
        return StashFull(
            f"table {self.name!r} has {len(self.entries)} entries of {self.memory_bytes} bytes, and {more_bytes} bytes "
            f"more do not fit (max_entries {rules.max_entries}, max_bytes {rules.max_bytes}); delete some, or {remedy}",
            {"table_name": self.name, "max_entries": rules.max_entries, "max_bytes": rules.max_bytes},
        )
