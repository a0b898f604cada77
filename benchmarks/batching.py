"""What running calls together gains, beside what a straight line through small batches predicts; and what it costs.

Run it with ``python -m benchmarks.batching``; it takes about fifteen seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median
from time import perf_counter

from benchmarks.subjects.batched import MAX_WAIT_S, Model
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig
from dirtybus.pool.fit import LineFit

APP = f"{Model.__module__}:{Model.__qualname__}"
SIZES = (2, 4, 8)
LARGE = 32
ROUNDS = 3
LONE_CALLS = 40


async def rate(arbiter: Arbiter, action: str, *, callers: int, each: int) -> float:
    """Return the calls per second of callers that call again as soon as they are answered."""

    async def call_on() -> None:
        for number in range(each):
            await arbiter.call(APP, action, number)

    began_at = perf_counter()
    await asyncio.gather(*(call_on() for _ in range(callers)))
    return callers * each / (perf_counter() - began_at)


async def lone_s(arbiter: Arbiter, action: str) -> float:
    """Return the median seconds of a call that has no company."""
    took: list[float] = []
    for number in range(LONE_CALLS):
        began_at = perf_counter()
        await arbiter.call(APP, action, number)
        took.append(perf_counter() - began_at)
    return median(took)


async def gain(arbiter: Arbiter) -> tuple[float, float, float]:
    """Return the calls per second one by one, together, and together as predicted."""
    alone = await rate(arbiter, "alone", callers=8, each=15)
    fit = LineFit()
    fit.note(1, 1 / alone)
    for size in SIZES:
        fit.note(size, size / await rate(arbiter, f"by_{size}", callers=2 * size, each=20))
    a, b = fit.line()
    return alone, await rate(arbiter, f"by_{LARGE}", callers=2 * LARGE, each=20), LARGE / (a * LARGE + b)


async def cost(arbiter: Arbiter) -> float:
    """Return by how many seconds a lone call takes longer where it may wait for company."""
    return await lone_s(arbiter, f"by_{LARGE}") - await lone_s(arbiter, "alone")


async def measure() -> tuple[Sequence[tuple[float, float, float]], Sequence[float], Sequence[float]]:
    """Return the gains, the costs, and the rates under a latency target, of each round."""
    arbiter = Arbiter(DirtyConfig.of(APP, workers=1))
    try:
        await arbiter.listen()
        await arbiter.start()
        arbiter.admit()
        await rate(arbiter, "within_25_ms", callers=64, each=10)  # it learns how large its batches may be
        gains, costs, targeted = [], [], []
        for _ in range(ROUNDS):
            gains.append(await gain(arbiter))
            costs.append(await cost(arbiter))
            targeted.append(await rate(arbiter, "within_25_ms", callers=64, each=20))
        return gains, costs, targeted
    finally:
        await arbiter.close()


def main() -> None:
    gains, costs, targeted = asyncio.run(measure())
    together = median(together / alone for alone, together, _ in gains)
    predicted = median(predicted / alone for alone, _, predicted in gains)
    ratio = median(together / predicted for _, together, predicted in gains)
    within = median(rate / alone for rate, (alone, _, _) in zip(targeted, gains, strict=True))
    print(f"calls/s in batches of {LARGE}, over one by one:      {together:.2f} x")
    print(f"the same, as batches of 1 to {SIZES[-1]} predict it:      {predicted:.2f} x")
    print(f"measured over predicted:                     {ratio:.2f}")
    print(f"calls/s with target=25 ms, over one by one:  {within:.2f} x")
    print(f"a lone call's extra time, over max_wait:     {median(costs) / MAX_WAIT_S:.2f}")


if __name__ == "__main__":
    main()
