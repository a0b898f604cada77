"""The loads on a stash: one entry at a time, counters, a thousand entries a call. Run wherever the contestant is.

Knows no contestant: ``get`` and ``put`` are measured, and ``incr``, ``get_many`` and ``put_many`` where they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from benchmarks.load import Burst, call_async, call_sync
from benchmarks.plan import Bounds

__all__ = ["TABLE", "Found", "StashPlan", "measure_async", "measure_sync"]

TABLE: Final = "bench"
#: by their size in bytes
_VALUES: Final[Mapping[int, str]] = {11: "value 12345", 1024: "x" * 1024}
_MANY_KEYS: Final = 1000
_WARM_UP: Final = Bounds(calls=100, span_s=0.1)

Found = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StashPlan:
    """How much one visit measures: where each load ends, and how many operations are under way in the crowded ones."""

    calls: int
    span_s: float
    in_flight: int = 8

    def as_mapping(self) -> dict[str, Any]:
        """Return what the constructor takes, in plain values."""
        return asdict(self)

    @property
    def bounds(self) -> Bounds:
        return Bounds(calls=self.calls, span_s=self.span_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    name: str
    size_bytes: int
    keys: int
    call: Callable[[], Any]

    def found(self, burst: Burst, in_flight: int) -> Found:
        return {
            "load": self.name,
            "size_bytes": self.size_bytes,
            "keys": self.keys,
            "in_flight": in_flight,
            "p50_us": burst.p50_us,
            "ops_per_s": burst.calls_per_s * self.keys,
        }


def measure_sync(stash: Any, plan: StashPlan) -> list[Found]:
    """Measure functions that block: by one thread, then by several."""
    found = []
    for in_flight in _crowds(plan):
        for load in _loads(stash):
            if in_flight > 1 and load.keys > 1:
                continue
            call_sync([load.call], _WARM_UP)
            found.append(load.found(call_sync([load.call] * in_flight, plan.bounds), in_flight))
    return found


async def measure_async(stash: Any, plan: StashPlan) -> list[Found]:
    """As `measure_sync`, for functions to be awaited: by one task, then by several."""
    found = []
    for in_flight in _crowds(plan):
        for load in _loads(stash):
            if in_flight > 1 and load.keys > 1:
                continue
            await call_async([load.call], _WARM_UP)
            found.append(load.found(await call_async([load.call] * in_flight, plan.bounds), in_flight))
    return found


def _crowds(plan: StashPlan) -> Sequence[int]:
    # the lone one first: threads that were once started may change how a contestant works from then on
    return [1, plan.in_flight] if plan.in_flight > 1 else [1]


def _loads(stash: Any) -> Iterator[_Load]:
    """Yield the loads in an order in which what is read has been written."""
    for size, value in _VALUES.items():
        key, many = f"key:{size}", {f"key:{size}:{number}": value for number in range(_MANY_KEYS)}
        one = partial(_Load, size_bytes=size, keys=1)
        yield one(name="put", call=partial(stash.put, TABLE, key, value))
        yield one(name="get", call=partial(stash.get, TABLE, key))
        if hasattr(stash, "put_many") and hasattr(stash, "get_many"):
            several = partial(_Load, size_bytes=size, keys=_MANY_KEYS)
            yield several(name="put_many", call=partial(stash.put_many, TABLE, many))
            yield several(name="get_many", call=partial(stash.get_many, TABLE, list(many)))
    if hasattr(stash, "incr"):
        yield _Load(name="incr", size_bytes=0, keys=1, call=partial(stash.incr, TABLE, "counter"))
