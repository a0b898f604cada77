"""What a ProcessLocker costs for each event: the same events without one, with one, and through its queue."""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from graia.broadcast import Broadcast
from graia.broadcast.builtin.depend import Depend
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.locker import ProcessLocker

CASES: dict[str, Callable[[], ProcessLocker | None]] = {
    "no locker": lambda: None,
    "locker, room for all": lambda: ProcessLocker(None, opened=True),
    "locker, 10 at a time": lambda: ProcessLocker(10, opened=True),
}


class Tick(Dispatchable):
    class Dispatcher(BaseDispatcher):
        @classmethod
        async def catch(cls, interface: DispatcherInterface[Any]) -> None:
            return None


async def need() -> int:
    return 1


async def plain() -> None:
    return None


async def needing(needed: Any = Depend(need)) -> None:  # noqa: B008 - graia's way to say it
    return None


async def measure(locker: ProcessLocker | None, listener: Callable[..., Any], events: int) -> float:
    """Return the CPU time for each event in microseconds, a hundred of them at a time."""
    make: Any = Broadcast
    broadcast: Broadcast = make()
    # its own loop and task set: creart caches the first loop, and the class shares one set
    vars(broadcast).update(_loop=asyncio.get_running_loop(), _background_tasks=set())
    if locker is not None:
        broadcast.prelude_dispatchers.append(locker)
    broadcast.receiver(Tick)(listener)
    gc.collect()
    begun_at = time.process_time()
    for _ in range(events // 100):
        await asyncio.gather(*(broadcast.postEvent(Tick()) for _ in range(100)))
    return (time.process_time() - begun_at) / events * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2000, help="events a round")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds, of which the median counts")
    options = parser.parse_args()
    for listener in (plain, needing):
        times: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(options.rounds):
            for name, make_locker in CASES.items():
                times[name].append(asyncio.run(measure(make_locker(), listener, options.events)))
        base = statistics.median(times["no locker"])
        for name, spent in times.items():
            median = statistics.median(spent)
            print(f"{listener.__name__:8} {name:22} {median:6.1f} us an event, ratio {median / base:.2f}")


if __name__ == "__main__":
    main()
