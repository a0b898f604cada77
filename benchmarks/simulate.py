"""Simulate pools on a clock of their own: fixed ones beside elastic ones, and a large one for the cost of decisions.

The pool is the one of the product; processes are moments in a heap. ``python -m benchmarks.simulate`` compares what
each pool costs (worker-seconds) with the 99th percentile of what callers wait, for traffic of three shapes or for a
recording (``--trace FILE``, a CSV of arrival_s and duration_s); ``--large`` runs 1,000,000 calls over 1,000 workers.
"""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count, islice
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from benchmarks.traffic import SHAPES, Arrival, constant, recorded, shaped
from dirtybus.config import AppSpec, DirtyConfig, ScalingConfig
from dirtybus.pool import Pool, ports
from dirtybus.pool.model import Call, CallId, WorkerId
from dirtybus.pool.target import Load, TargetTracking

APP = "simulated:App"
BOOT_S = 2.0
LEAVE_S = 0.05
MEAN_S = 0.25
SPAN_S = 1800.0


@dataclass
class Result:
    """What a pool made of the traffic."""

    calls: int = 0
    lost: int = 0
    cost_s: float = 0.0
    most: int = 0
    latencies_s: list[float] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)

    @property
    def p99_s(self) -> float:
        return quantiles(self.waits_s, n=100)[98]


class Simulation:
    """One pool on a virtual clock.

    Args:
        config: its settings; ``scaling`` is followed as `ScaleService` does.
        boot_s: how long a worker boots.
    """

    def __init__(self, config: DirtyConfig, *, boot_s: float = BOOT_S) -> None:
        self._config = config
        self._boot_s = boot_s
        self._pool = Pool(config, [AppSpec(APP)])
        self._heap: list[tuple[float, int, ports.Fact]] = []
        self._next = count()
        self._arrivals: dict[CallId, Arrival] = {}
        self._born: dict[WorkerId, float] = {}
        self._queued = self._running = 0
        self.result = Result()
        least, most = config.pool_size or (config.workers, config.workers)
        self._policy = TargetTracking(config.scaling, least, most) if config.scaling.policy == "target" else None

    def run(self, traffic: Iterable[Arrival]) -> Result:
        """Run the traffic to its last answer; the workers that are there at the end are paid until then."""
        arrivals = iter(traffic)
        now = look_at = 0.0
        self._step(ports.Ticked(), now)
        coming = next(arrivals, None)
        while coming is not None or self._arrivals:
            at = self._heap[0][0] if self._heap else math.inf
            wake_at = self._pool.wake_at()
            if coming is not None and coming[0] <= at and coming[0] <= (wake_at or math.inf):
                now = coming[0]
                self._arrive(coming)
                coming = next(arrivals, None)
            elif wake_at is not None and wake_at < at:
                now = max(now, wake_at)
                self._step(ports.Ticked(), now)
            else:
                now, _, fact = heappop(self._heap)
                self._take(fact, now)
            if self._policy is not None and now >= look_at:
                self._look(now)
                look_at = now + self._config.scaling.interval_s
        self.result.cost_s += sum(now - born for born in self._born.values())
        return self.result

    def _arrive(self, arrival: Arrival) -> None:
        self.result.calls += 1
        call_id = CallId(self.result.calls)
        self._arrivals[call_id] = arrival
        self._queued += 1
        self._step(ports.Submitted(Call(id=call_id, app=APP)), arrival[0])

    def _take(self, fact: ports.Fact, now: float) -> None:
        if isinstance(fact, ports.Finished):
            self._running -= 1
            self.result.latencies_s.append(now - self._arrivals.pop(fact.call)[0])
        elif isinstance(fact, ports.Exited):
            self.result.cost_s += now - self._born.pop(fact.worker)
        self._step(fact, now)

    def _step(self, fact: ports.Fact, now: float) -> None:
        for order in self._pool.step(fact, now):
            match order:
                case ports.Dispatch(worker, call, _):
                    arrived_at, duration_s = self._arrivals[call]
                    self._queued -= 1
                    self._running += 1
                    self.result.waits_s.append(now - arrived_at)
                    self._push(now + duration_s, ports.Finished(worker, call))
                case ports.Spawn(worker):
                    self._born[worker] = now
                    self.result.most = max(self.result.most, len(self._born))
                    self._push(now + self._boot_s, ports.Ready(worker))
                case ports.Retire(worker) | ports.Kill(worker):
                    self._push(now + LEAVE_S, ports.Exited(worker))
                case ports.Refuse(call):
                    self.result.lost += 1
                    del self._arrivals[call]

    def _push(self, at: float, fact: ports.Fact) -> None:
        heappush(self._heap, (at, next(self._next), fact))

    def _look(self, now: float) -> None:
        assert self._policy is not None
        size, threads = self._pool.size, self._config.threads
        advice = self._policy.look(Load(at=now, size=size, threads=threads, busy=self._running, queued=self._queued))
        if advice is not None:
            self._step(ports.Resized(advice.workers), now)


def pools(most: int) -> Iterator[tuple[str, DirtyConfig]]:
    """Yield fixed pools of several sizes, and elastic ones up to the largest of them."""
    for workers in (most // 4, most // 2, most):
        yield f"fixed, {workers}", DirtyConfig(workers=workers, timeout_s=None)
    elastic = DirtyConfig(pool_size=(1, most), timeout_s=None, max_idle_time_s=30.0, scale_up_after_s=0.1)
    yield f"elastic, 1-{most}", elastic
    target = ScalingConfig(policy="target", target_busy=0.6)
    yield f"elastic, target, 1-{most}", replace(elastic, scaling=target)
    yield f"elastic, 0-{most}", replace(elastic, pool_size=(0, most))


def compare(name: str, traffic: list[Arrival], most: int = 12) -> None:
    """Print one row for each pool: what it costs, also in proportion to the largest fixed one, and the waits."""
    print(f"\n{name}: {len(traffic)} calls of {sum(d for _, d in traffic) / len(traffic):.2f} s, boot {BOOT_S:g} s")
    print(f"  {'pool':24} {'workers':>7} {'worker-s':>9} {'of fixed':>8} {'mean wait':>9} {'p99 wait':>9}  lost")
    results = {pool: Simulation(config).run(traffic) for pool, config in pools(most)}
    largest = results[f"fixed, {most}"]
    for pool, result in results.items():
        mean_s = sum(result.waits_s) / len(result.waits_s)
        share = result.cost_s / largest.cost_s
        print(
            f"  {pool:24} {result.most:7} {result.cost_s:9.0f} {share:7.0%} {mean_s:8.3f}s {result.p99_s:8.2f}s "
            f"{result.lost:5}"
        )


def large(workers: int = 1_000, calls: int = 1_000_000) -> None:
    """Print how long the decisions of a large pool take, beside a loop that only moves the same moments."""
    rate = workers / MEAN_S * 0.9
    traffic = list(islice(constant(rate, calls / rate * 1.1, MEAN_S, seed=1), calls))
    gc.freeze()
    simulation = Simulation(DirtyConfig(workers=workers, timeout_s=None, max_queued=calls), boot_s=0.0)
    begun = perf_counter()
    result = simulation.run(traffic)
    took_s = perf_counter() - begun
    begun = perf_counter()
    heap: list[tuple[float, int, str]] = []
    for number, (at, duration_s) in enumerate(traffic):
        while heap and heap[0][0] <= at:
            heappop(heap)
        heappush(heap, (at + duration_s, number, "finished"))
    bare_s = perf_counter() - begun
    assert result.calls == calls
    assert not result.lost
    print(
        f"{calls:,} calls over {workers:,} workers, {2 * calls:,} facts: {took_s:.0f} s, {took_s / bare_s:.0f} x a "
        f"loop that only moves the same moments; p99 of the wait {result.p99_s * 1000:.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="a recording instead of the three shapes")
    parser.add_argument("--large", action="store_true", help="1,000 workers and 1,000,000 calls")
    options = parser.parse_args()
    if options.large:
        large()
    elif options.trace is not None:
        compare(options.trace.name, list(recorded(options.trace)))
    else:
        for name, (rate, peak) in SHAPES.items():
            compare(name, list(shaped(rate, peak, SPAN_S, MEAN_S, seed=20261130)))


if __name__ == "__main__":
    main()
