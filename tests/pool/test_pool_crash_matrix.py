"""A worker dies: at every moment of a call, with every sort of call. loky's table of faults, asked of the pure pool.

Each row is what is ordered for the call upon the exit, and what becomes of it when the next worker is ready.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dirtybus.pool import Pool
from dirtybus.pool.model import Call, Refusal
from dirtybus.pool.ports import (
    CancelRequested,
    Dispatch,
    Exited,
    Finished,
    Interrupt,
    Order,
    Ready,
    Refuse,
    Resized,
    Retire,
    Spawn,
    Streamed,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, W1, W2, W3, call, new_pool, ready_pool, submit

LOST = Refuse(C1, Refusal.WORKER_LOST, W1, 1)
POISONED = Refuse(C1, Refusal.POISONED, W1, 1)
FIRST_RUN, SECOND_RUN = Dispatch(W2, C1, 1), Dispatch(W2, C1, 2)

PLAIN, IDEMPOTENT = "plain", "idempotent"
EXPIRED, EXPIRED_IDEMPOTENT = "expired meanwhile", "idempotent, expired meanwhile"
CANCELLED, CANCELLED_IDEMPOTENT = "cancelled meanwhile", "idempotent, cancelled meanwhile"
AT_THE_LIMIT = "idempotent, at the crash limit"


def new_call(sort: str) -> Call:
    """Return the call of that sort; its deadline, if any, is 2.0."""
    return call(1, idempotent=IDEMPOTENT in sort, expires_at=2.0 if "expired" in sort else None)


def meanwhile(pool: Pool, sort: str) -> list[Order]:
    """Let happen what the sort says, and return what is ordered."""
    if "cancelled" in sort:
        return pool.step(CancelRequested(C1), 2.0)
    return pool.step(Ticked(), 2.0)


def limit(sort: str) -> int:
    return 1 if sort == AT_THE_LIMIT else 3


# --- the call is in the worker ---


def unbegun(pool: Pool) -> list[Order]:
    return pool.step(Exited(W1, frozenset({C1})), 3.0)


def running(pool: Pool) -> list[Order]:
    return pool.step(Exited(W1), 3.0)


def streaming(pool: Pool) -> list[Order]:
    pool.step(Streamed(C1), 2.5)
    return pool.step(Exited(W1), 3.0)


def answered(pool: Pool) -> list[Order]:
    assert pool.step(Finished(W1, C1), 2.5) == []
    return pool.step(Exited(W1), 3.0)


#: nobody waits for it any more: it has been told, whatever the worker does
TOLD: list[Order] = []

WITH_A_CALL: list[tuple[Callable[[Pool], list[Order]], str, list[Order], list[Order]]] = [
    (unbegun, PLAIN, [], [FIRST_RUN]),
    (unbegun, IDEMPOTENT, [], [FIRST_RUN]),
    (unbegun, EXPIRED, TOLD, []),
    (unbegun, EXPIRED_IDEMPOTENT, TOLD, []),
    (unbegun, CANCELLED, TOLD, []),
    (unbegun, CANCELLED_IDEMPOTENT, TOLD, []),
    (unbegun, AT_THE_LIMIT, [], [FIRST_RUN]),
    (running, PLAIN, [LOST], []),
    (running, IDEMPOTENT, [], [SECOND_RUN]),
    (running, EXPIRED, TOLD, []),
    (running, EXPIRED_IDEMPOTENT, TOLD, []),
    (running, CANCELLED, TOLD, []),
    (running, CANCELLED_IDEMPOTENT, TOLD, []),
    (running, AT_THE_LIMIT, [POISONED], []),
    (streaming, PLAIN, [LOST], []),
    (streaming, IDEMPOTENT, [LOST], []),
    (streaming, EXPIRED, TOLD, []),
    (streaming, EXPIRED_IDEMPOTENT, TOLD, []),
    (streaming, CANCELLED, TOLD, []),
    (streaming, CANCELLED_IDEMPOTENT, TOLD, []),
    (streaming, AT_THE_LIMIT, [POISONED], []),
    (answered, PLAIN, [], []),
    (answered, IDEMPOTENT, [], []),
    (answered, EXPIRED, TOLD, []),
    (answered, EXPIRED_IDEMPOTENT, TOLD, []),
    (answered, CANCELLED, TOLD, []),
    (answered, CANCELLED_IDEMPOTENT, TOLD, []),
    (answered, AT_THE_LIMIT, [], []),
]


@pytest.mark.parametrize(("death", "sort", "at_exit", "afterwards"), WITH_A_CALL)
def test_a_worker_dies_with_a_call(
    death: Callable[[Pool], list[Order]], sort: str, at_exit: list[Order], afterwards: list[Order]
) -> None:
    pool = ready_pool(crash_limit=limit(sort), cancel_grace_s=5.0)
    assert submit(pool, new_call(sort)) == [Dispatch(W1, C1, 1)]
    told = {EXPIRED: Refusal.TIMED_OUT, CANCELLED: Refusal.CANCELLED}.get(sort.removeprefix("idempotent, "))
    expected = [] if told is None else [Refuse(C1, told, W1, 1), Interrupt(W1, C1)]
    assert meanwhile(pool, sort) == expected
    assert death(pool) == [*at_exit, Spawn(W2, (APP,))]
    assert pool.step(Ready(W2), 4.0) == afterwards
    pool.check_invariants()


@pytest.mark.parametrize("sort", [PLAIN, IDEMPOTENT])
def test_a_call_whose_deadline_is_the_moment_of_the_exit_is_not_run_again(sort: str) -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=sort == IDEMPOTENT, expires_at=3.0))
    assert running(pool) == [LOST, Spawn(W2, (APP,))]


# --- the call waits, and a worker without it dies ---


def idle_death() -> tuple[Pool, list[Order]]:
    """Return a pool whose worker died idle, and what is ordered."""
    pool = ready_pool(crash_limit=1, restart_delay_s=0.0)
    return pool, pool.step(Exited(W1), 0.0)


def boot_death() -> tuple[Pool, list[Order]]:
    """The same for a worker that was about to be ready."""
    pool = new_pool(crash_limit=1, restart_delay_s=0.0)
    pool.step(Ticked(), 0.0)
    return pool, pool.step(Exited(W1), 0.0)


WITHOUT_A_CALL: list[tuple[str, list[Order], list[Order]]] = [
    (PLAIN, [], [FIRST_RUN]),
    (IDEMPOTENT, [], [FIRST_RUN]),
    (EXPIRED, [Refuse(C1, Refusal.EXPIRED)], []),
    (EXPIRED_IDEMPOTENT, [Refuse(C1, Refusal.EXPIRED)], []),
    (CANCELLED, [Refuse(C1, Refusal.CANCELLED)], []),
    (CANCELLED_IDEMPOTENT, [Refuse(C1, Refusal.CANCELLED)], []),
    (AT_THE_LIMIT, [], [FIRST_RUN]),
]


@pytest.mark.parametrize("death", [idle_death, boot_death])
@pytest.mark.parametrize(("sort", "told", "afterwards"), WITHOUT_A_CALL)
def test_a_worker_dies_idle_or_booting_and_the_next_call_waits_for_another(
    death: Callable[[], tuple[Pool, list[Order]]], sort: str, told: list[Order], afterwards: list[Order]
) -> None:
    pool, orders = death()
    assert orders == [Spawn(W2, (APP,))]
    assert submit(pool, new_call(sort)) == []
    assert meanwhile(pool, sort) == told
    assert pool.step(Ready(W2), 3.0) == afterwards


@pytest.mark.parametrize(("sort", "told", "afterwards"), WITHOUT_A_CALL)
def test_a_worker_dies_booting_and_the_call_that_waits_for_it_waits_for_the_next(
    sort: str, told: list[Order], afterwards: list[Order]
) -> None:
    pool = new_pool(crash_limit=limit(sort))
    submit(pool, new_call(sort))
    assert meanwhile(pool, sort) == told
    assert pool.step(Exited(W1), 3.0) == [Spawn(W2, (APP,))]
    assert pool.step(Ready(W2), 4.0) == afterwards


# --- the worker is on its way out ---

SECOND_LOST = Refuse(C2, Refusal.WORKER_LOST, W2, 1)
DRAINING: list[tuple[str, list[Order], list[Order]]] = [
    (PLAIN, [SECOND_LOST], []),
    (IDEMPOTENT, [], [Dispatch(W1, C2, 2)]),
    (AT_THE_LIMIT, [Refuse(C2, Refusal.POISONED, W2, 1)], []),
    ("expired meanwhile", [], []),
    ("cancelled meanwhile", [], []),
]


@pytest.mark.parametrize(("sort", "at_exit", "afterwards"), DRAINING)
def test_a_worker_dies_while_it_ends_its_last_call(sort: str, at_exit: list[Order], afterwards: list[Order]) -> None:
    pool = ready_pool(workers=2, crash_limit=limit(sort), cancel_grace_s=5.0)
    submit(pool, 1, call(2, idempotent=IDEMPOTENT in sort, expires_at=2.0 if "expired" in sort else None))
    pool.step(Resized(1), 1.0)
    pool.step(CancelRequested(C2) if "cancelled" in sort else Ticked(), 2.0)
    assert pool.step(Exited(W2), 3.0) == at_exit, "nobody takes its place"
    assert pool.step(Finished(W1, C1), 4.0) == afterwards


def test_a_worker_dies_after_it_was_told_to_leave() -> None:
    pool = ready_pool(workers=3)
    assert pool.step(Resized(2), 1.0) == [Retire(W3)]
    assert pool.step(Exited(W3), 1.0) == []
