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


class _Held(msgspec.Struct):
    """One lease: where it stands, and who holds it (None: somebody of before a restart)."""

    key: bytes
    token: str
    fencing: int
    caller: Hashable


class Leases:
    """All leases of one owner, in ``tables``.

    Whoever is told ``caller`` ends is told by `leave`: its leases are free at once. Others are free when their time is
    over. A caller that has restarted keeps its leases by renewing them with their tokens.
    """

    def __init__(self, tables: StashTables) -> None:
        self._tables = tables
        tables.follow(LEASES)  # whoever waits is served when an entry goes
        self._by_key: dict[bytes, _Held] = {}
        self._by_token: dict[str, _Held] = {}
        self._by_caller: dict[Hashable, set[str]] = {}
        self._skipped: dict[str, int] = {}

    def acquire(
        self, name: str, token: str, ttl_s: float, places: int, caller: Hashable, now: float
    ) -> StashReply | None:
        """Take the first free place under ``name``; None if there is none. ``version`` is the fencing number.

        Who holds it by this token already keeps it, and its time begins anew.
        """
        if token in self._by_token and (reply := self.renew(name, token, ttl_s, caller, now)).is_true:
            return reply
        table = self._made(LEASES)
        for place in range(places):
            key = key_bytes((name, place))
            if table.peek(key, now) is not None:
                continue
            fencing = table.book.next_version()
            value = encode_whole({"token": token, "fencing": fencing})
            table.put(key, Entry(value, fencing, now + ttl_s, ttl_s), now)
            self._note(_Held(key, token, fencing, caller))
            return StashReply(version=fencing, span_s=ttl_s)
        return None

    def renew(self, name: str, token: str, ttl_s: float, caller: Hashable, now: float) -> StashReply:
        """Let the lease begin its time anew; ``is_true``: it was still held by this token."""
        held, entry = self._standing(name, token, now)
        if held is None or entry is None:
            return MISSING
        self._made(LEASES).set_span(held.key, entry, ttl_s, now)
        if held.caller != caller:  # it was held before a restart, or has connected anew
            self._forget(held)
            self._note(_Held(held.key, token, held.fencing, caller))
        return StashReply(version=held.fencing, span_s=ttl_s)

    def release(self, name: str, token: str, now: float) -> StashReply:
        """Give the lease back; ``is_true``: it was still held by this token."""
        held, entry = self._standing(name, token, now)
        if held is None or entry is None:
            return MISSING
        self._forget(held)
        self._made(LEASES).delete(held.key, now)
        return StashReply(version=held.fencing)

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
        for token in list(self._by_caller.get(caller, ())):
            held = self._by_token[token]
            if self._entry_of(held, now) is not None:
                self._made(LEASES).delete(held.key, now)
            self._forget(held)

    def is_held(self, name: str, token: str) -> bool:
        """Whether ``token`` was given a place under ``name`` that is not known to be over."""
        held = self._by_token.get(token)
        return held is not None and name_of_lease(held.key) == name

    def expire(self, name: str, places: int, now: float) -> bool:
        """Remove those under ``name`` whose time is over and that were not swept yet; whether there were any."""
        table = self._tables.find(LEASES)
        if table is None or table.due_at > now:
            return False
        before = table.expired
        for place in range(places):
            table.find(key_bytes((name, place)), now)
        return table.expired > before

    def forget_gone(self, keys: Iterable[bytes]) -> None:
        """Entries went: forget who held them, unless somebody has the place again."""
        table = self._tables.find(LEASES)
        for key in keys:
            held = self._by_key.get(key)
            if held is not None and (table is None or table.entries.get(key) is None):
                self._forget(held)

    def count_skip(self, name: str) -> None:
        """Somebody was turned away."""
        self._skipped[name] = self._skipped.pop(name, 0) + 1
        if len(self._skipped) > _MOST_COUNTED:
            del self._skipped[next(iter(self._skipped))]

    def wait_s(self, name: str, places: int, now: float) -> float | None:
        """Return when the next place is free if nobody renews or gives back; None: one is."""
        table = self._tables.find(LEASES)
        entries = [] if table is None else [table.peek(key_bytes((name, place)), now) for place in range(places)]
        spans = [entry.expires_at - now for entry in entries if entry is not None]
        return min(spans) if len(spans) == places else None

    def info(self, name: str, now: float) -> Mapping[str, Any]:
        """Return who holds a lease, as plain values: ``holders``, each with its fencing number and time left."""
        table = self._tables.find(LEASES)
        holders = []
        for held in self._by_key.values():
            entry = None if table is None else table.peek(held.key, now)
            if entry is not None and name_of_lease(held.key) == name:
                holders.append({"fencing": held.fencing, "expires_in_s": entry.expires_at - now})
        return {"name": name, "holders": holders, "skipped": self._skipped.get(name, 0)}

    def restore(self) -> None:
        """Learn of the leases that stand in the table: of before a restart. Their holders may yet renew them."""
        table = self._tables.find(LEASES)
        for _, key, entry in [] if table is None else list(table.entries.after(None)):
            value = entry.value
            if key in self._by_key or not isinstance(value, bytes):
                continue
            try:
                said = decode_body(value)
                self._note(_Held(key, str(said["token"]), int(said["fencing"]), None))
            except (DirtyError, KeyError, TypeError, ValueError):
                self._made(LEASES).delete(key, 0.0)  # it is of a later version of ours; nobody here could renew it

    # --- inside ---

    def _made(self, name: str) -> Table:
        return self._tables.made(name, is_ours=True)

    def _standing(self, name: str, token: str, now: float) -> tuple[_Held | None, Entry | None]:
        held = self._by_token.get(token)
        if held is None or name_of_lease(held.key) != name:
            return None, None
        entry = self._entry_of(held, now)
        if entry is None:
            self._forget(held)
        return held, entry

    def _entry_of(self, held: _Held, now: float) -> Entry | None:
        """Return the entry, if it is still that of this holder."""
        table = self._tables.find(LEASES)
        return None if table is None or self._by_key.get(held.key) is not held else table.peek(held.key, now)

    def _note(self, held: _Held) -> None:
        before = self._by_key.get(held.key)
        if before is not None:
            self._forget(before)
        self._by_key[held.key] = self._by_token[held.token] = held
        self._by_caller.setdefault(held.caller, set()).add(held.token)

    def _forget(self, held: _Held) -> None:
        if self._by_key.get(held.key) is held:
            del self._by_key[held.key]
        self._by_token.pop(held.token, None)
        tokens = self._by_caller.get(held.caller)
        if tokens is not None:
            tokens.discard(held.token)
            if not tokens:
                del self._by_caller[held.caller]


def name_of_lease(key: bytes) -> str:
    """Return the name under which a lease stands."""
    name, _ = decode_body(key)
    return str(name)
