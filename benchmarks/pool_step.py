"""How long one step of the pool takes: a call handed in, and a call finished, for idle and for full pools.

Run it with ``python -m benchmarks.pool_step``; it takes a few seconds and needs no process and no socket.
"""

from __future__ import annotations

from itertools import count
from statistics import median
from time import perf_counter_ns

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import Pool
from dirtybus.pool.model import Call, CallId
from dirtybus.pool.ports import Dispatch, Fact, Finished, Order, Ready, Spawn, Submitted, Ticked

APP = "bench:App"
ROUNDS = 5_000


class Clocked:
    """A pool whose steps are timed, with a wake-up question after each, as the arbiter asks it."""

    def __init__(self, *, workers: int, queued: int) -> None:
        self.pool = Pool(DirtyConfig(workers=workers), [AppSpec(APP)])
        self.numbers = count(1)
        self.running: list[Dispatch] = []
        self.spent_ns: list[int] = []
        for order in self.step(Ticked()):
            if isinstance(order, Spawn):
                self.step(Ready(order.worker))
        for _ in range(workers + queued if queued else workers // 2):
            self.submit()

    def step(self, fact: Fact) -> list[Order]:
        begun_ns = perf_counter_ns()
        orders = self.pool.step(fact, 1.0)
        self.pool.wake_at()
        self.spent_ns.append(perf_counter_ns() - begun_ns)
        self.running += [order for order in orders if isinstance(order, Dispatch)]
        return orders

    def submit(self) -> None:
        self.step(Submitted(Call(id=CallId(next(self.numbers)), app=APP, expires_at=300.0)))

    def finish(self) -> None:
        done = self.running.pop(0)
        self.step(Finished(done.worker, done.call))


def measure(*, workers: int, queued: int) -> tuple[float, float]:
    """Return the median microseconds of handing in and of finishing, at a constant load."""
    clocked = Clocked(workers=workers, queued=queued)
    clocked.spent_ns.clear()
    for _ in range(ROUNDS):
        clocked.submit()
        clocked.finish()
    return median(clocked.spent_ns[0::2]) / 1000, median(clocked.spent_ns[1::2]) / 1000


def main() -> None:
    print("workers  queued  submitted µs  finished µs")
    for workers in (1, 200):
        for queued in (0, 10_000):
            submitted_us, finished_us = measure(workers=workers, queued=queued)
            print(f"{workers:7}  {queued:6}  {submitted_us:12.1f}  {finished_us:11.1f}")


if __name__ == "__main__":
    main()
