"""Short words for the pool's tests: pools that are ready, calls by number, orders by kind."""

from __future__ import annotations

from typing import Any, TypeVar

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import Pool
from dirtybus.pool.model import Call, CallId, WorkerId
from dirtybus.pool.ports import Order, Ready, Spawn, Submitted, Ticked

APP = "m:App"
T = TypeVar("T")


def specs(*texts: str) -> list[AppSpec]:
    return [AppSpec.parse(text) for text in texts or (APP,)]


def new_pool(*apps: str, **settings: Any) -> Pool:
    return Pool(DirtyConfig(**settings), specs(*apps))


def ready_pool(*apps: str, **settings: Any) -> Pool:
    """Return a pool whose workers all became ready at 0.0."""
    pool = new_pool(*apps, **settings)
    boot(pool, pool.step(Ticked(), 0.0), now=0.0)
    return pool


def boot(pool: Pool, orders: list[Order], *, now: float) -> None:
    for spawn in only(Spawn, orders):
        pool.step(Ready(spawn.worker), now)


def call(number: int, app: str = APP, **fields: Any) -> Call:
    return Call(id=CallId(number), app=app, **fields)


def submit(pool: Pool, *calls: Call | int, now: float = 0.0) -> list[Order]:
    orders: list[Order] = []
    for each in calls:
        orders += pool.step(Submitted(call(each) if isinstance(each, int) else each), now)
    return orders


def only(kind: type[T], orders: list[Order]) -> list[T]:
    return [order for order in orders if isinstance(order, kind)]


W1, W2, W3, W4 = (WorkerId(n) for n in (1, 2, 3, 4))
C1, C2, C3, C4 = (CallId(n) for n in (1, 2, 3, 4))
