"""The owner's half of leases: who is served when, who is not, and what is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from dirtybus.errors import DirtyError, StashError
from dirtybus.stash import AsyncLocalPort, LocalPort
from dirtybus.stash import leases as leases_module
from dirtybus.stash.entry import Entry
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.note import Note
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.ops_leases import Acquire, LeaseInfo, Release, Renew


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Disk:
    """A recorder for which nobody has to wait."""

    def record(self, notes: Sequence[Note], version: int, settle: Callable[[DirtyError | None], object]) -> bool:
        return False

    def state(self) -> dict[str, object]:
        return {}


class Asked:
    """Asks a keeper, and keeps the answers by token."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.keeper = Keeper(clock=self.clock, first_version=0)
        self.answers: dict[str, StashReply | DirtyError] = {}

    def acquire(
        self, token: str, places: int = 1, *, name: str = "x", ttl_s: float = 60, wait_s: float = 30
    ) -> bool | None:
        op = Acquire(name, token, ttl_s, places, wait_s)
        self.keeper.submit(op, token, lambda answer: self.answers.update({token: answer}))
        return self.got(token)

    def got(self, token: str) -> bool | None:
        """Whether it was given a lease; None: it waits."""
        answer = self.answers.get(token)
        return answer.is_true if isinstance(answer, StashReply) else None

    def ask(self, op: StashOp, caller: str = "me") -> StashReply:
        answers = list[StashReply | DirtyError]()
        self.keeper.submit(op, caller, answers.append)
        (answer,) = answers
        assert isinstance(answer, StashReply)
        return answer

    def holders(self, name: str = "x") -> int:
        info = self.ask(LeaseInfo(name)).info
        assert info is not None
        return len(info["holders"])


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_who_wants_one_of_fewer_places_holds_nobody_up_who_may_have_more(asked: Asked) -> None:
    for token in "ab":
        assert asked.acquire(token, 2)
    assert asked.acquire("one", 1) is None
    assert asked.acquire("three", 3) is True
    assert asked.acquire("more", 3) is None
    asked.ask(Release("x", "b"))  # the second place: too far for who came first
    assert (asked.got("one"), asked.got("more")) == (None, True)
    asked.ask(Release("x", "a"))
    assert asked.got("one") is True


def test_the_callers_that_an_owner_leaves_keep_what_is_persisted_and_wait_no_more(asked: Asked) -> None:
    asked.acquire("kept")
    asked.acquire("freed", name="y")
    asked.acquire("waits")
    asked.keeper.recorder = Disk()
    asked.keeper.leave("kept", keeps_leases=True)
    asked.keeper.leave("waits", keeps_leases=True)
    asked.keeper.leave("freed")
    assert (asked.holders("x"), asked.holders("y"), asked.keeper.waiting) == (1, 0, 0)
    asked.ask(Renew("x", "kept", 60), "it connected anew")
    asked.keeper.leave("kept")
    assert asked.holders() == 1
    asked.keeper.close()
    asked.keeper.leave("it connected anew")
    assert asked.holders() == 1


def test_what_is_persisted_nowhere_is_free_when_its_caller_is_left(asked: Asked) -> None:
    asked.acquire("a")
    asked.keeper.leave("a", keeps_leases=True)
    assert asked.holders() == 0


def test_a_question_that_is_overtaken_by_its_own_end_is_given_nothing(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.ask(Release("x", "late"))
    assert asked.acquire("late") is False
    assert asked.acquire("late", name="of another name")
    assert asked.holders() == 0
    monkeypatch.setattr(leases_module, "_MOST_GIVEN_UP", 2)
    for token in ("p", "q"):
        asked.ask(Release("x", token))
    assert len(asked.keeper.state.leases._given_up) == 2
    assert asked.acquire("q") is False


def test_what_is_released_after_it_was_held_is_not_remembered(asked: Asked) -> None:
    asked.acquire("a")
    assert asked.ask(Release("x", "a")).is_true
    assert asked.keeper.state.leases._given_up == {}


def test_who_waits_is_served_rather_than_sent_away_at_the_same_moment(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.acquire("a", ttl_s=10)
    asked.acquire("b", wait_s=10)
    monkeypatch.setattr(asked.keeper.state.tables, "sweep", lambda now: True)  # there was too much else to do
    asked.clock.now += 10
    asked.keeper.sweep()
    assert asked.got("b") is True


def test_the_same_token_under_two_names_are_two_holders(asked: Asked) -> None:
    assert asked.acquire("a", name="x")
    assert asked.acquire("a", name="y")
    assert asked.ask(Renew("x", "a", 5)).is_true
    assert asked.ask(Release("x", "a")).is_true
    assert (asked.holders("x"), asked.holders("y")) == (0, 1)
    asked.keeper.leave("a")
    assert asked.holders("y") == 0


def test_who_leaves_when_its_time_is_over_gives_its_place_to_the_first(asked: Asked) -> None:
    asked.acquire("a", ttl_s=10)
    asked.acquire("b")
    asked.clock.now += 20
    asked.keeper.leave("a")
    assert asked.got("b") is True


def test_who_renews_too_late_does_not_let_others_pass_by(asked: Asked) -> None:
    asked.acquire("a", ttl_s=10)
    asked.acquire("b")
    asked.clock.now += 20
    assert not asked.ask(Renew("x", "a", 10)).is_true
    assert asked.acquire("c") is None
    assert asked.got("b") is True


def test_to_ask_who_holds_one_does_not_look_at_the_others(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        asked.acquire(f"t{number}", name=f"n{number}")
    asked.acquire("a")
    leases, looked = asked.keeper.state.leases, list[str]()
    entry_of = leases._entry_of

    def look(held: leases_module._Held, now: float) -> Entry | None:
        looked.append(held.name)
        return entry_of(held, now)

    monkeypatch.setattr(leases, "_entry_of", look)
    assert asked.holders("x") == 1
    assert looked == ["x"]


def test_nobody_begins_to_wait_when_the_owner_has_ended(asked: Asked) -> None:
    asked.acquire("a")
    asked.keeper.close()
    asked.acquire("b")
    assert isinstance(asked.answers["b"], StashError)
    assert asked.keeper.waiting == 0


@pytest.mark.parametrize("op", [Acquire("x", "", 1), Release("x", "t" * 129), Renew("n" * 1025, "t", 1)])
def test_names_and_tokens_are_bounded(asked: Asked, op: StashOp) -> None:
    answers = list[StashReply | DirtyError]()
    asked.keeper.submit(op, "me", answers.append)
    assert isinstance(answers[0], StashError)


def test_a_task_whose_loop_has_ended_is_given_nothing(asked: Asked) -> None:
    asked.acquire("a")
    port = AsyncLocalPort(LocalPort(asked.keeper))
    loop = asyncio.new_event_loop()
    waiting = port.ask(Acquire("x", "gone", 60, 1, 60))
    step = waiting.__await__()

    async def begin() -> None:
        next(step)  # its loop ends while it waits, and nobody cancels it: as a thread's loop may

    loop.run_until_complete(begin())
    loop.close()
    assert asked.keeper.waiting == 1
    asked.acquire("b")
    asked.ask(Release("x", "a"))
    assert asked.got("b") is True
    assert asked.keeper.waiting == 0
    step.close()
    waiting.close()
