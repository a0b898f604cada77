from __future__ import annotations

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import ActionKind, CallId, Waiting
from dirtybus.pool.queue import CallQueue
from tests.pool.boxes import C1, C2, C3, call

A = ("m:A", ActionKind.SYNC)
B = ("m:B", ActionKind.SYNC)


def queue_of(*apps: str, max_queued: int = 100) -> CallQueue:
    queue = CallQueue(DirtyConfig(max_queued=max_queued))
    for number, app in enumerate(apps, start=1):
        queue.put(queue.number(call(number, app)))
    return queue


def take_ids(queue: CallQueue, *lanes: tuple[str, ActionKind]) -> list[int]:
    taken: list[int] = []
    while waiting := queue.take(lanes):
        taken.append(waiting.call.id)
    queue.check()
    return taken


def test_calls_of_one_lane_come_out_as_they_came() -> None:
    assert take_ids(queue_of("m:A", "m:B", "m:A"), A) == [1, 3]


def test_calls_of_several_lanes_come_out_as_they_came() -> None:
    assert take_ids(queue_of("m:A", "m:B", "m:B", "m:A"), B, A) == [1, 2, 3, 4]


def test_a_call_put_back_stands_where_its_order_says() -> None:
    queue = queue_of("m:A", "m:A", "m:A", "m:A")
    first, second = queue.take((A,)), queue.take((A,))
    assert first is not None
    assert second is not None
    queue.put(Waiting(second.call, second.order, attempt=2, turn=second.turn))
    queue.put(Waiting(first.call, first.order, attempt=2, turn=first.turn))
    assert take_ids(queue, A) == [1, 2, 3, 4]


def test_only_calls_that_were_never_sent_count_towards_the_bound() -> None:
    queue = queue_of("m:A", max_queued=1)
    queue.put(Waiting(call(9, "m:A"), order=0, turn=0))
    queue.remove(C1)
    assert queue.bounds.fits(call(2, "m:A"))
    queue.put(queue.number(call(2, "m:A")))
    assert not queue.bounds.fits(call(3, "m:A"))
    assert len(queue) == 2


def test_a_removed_call_is_gone_and_cannot_be_removed_twice() -> None:
    queue = queue_of("m:A", "m:A")
    assert queue.remove(C1) is not None
    assert queue.remove(C1) is None
    assert C1 not in queue
    assert C2 in queue
    assert take_ids(queue, A) == [C2]


def test_taking_all_empties_the_queue_in_order() -> None:
    queue = queue_of("m:B", "m:A", "m:B", max_queued=3)
    assert [waiting.call.id for waiting in queue.take_all()] == [C1, C2, C3]
    assert len(queue) == 0
    assert queue.bounds.fits(call(4, "m:B"))
    assert queue.take((A, B)) is None


def test_lengths_name_only_apps_with_waiting_calls() -> None:
    queue = queue_of("m:A", "m:B", "m:A")
    queue.put(queue.number(call(4, "m:A", kind=ActionKind.ASYNC)))
    queue.remove(C2)
    assert queue.lengths() == {"m:A": 3}
    assert queue.lanes() == [A, ("m:A", ActionKind.ASYNC)]
    assert queue.has_work_for(["m:B", "m:A"])
    assert not queue.has_work_for(["m:B"])


def test_nobody_is_next_where_nobody_waits() -> None:
    assert queue_of("m:B").next_lane((A,)) is None
    assert queue_of("m:B").next_lane((A, B)) == B
    assert queue_of().is_empty(A)


def test_removing_from_the_middle_of_ten_thousand_is_as_quick_as_from_the_end() -> None:
    queue = queue_of(*["m:A"] * 10_000, max_queued=10_000)
    for number in range(5_000, 10_000):
        queue.remove(CallId(number))
    assert len(queue._lanes[A]._lines[0, 0].calls._heap) <= 2 * len(queue) + 64
    assert take_ids(queue, A) == [*range(1, 5_000), 10_000]
