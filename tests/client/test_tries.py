from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.client.tries import Tries
from dirtybus.errors import (
    AppBroken,
    DirtyConnectionError,
    DirtyError,
    DirtyNoWorkersAvailableError,
    DirtyTimeoutError,
    Draining,
    QueueFull,
    Unavailable,
)

GONE = DirtyConnectionError("nobody there", "/s", started=False)
LOST = DirtyConnectionError("went away", "/s")
DRAINING = Draining("leaving", retry_after_s=5.0)
FULL = QueueFull("full", {"wait": True}, retry_after_s=0.5)


def tries(*, timeout_s: float | None = None, reconnect_s: float = 10.0, jitter: float = 0.5) -> Tries:
    return Tries("a:B", "go", timeout_s, reconnect_s, 0.0, lambda: jitter)


def is_sent_again(one: Tries, error: DirtyError, *, may_repeat: bool = False, now: float = 0.0) -> bool:
    try:
        one.pause_s(error, now, may_repeat=may_repeat)
    except DirtyError:
        return False
    return True


@pytest.mark.parametrize(
    ("error", "plainly", "repeatable"),
    [
        (GONE, True, True),
        (LOST, False, True),
        (DRAINING, True, True),
        (Draining("cut", {"started": True}), False, True),
        (Draining("cut", {"started": False}), True, True),
        (Unavailable("later", retry_after_s=1.0), True, True),
        (Unavailable("not started"), False, False),
        (DirtyNoWorkersAvailableError("a:B"), False, False),
        (QueueFull("full", retry_after_s=1.0), False, False),
        (AppBroken("broken", retry_after_s=1.0), False, False),
        (FULL, True, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_sent_again(error: DirtyError, plainly: bool, repeatable: bool) -> None:
    assert is_sent_again(tries(), error) is plainly
    assert is_sent_again(tries(), error, may_repeat=True) is repeatable
    given_out = tries()
    given_out.has_given = True
    if not isinstance(error, QueueFull):
        assert not is_sent_again(given_out, error, may_repeat=True), "its chunks would come twice"


@pytest.mark.parametrize("error", [GONE, LOST, DRAINING], ids=lambda value: value.code)
def test_without_reconnect_nothing_is_sent_again(error: DirtyError) -> None:
    assert not is_sent_again(tries(reconnect_s=0), error, may_repeat=True)


def test_a_full_queue_that_asks_to_wait_is_waited_for_whatever_reconnect_says() -> None:
    assert is_sent_again(tries(reconnect_s=0), FULL)


def test_an_absent_owner_is_tried_for_reconnect_s_in_a_row_and_more_and_more_seldom() -> None:
    one, now, pauses = tries(reconnect_s=10.0), 3.0, []
    with pytest.raises(DirtyConnectionError, match="nobody there"):
        while True:
            pauses.append(one.pause_s(GONE, now, may_repeat=False))
            now += pauses[-1]
    assert now == pytest.approx(13.0)
    assert pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == 1.0


def test_a_loss_of_an_owner_that_was_there_starts_the_count_anew() -> None:
    one = tries(reconnect_s=10.0)
    one.pause_s(GONE, 0.0, may_repeat=True)
    one.pause_s(LOST, 9.0, may_repeat=True)
    assert is_sent_again(one, GONE, now=18.0)
    assert not is_sent_again(one, GONE, now=19.5)


def test_a_call_that_was_under_way_when_three_owners_ended_is_given_up() -> None:
    one = tries()
    assert [is_sent_again(one, LOST, may_repeat=True) for _ in range(3)] == [True, True, False]
    assert one.is_unknown


def test_the_pauses_are_spread_by_chance() -> None:
    assert tries(jitter=0.0).pause_s(GONE, 0.0, may_repeat=False) == pytest.approx(0.0375)
    assert tries(jitter=1.0).pause_s(GONE, 0.0, may_repeat=False) == pytest.approx(0.0625)


def test_a_refusal_is_obeyed_in_when_to_come_back() -> None:
    assert tries().pause_s(Unavailable("later", retry_after_s=2.0), 0.0, may_repeat=False) == 2.0


def test_a_full_queue_is_asked_more_and_more_seldom() -> None:
    one = tries()
    assert [one.pause_s(FULL, 0.0, may_repeat=False) for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_full_queue_without_a_deadline_is_waited_for_on_and_on() -> None:
    one = tries()
    assert all(is_sent_again(one, FULL, now=float(now)) for now in range(0, 100_000, 10))


@pytest.mark.parametrize(("error", "phase"), [(FULL, "queued"), (GONE, "unreached")])
def test_the_deadline_ends_the_tries(error: DirtyError, phase: str) -> None:
    one = tries(timeout_s=2.0)
    one.begin(0.0)
    assert one.pause_s(error, 1.9, may_repeat=False) <= 0.1 + 1e-9, "no pause goes past the deadline"
    with pytest.raises(DirtyTimeoutError) as caught:
        one.begin(2.0)
    assert (caught.value.phase, caught.value.whose, caught.value.timeout) == (phase, "the caller's timeout", 2.0)
    with pytest.raises(DirtyTimeoutError):
        one.pause_s(error, 2.0, may_repeat=False)


def test_what_travels_is_what_is_left() -> None:
    one = tries(timeout_s=10.0)
    assert one.begin(0.5).timeout_s == 10.0, "the first time, as it was given"
    one.pause_s(DRAINING, 3.0, may_repeat=False)
    again = one.begin(4.0)
    assert (again.timeout_s, again.given_s) == (6.0, 10.0)


@pytest.mark.parametrize("timeout_s", [None, 0.0])
def test_a_call_without_a_deadline_of_its_own_keeps_none(timeout_s: float | None) -> None:
    one = tries(timeout_s=timeout_s)
    one.pause_s(DRAINING, 3.0, may_repeat=False)
    assert one.begin(1000.0).timeout_s == timeout_s


def test_the_error_says_what_nobody_knows_and_how_often_it_was_sent_again() -> None:
    one = tries()
    one.begin(0.0)
    one.pause_s(GONE, 0.0, may_repeat=False)
    one.begin(1.0)
    with pytest.raises(
        DirtyConnectionError, match="a:B go may or may not have run, .* not declared idempotent"
    ) as caught:
        one.pause_s(LOST, 1.0, may_repeat=False)
    assert (caught.value.started, caught.value.resent, caught.value.details["resent"]) == (None, 1, 1)
    assert one.is_unknown


def test_a_call_that_certainly_did_not_begin_is_not_called_unknown() -> None:
    one = tries(reconnect_s=0)
    with pytest.raises(DirtyConnectionError) as caught:
        one.pause_s(GONE, 0.0, may_repeat=False)
    assert caught.value.started is False
    assert not one.is_unknown


@given(
    st.lists(st.tuples(st.sampled_from([GONE, LOST, DRAINING, FULL]), st.floats(0, 3), st.booleans()), max_size=60),
    st.sampled_from([None, 0.0, 0.5, 7.0]),
    st.floats(0, 20),
)
def test_no_pause_is_endless_and_none_goes_past_the_deadline(
    troubles: list[tuple[Any, float, bool]], timeout_s: float | None, reconnect_s: float
) -> None:
    one, now = tries(timeout_s=timeout_s, reconnect_s=reconnect_s), 0.0
    for error, took_s, may_repeat in troubles:
        try:
            patience = one.begin(now)
            now += took_s
            pause_s = one.pause_s(error, now, may_repeat=may_repeat)
        except DirtyError:
            return
        assert 0 <= pause_s <= 12.5
        assert not timeout_s or now + pause_s <= timeout_s + 1e-6
        assert timeout_s or patience.timeout_s == timeout_s
        assert not timeout_s or 0 < (patience.timeout_s or 0) <= timeout_s
        now += pause_s
