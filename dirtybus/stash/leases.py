"""Who holds what, until when: leases, locks, semaphores and what runs once. Time is an argument.

A lease is an entry in a table of the stash's own, so it expires, counts, persists and is watched as any other entry. A
holder is known by a token; a fencing number, which only grows, lets what the lease guards refuse a holder of before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import msgspec

from dirtybus.errors import DirtyError
from dirtybus.protocol.codec import decode_body, encode_whole
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.entry import Entry
from dirtybus.stash.key import key_bytes
from dirtybus.stash.names import RESERVED
from dirtybus.stash.one_table import Table
from dirtybus.stash.op import MISSING, StashReply

__all__ = ["LEASES", "ONCE", "Leases", "name_of_lease"]

LEASES: Final = f"{RESERVED}leases"
ONCE: Final = f"{RESERVED}once"
#: Of so many names it is counted how often somebody was turned away; then the oldest are forgotten.
_MOST_COUNTED: Final = 10_000
#: Of so many tokens it is remembered that they were given up before they were given anything.
_MOST_GIVEN_UP: Final = 4096

#: A holder: the name, and its token under it.
_Holder = tuple[str, str]


class _Held(msgspec.Struct):
    """One lease: where it stands, and who holds it (None: somebody of before a restart)."""

    name: str
    place: int
    key: bytes
    token: str
    fencing: int
    caller: Hashable

    @property
    def holder(self) -> _Holder:
        return self.name, self.token


class Leases:
    """All leases of one owner, in ``tables``.

    Whoever is told ``caller`` ends is told by `leave`: its leases are free at once. Others are free when their time is
    over. A caller that has restarted keeps its leases by renewing them with their tokens.
    """

    def __init__(self, tables: StashTables) -> None:
        self._tables = tables
        tables.follow(LEASES)  # whoever waits is served when an entry goes
        # each entry of the table stands in all three, from when it is put to when it is gone
        self._by_name: dict[str, dict[int, _Held]] = {}
        self._by_holder: dict[_Holder, _Held] = {}
        self._by_caller: dict[Hashable, set[_Holder]] = {}
        self._given_up: dict[_Holder, None] = {}
        self._skipped: dict[str, int] = {}

    def acquire(
        self, name: str, token: str, ttl_s: float, places: int, caller: Hashable, now: float
    ) -> StashReply | None:
        """Take the first free place under ``name``; None if there is none. ``version`` is the fencing number.

        Who holds it by this token already keeps it, and its time begins anew; who has given it up gets nothing.
        """
        if (name, token) in self._given_up:
            return StashReply(is_true=False)
        if (reply := self.renew(name, token, ttl_s, caller, now)).is_true:
            return reply
        table = self._made(LEASES)
        if (before := self._by_holder.get((name, token))) is not None:  # its time is over
            table.find(before.key, now)
            self._forget(before)
        taken = self._by_name.get(name, {})
        for place in range(places):
            if place in taken and self._entry_of(taken[place], now) is not None:
                continue
            fencing = table.book.next_version()
            key, value = key_bytes((name, place)), encode_whole({"token": token, "fencing": fencing})
            table.put(key, Entry(value, fencing, now + ttl_s, ttl_s), now)
            self._note(_Held(name, place, key, token, fencing, caller))
            return StashReply(version=fencing, span_s=ttl_s)
        return None

    def renew(self, name: str, token: str, ttl_s: float, caller: Hashable, now: float) -> StashReply:
        """Let the lease begin its time anew; ``is_true``: it was still held by this token."""
        held, entry = self._standing(name, token, now)
        if held is None or entry is None:
            return MISSING
        self._made(LEASES).set_span(held.key, entry, ttl_s, now)
        if held.caller != caller:  # it was held before a restart, or has connected anew
            self._hand_over(held, caller)
        return StashReply(version=held.fencing, span_s=ttl_s)

    def release(self, name: str, token: str, now: float) -> StashReply:
        """Give the lease back; ``is_true``: it was still held by this token."""
        held, entry = self._standing(name, token, now)
        if held is None or entry is None:
            return MISSING
        self._forget(held)
        self._made(LEASES).delete(held.key, now)
        return StashReply(version=held.fencing)

    def give_up(self, name: str, token: str) -> None:
        """Whoever has this token holds nothing and wants nothing any more: its question may yet be under way."""
        if (name, token) not in self._by_holder:
            self._given_up[name, token] = None
            if len(self._given_up) > _MOST_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]

    def once(self, name: str, token: str, ttl_s: float, now: float) -> StashReply:
        """Say yes to the first who asks under ``name``, and no to all others until ``ttl_s`` have passed."""
        table = self._made(ONCE)
        key = key_bytes(name)
        entry = table.peek(key, now)
        if entry is not None:
            # the same question again, after an answer was lost: the same answer
            is_same = type(entry.value) is bytes and decode_body(entry.value) == token
            if not is_same:
                self.count_skip(name)
            return StashReply(is_true=is_same, version=entry.version, span_s=entry.expires_at - now)
        version = table.book.next_version()
        table.put(key, Entry(encode_whole(token), version, now + ttl_s, ttl_s), now)
        return StashReply(version=version, span_s=ttl_s)

    def leave(self, caller: Hashable, now: float) -> None:
        """Free what ``caller`` held: it has ended."""
        for held in self._held_by(caller):
            table = self._made(LEASES)
            table.find(held.key, now)  # what is over goes too, so that its place is given at once
            table.delete(held.key, now)
            self._forget(held)

    def disown(self, caller: Hashable) -> None:
        """``caller`` is no longer heard of, but may live: what it holds is held by its tokens alone."""
        for held in self._held_by(caller):
            self._hand_over(held, None)

    def expire(self, name: str, now: float) -> bool:
        """Remove those under ``name`` whose time is over and that were not swept yet; whether there were any."""
        table = self._tables.find(LEASES)
        if table is None or table.due_at > now:
            return False
        before = table.expired
        for held in self._by_name.get(name, {}).values():
            table.find(held.key, now)
        return table.expired > before

    def forget_gone(self, keys: Iterable[bytes]) -> None:
        """Entries went: forget who held them, unless somebody has the place again."""
        table = self._tables.find(LEASES)
        for key in keys:
            name, place = _parts_of(key)
            held = self._by_name.get(name, {}).get(place)
            if held is not None and (table is None or table.entries.get(key) is None):
                self._forget(held)

    def count_skip(self, name: str) -> None:
        """Somebody was turned away."""
        self._skipped[name] = self._skipped.pop(name, 0) + 1
        if len(self._skipped) > _MOST_COUNTED:
            del self._skipped[next(iter(self._skipped))]

    def wait_s(self, name: str, places: int, now: float) -> float | None:
        """Return when the next place is free if nobody renews or gives back; None: one is."""
        taken = [held for held in self._by_name.get(name, {}).values() if held.place < places]
        spans = [entry.expires_at - now for held in taken if (entry := self._entry_of(held, now)) is not None]
        return min(spans) if len(spans) == places else None

    def info(self, name: str, now: float) -> Mapping[str, Any]:
        """Return who holds a lease, as plain values: ``holders``, each with its fencing number and time left."""
        holders = [
            {"fencing": held.fencing, "expires_in_s": entry.expires_at - now}
            for held in self._by_name.get(name, {}).values()
            if (entry := self._entry_of(held, now)) is not None
        ]
        return {"name": name, "holders": holders, "skipped": self._skipped.get(name, 0)}

    def restore(self) -> None:
        """Learn of the leases that stand in the table: of before a restart. Their holders may yet renew them."""
        table = self._tables.find(LEASES)
        for _, key, entry in [] if table is None else list(table.entries.after(None)):
            value = entry.value
            try:
                name, place = _parts_of(key)
                if place in self._by_name.get(name, {}) or not isinstance(value, bytes):
                    continue
                said = decode_body(value)
                self._note(_Held(name, place, key, str(said["token"]), int(said["fencing"]), None))
            except (DirtyError, KeyError, TypeError, ValueError):
                self._made(LEASES).delete(key, 0.0)  # it is of a later version of ours; nobody here could renew it

    # --- inside ---

    def _made(self, name: str) -> Table:
        return self._tables.made(name, is_ours=True)

    def _standing(self, name: str, token: str, now: float) -> tuple[_Held | None, Entry | None]:
        held = self._by_holder.get((name, token))
        return held, None if held is None else self._entry_of(held, now)

    def _entry_of(self, held: _Held, now: float) -> Entry | None:
        table = self._tables.find(LEASES)
        return None if table is None else table.peek(held.key, now)

    def _held_by(self, caller: Hashable) -> list[_Held]:
        return [self._by_holder[holder] for holder in self._by_caller.get(caller, ())]

    def _hand_over(self, held: _Held, caller: Hashable) -> None:
        self._forget(held)
        self._note(msgspec.structs.replace(held, caller=caller))

    def _note(self, held: _Held) -> None:
        before = self._by_name.get(held.name, {}).get(held.place)
        if before is not None:
            self._forget(before)
        self._by_name.setdefault(held.name, {})[held.place] = self._by_holder[held.holder] = held
        self._by_caller.setdefault(held.caller, set()).add(held.holder)

    def _forget(self, held: _Held) -> None:
        places = self._by_name[held.name]
        del places[held.place], self._by_holder[held.holder]
        if not places:
            del self._by_name[held.name]
        holders = self._by_caller[held.caller]
        holders.remove(held.holder)
        if not holders:
            del self._by_caller[held.caller]


def name_of_lease(key: bytes) -> str:
    """Return the name under which a lease stands."""
    return _parts_of(key)[0]


def _parts_of(key: bytes) -> tuple[str, int]:
    name, place = decode_body(key)
    return str(name), int(place)
