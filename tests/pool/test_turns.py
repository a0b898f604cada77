"""Callers take turns: counted over any sequence of calls that come, go out, come back and are taken away."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import ActionKind, Call, CallId, Lane, Waiting
from dirtybus.pool.queue import CallQueue

A: Lane = ("m:A", ActionKind.SYNC)
B: Lane = ("m:B", ActionKind.SYNC)
CALLERS = (0, 1, 2)


class Window:
    """A queue, with the books of a bystander."""

    def __init__(self) -> None:
        self.queue = CallQueue(DirtyConfig())
        self.waiting: list[Waiting] = []
        self.out: list[Waiting] = []
        self.count = 0

    def hand_in(self, caller: int, priority: int = 0, lane: Lane = A) -> Waiting:
        self.count += 1
        call = Call(id=CallId(self.count), app=lane[0], kind=lane[1], caller=caller, priority=priority)
        waiting = self.queue.number(call)
        self.put(waiting)
        return waiting

    def put(self, waiting: Waiting) -> None:
        self.queue.put(waiting)
        self.waiting.append(waiting)
        self.queue.check()

    def take(self, *lanes: Lane) -> Waiting | None:
        taken = self.queue.take(lanes)
        if taken is not None:
            self.waiting = [one for one in self.waiting if one.call.id != taken.call.id]
            self.out.append(taken)
        self.queue.check()
        return taken

    def remove(self, waiting: Waiting) -> None:
        self.queue.remove(waiting.call.id)
        self.waiting.remove(waiting)
        self.queue.check()

    def has(self, caller: int, priority: int = 0) -> bool:
        return any((one.call.caller, one.call.priority) == (caller, priority) for one in self.waiting)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["in", "in", "out", "out", "away"]), st.sampled_from(CALLERS), st.sampled_from([0, 1])
        ),
        max_size=80,
    )
)
def test_of_two_callers_that_wait_none_is_served_twice_more_than_the_other(steps: list[tuple[str, int, int]]) -> None:
    window = Window()
    served: dict[tuple[int, int, int], Counter[int]] = {}
    for verb, caller, priority in steps:
        taken = None
        if verb == "in":
            window.hand_in(caller, priority)
        elif verb == "out":
            taken = window.take(A)
        elif own := [one for one in window.waiting if one.call.caller == caller]:
            window.remove(own[len(own) // 2])
        for one, two in combinations(CALLERS, 2):
            for level in (0, 1):
                books = served.setdefault((one, two, level), Counter())
                if taken is not None and taken.call.priority == level and taken.call.caller in (one, two):
                    books[taken.call.caller] += 1
                if not (window.has(one, level) and window.has(two, level)):
                    books.clear()
                assert abs(books[one] - books[two]) <= 1, f"callers {one} and {two} were served {books}"


@given(st.lists(st.tuples(st.sampled_from(CALLERS), st.sampled_from([A, B])), max_size=60), st.data())
def test_a_single_call_waits_for_one_call_of_each_line(crowd: list[tuple[int, Lane]], data: st.DataObject) -> None:
    window = Window()
    for caller, lane in crowd:
        window.hand_in(caller, 0, lane)
        if data.draw(st.booleans()):
            window.take(A, B)
    mine = window.hand_in(9, 0, data.draw(st.sampled_from([A, B])))
    lines = {(one.call.caller, one.call.app) for one in window.waiting}
    for _ in range(len(lines) - 1):
        window.hand_in(data.draw(st.sampled_from(CALLERS)), 0, data.draw(st.sampled_from([A, B])))
        if (window.take(A, B) or mine).call.id == mine.call.id:
            return
    taken = window.take(A, B)
    assert taken is not None
    assert taken.call.id == mine.call.id


@given(st.lists(st.tuples(st.sampled_from(["in", "in", "out", "back"]), st.sampled_from([A, B])), max_size=80))
def test_one_caller_alone_is_served_in_order_over_all_lanes(steps: list[tuple[str, Lane]]) -> None:
    window = Window()
    for verb, lane in steps:
        if verb == "in":
            window.hand_in(3, 0, lane)
        elif verb == "back" and window.out:
            window.put(window.out.pop(0))
        elif taken := window.take(A, B):
            assert taken.order <= min((one.order for one in window.waiting), default=taken.order)


@given(st.lists(st.tuples(st.sampled_from(["in", "in", "out", "back"]), st.sampled_from(CALLERS)), max_size=80))
def test_a_call_that_comes_back_is_before_all_that_were_never_out(steps: list[tuple[str, int]]) -> None:
    window = Window()
    for verb, caller in steps:
        if verb == "in":
            window.hand_in(caller)
        elif verb == "back" and window.out:
            window.put(window.out.pop(0))
        else:
            had_returned = any(not one.is_fresh for one in window.waiting)
            returned = {one.call.id for one in window.waiting if not one.is_fresh}
            taken = window.take(A)
            assert taken is None or not had_returned or taken.call.id in returned


def test_a_caller_that_asks_one_by_one_does_not_overtake_those_that_wait() -> None:
    window = Window()
    for _ in range(4):
        window.hand_in(1)
    served = []
    for _ in range(6):
        if not window.has(2):
            window.hand_in(2)
        taken = window.take(A)
        assert taken is not None
        served.append(taken.call.caller)
    assert served == [1, 2, 1, 2, 1, 2]


def test_callers_without_calls_leave_nothing_behind() -> None:
    window = Window()
    for caller in range(100):
        window.hand_in(caller, caller % 7)
    while window.take(A):
        pass
    turns = window.queue._lanes[A]
    assert not turns._lines
    assert not turns._rounds
