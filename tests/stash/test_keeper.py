from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from dirtybus.config.stash import StashConfig
from dirtybus.errors import DirtyError, StashError
from dirtybus.protocol.codec import encode_whole
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.note import Note
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp, Transact
from dirtybus.stash.ops_entries import Get, Incr, Put
from dirtybus.stash.ops_leases import Acquire, Release
from dirtybus.stash.ops_many import Clear, PutMany
from dirtybus.stash.ops_watch import Watch

K, ONE = b"k", encode_whole(1)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """Asks a keeper and remembers each answer by the caller."""

    def __init__(self, config: StashConfig | None = None) -> None:
        self.clock = Clock()
        self.keeper = Keeper(config, clock=self.clock, first_version=0)
        self.due: list[float] = []
        self.keeper.on_due = self.due.append
        self.answers: list[tuple[str, StashReply | DirtyError]] = []

    def ask(self, op: StashOp, caller: str = "me") -> StashReply | DirtyError | None:
        before = len(self.answers)
        self.keeper.submit(op, caller, lambda answer: self.answers.append((caller, answer)))
        return self.answers[-1][1] if len(self.answers) > before else None

    @property
    def order(self) -> list[str]:
        return [caller for caller, _ in self.answers]


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_each_operation_is_answered_once_and_a_refusal_is_an_answer(asked: Asked) -> None:
    assert isinstance(asked.ask(Put("t", K, encode_whole("text"))), StashReply)
    assert isinstance(asked.ask(Incr("t", K, 1)), StashError)
    assert len(asked.answers) == 2
    assert asked.keeper.waiting == 0


def test_a_moment_is_told_once_and_an_earlier_one_again(asked: Asked) -> None:
    asked.ask(Put("t", b"a", ONE, 10))
    asked.ask(Put("t", b"b", ONE, 20))
    asked.ask(Put("t", b"c", ONE, 5))
    assert asked.due == [110, 105]
    asked.clock.now = 110
    while asked.keeper.sweep():
        pass
    assert asked.due == [110, 105, 120]
    assert len(asked.keeper.state.tables.get("t")) == 1


@pytest.mark.parametrize("op", [Clear("t"), Transact((Clear("t"),))])
def test_what_was_cleared_is_due_at_once_and_told_so(asked: Asked, op: StashOp) -> None:
    asked.ask(PutMany("t", (b"a", b"b"), (ONE, ONE)))
    assert asked.due == []
    asked.ask(op)
    assert asked.due == [-math.inf]
    while asked.keeper.sweep():
        pass
    assert asked.keeper.state.tables.book.trash == []
    asked.ask(Put("t", K, ONE, 5))
    assert asked.due == [-math.inf, 105]


def test_those_who_wait_are_served_in_the_order_they_came(asked: Asked) -> None:
    for caller in ("a", "b", "c"):
        asked.ask(Acquire("lock", caller, 60, wait_s=30), caller)
    assert asked.order == ["a"]
    asked.ask(Release("lock", "a"), "a")
    assert asked.order == ["a", "b", "a"]
    asked.keeper.leave("b")
    assert asked.order[-1] == "c"
    assert asked.keeper.waiting == 0


def test_who_leaves_waits_no_more_and_holds_nothing(asked: Asked) -> None:
    asked.ask(Acquire("lock", "a", 60), "a")
    asked.ask(Acquire("lock", "b", 60, wait_s=30), "b")
    asked.keeper.leave("b")
    asked.keeper.leave("a")
    assert asked.order == ["a"]
    reply = asked.ask(Acquire("lock", "c", 60), "c")
    assert isinstance(reply, StashReply)
    assert reply.is_true


def test_a_wait_ends_at_its_time(asked: Asked) -> None:
    asked.ask(Acquire("lock", "a", 60), "a")
    asked.ask(Acquire("lock", "b", 60, wait_s=3), "b")
    assert asked.due[-1] == 103
    asked.clock.now = 103
    asked.keeper.sweep()
    caller, reply = asked.answers[-1]
    assert isinstance(reply, StashReply)
    assert (caller, reply.is_true, asked.keeper.waiting) == ("b", False, 0)


def test_only_so_many_may_wait() -> None:
    asked = Asked(StashConfig(max_waiting=2))
    for caller in ("a", "b", "c"):
        asked.ask(Acquire("lock", caller, 60, wait_s=30), caller)
    assert isinstance(asked.ask(Acquire("lock", "d", 60, wait_s=30), "d"), StashError)
    assert asked.keeper.waiting == 2
    asked.keeper.close()
    assert [type(answer) for caller, answer in asked.answers if caller in "bc"] == [StashError, StashError]
    assert asked.keeper.waiting == 0


def test_a_watcher_hears_of_a_change_and_not_of_one_that_was_taken_back(asked: Asked) -> None:
    begun = asked.ask(Watch("t"))
    assert isinstance(begun, StashReply)
    asked.ask(Watch("t", since=begun.cursor, wait_s=30), "watcher")
    refused = asked.ask(Transact((Put("t", K, encode_whole("text")), Incr("t", K, 1))))
    assert isinstance(refused, StashError)
    assert "watcher" not in asked.order
    asked.ask(Put("t", K, ONE))
    heard = dict(asked.answers)["watcher"]
    assert isinstance(heard, StashReply)
    assert [(change.kind, change.key) for change in heard.changes] == [("put", K)]


class SlowDisk:
    """A recorder whose answers the test gives."""

    def __init__(self) -> None:
        self.taken: list[Note] = []
        self.waiting: list[Callable[[DirtyError | None], object]] = []

    def record(self, notes: Sequence[Note], version: int, settle: Callable[[DirtyError | None], object]) -> bool:
        assert notes
        assert all(note.version <= version for note in notes)
        self.taken += notes
        self.waiting.append(settle)
        return True

    def state(self) -> dict[str, object]:
        return {"pending_bytes": 0, "error": None}


def test_an_answer_waits_for_the_disk_and_a_question_does_not(asked: Asked) -> None:
    disk = asked.keeper.recorder = SlowDisk()
    asked.keeper.state.tables.follow("t")
    assert asked.ask(Put("t", K, ONE), "writer") is None
    assert asked.ask(Get("t", K), "reader") is not None
    assert asked.keeper.waiting == 1
    disk.waiting.pop()(None)
    assert asked.order == ["reader", "writer"]
    assert asked.keeper.waiting == 0
    assert asked.ask(Clear("t"), "writer") is None
    disk.waiting.pop()(StashError("the disk is full"))
    assert isinstance(asked.answers[-1][1], StashError)
    assert [note.kind for note in disk.taken] == ["ruled", "put", "cleared"]


def test_info_counts_what_is_there(asked: Asked) -> None:
    asked.ask(PutMany("t", (b"a", b"b"), (ONE, ONE)))
    info = asked.keeper.summary()
    assert info["memory_bytes"] == asked.keeper.state.tables.book.memory_bytes > 0
    assert (info["waiting"], info["max_bytes"]) == (0, 1024**3)


def test_a_stash_that_is_kept_on_disk_is_not_used_before_it_was_read() -> None:
    keeper = Keeper(StashConfig(persist="somewhere.sqlite"))
    outcomes: list[StashReply | DirtyError] = []
    for op in (Put("t", K, ONE), Get("t", K)):
        keeper.submit(op, "somebody", outcomes.append)
    assert [type(outcome) for outcome in outcomes] == [StashError, StashError]
    assert "has not been read yet" in str(outcomes[0])
    assert keeper.state.tables.names() == []
