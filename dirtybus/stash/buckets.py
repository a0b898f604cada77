"""A dictionary that grows a little at a time. Knows keys and what stands under them, not what it is for."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

__all__ = ["SPLIT_AT", "Bucket", "Buckets", "alarm_of", "key_of_alarm", "moment_of_alarm"]

V = TypeVar("V")

#: A bucket with more entries than this is split in two.
SPLIT_AT: Final = 4096
#: as the clocks that count here begin at 0, this sorts as the moments do
_MOMENT: Final = struct.Struct(">d")
_LOWEST: Final = -(2**63)
_BEYOND: Final = 2**63


def alarm_of(at: float, key: bytes) -> bytes:
    """Return an alarm for a key: bytes, of which the earlier are the lesser, and which no garbage collection visits."""
    return _MOMENT.pack(at) + key


def moment_of_alarm(alarm: bytes) -> float:
    """Return when an alarm rings."""
    moment: float = _MOMENT.unpack_from(alarm)[0]
    return moment


def key_of_alarm(alarm: bytes) -> bytes:
    """Return whose alarm it is."""
    return alarm[_MOMENT.size :]


class Bucket(Generic[V]):
    """The entries whose keys hash into one interval, in the order they came; ``alarms`` is for whoever expires them."""

    __slots__ = ("alarms", "entries")

    def __init__(self) -> None:
        self.entries: dict[bytes, V] = {}
        self.alarms: list[bytes] = []

    def first(self, but: bytes) -> tuple[bytes, V] | None:
        """Return the entry that came first, passing by one key; None if there is no other."""
        return next((pair for pair in self.entries.items() if pair[0] != but), None)


class Buckets(Generic[V]):
    """A mapping from bytes, as good as a dict, of which no operation takes longer the more it holds.

    A dict of a million entries is copied as a whole, for tens of milliseconds, when it grows. This one keeps its
    entries in buckets, each of which owns an interval of the keys' hashes: one that is full is split in the middle. The
    intervals keep their order, so a walk by hash can stop anywhere and go on later, over splits in between.
    """

    __slots__ = ("_buckets", "_count", "_starts")

    def __init__(self) -> None:
        self._starts = [_LOWEST]
        self._buckets: list[Bucket[V]] = [Bucket()]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: bytes) -> bool:
        return key in self.bucket_of(key).entries

    def bucket_of(self, key: bytes) -> Bucket[V]:
        """Return the bucket in which ``key`` stands or would stand."""
        if len(self._buckets) == 1:
            return self._buckets[0]
        return self._buckets[bisect_right(self._starts, hash(key)) - 1]

    def get(self, key: bytes) -> V | None:
        return self.bucket_of(key).entries.get(key)

    def put(self, key: bytes, value: V) -> Bucket[V]:
        """Store ``value`` and return the bucket that has it now."""
        bucket = self.bucket_of(key)
        before = len(bucket.entries)
        bucket.entries[key] = value
        self._count += len(bucket.entries) - before
        if len(bucket.entries) <= SPLIT_AT:
            return bucket
        self._split(bisect_right(self._starts, hash(key)) - 1)
        return self.bucket_of(key)

    def pop(self, key: bytes) -> V | None:
        """Remove ``key`` and return what stood there, or None."""
        value = self.bucket_of(key).entries.pop(key, None)
        if value is not None:
            self._count -= 1
        return value

    def popitem(self) -> None:
        """Remove some entry, of a mapping that is given up: it gives up its buckets too.

        Raises:
            IndexError: it is empty.
        """
        while not self._buckets[-1].entries:
            self._buckets.pop()
        self._buckets[-1].entries.popitem()
        self._count -= 1

    @property
    def all(self) -> list[Bucket[V]]:
        """All buckets, in the order of their intervals; not to be changed."""
        return self._buckets

    def __iter__(self) -> Iterator[bytes]:
        for bucket in self._buckets:
            yield from bucket.entries

    def after(self, cursor: int | None) -> Iterator[tuple[int, bytes, V]]:
        """Walk by hash, from the first one above ``cursor`` on: hash, key, value. Change nothing meanwhile."""
        first = _LOWEST - 1 if cursor is None else cursor
        start = max(0, bisect_right(self._starts, first) - 1)
        for bucket in self._buckets[start:]:
            hashes = sorted((number, key) for key in bucket.entries if (number := hash(key)) > first)
            for number, key in hashes:
                yield number, key, bucket.entries[key]

    def _split(self, index: int) -> None:
        low = self._starts[index]
        high = self._starts[index + 1] if index + 1 < len(self._starts) else _BEYOND
        if high - low < 2:
            return  # all of one hash: keys made to collide, which hashes with a secret do not allow
        middle = (low + high) // 2
        old, upper, lower = self._buckets[index], Bucket[V](), Bucket[V]()
        for key, value in old.entries.items():
            (upper if hash(key) >= middle else lower).entries[key] = value
        for alarm in old.alarms:  # either half of a heap may be no heap: they are sorted
            (upper if hash(key_of_alarm(alarm)) >= middle else lower).alarms.append(alarm)
        upper.alarms.sort()
        lower.alarms.sort()
        self._starts.insert(index + 1, middle)
        self._buckets[index : index + 1] = [lower, upper]
