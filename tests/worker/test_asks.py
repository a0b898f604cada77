"""A worker's questions to its owner: each gets its own answer or an error, whoever reads the link, however it ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from dirtybus.errors import DirtyConnectionError, StashError, StashTableNotFoundError
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.heads import Answer, Refusal, StatusAsk
from dirtybus.protocol.messages import Message
from dirtybus.stash import wire
from dirtybus.transport.blocking import BlockingLink
from dirtybus.worker.asks import AsksOfThread
from dirtybus.worker.reader import LinkReader

LIMIT = 1 << 20
WAIT_S = 20


class Ends:
    """A worker's asks over one end of a socket pair; the other end is the owner's, to be played by the test.

    What is asked travels as bytes, unchanged: which operations there are does not matter here.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.owner = BlockingLink(ours, Connection(Side.CALLER, LIMIT))
        self.link = BlockingLink(theirs, Connection(Side.CALLEE, LIMIT))
        self.reader = LinkReader(self.link, lambda message: self.asks.settle(message), lambda: self.asks.close())
        self.asks = AsksOfThread(self.link.send, self.reader)
        self._threads: list[threading.Thread] = []

    def ask(self, what: Any) -> Any:
        return self.asks.ask(what)

    def beside(self, work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def asked(self) -> Message:
        message = self.owner.receive(WAIT_S)
        assert message is not None
        return message

    def answer(self, question: Message) -> None:
        self.owner.send(Message(Answer(value=1), question.id, question.body))

    def answer_all(self) -> None:
        """Answer until the worker's end closes, those that come together in the opposite order."""
        with suppress(DirtyConnectionError):  # it may close while it is being answered
            while questions := self.owner.receive_now():
                for question in reversed(questions):
                    self.answer(question)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()

    def close(self) -> None:
        self.link.close()
        self.join()
        self.owner.close()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    monkeypatch.setattr(wire, "ask_message", lambda op, ask_id: Message(StatusAsk(), ask_id, (op,)))
    monkeypatch.setattr(wire, "reply_of", lambda message: bytes(message.payload))
    both = Ends()
    yield both
    both.close()


def outcome_of(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (DirtyConnectionError, StashError) as exc:
        return exc


def test_a_lone_thread_reads_its_own_answers_without_any_other(ends: Ends) -> None:
    ends.beside(ends.answer_all)
    before = threading.active_count()
    assert [ends.ask(b"%d" % n) for n in range(100)] == [b"%d" % n for n in range(100)]
    assert (threading.active_count(), ends.reader.has_thread) == (before, False)


def test_a_thread_that_reads_is_answered_when_another_takes_over_in_the_middle(ends: Ends) -> None:
    def play_owner() -> None:
        first = ends.asked()
        ends.reader.start_thread()  # it waits for its turn, as the main thread is reading
        ends.answer(first)
        ends.answer(ends.asked())

    ends.beside(play_owner)
    assert ends.ask(b"one") == b"one"
    assert ends.reader.has_thread
    assert ends.ask(b"two") == b"two"  # the other thread reads it


def test_questions_of_many_threads_get_each_its_own_answer(ends: Ends) -> None:
    ends.beside(ends.answer_all)
    wrong: list[bytes] = []

    def ask_on(name: int) -> None:
        for n in range(200):
            what = b"%d of %d" % (n, name)
            if ends.ask(what) != what:
                wrong.append(what)

    askers = [ends.beside(lambda name=name: ask_on(name)) for name in range(1, 6)]  # type: ignore[misc]
    ask_on(0)
    for asker in askers:
        asker.join(WAIT_S)
    assert wrong == []


def test_a_refusal_is_raised_as_what_it_is_and_other_errors_as_a_stash_error(ends: Ends) -> None:
    def play_owner() -> None:
        for error in (StashTableNotFoundError("t"), DirtyConnectionError("no"), StashError("bad")):
            ends.owner.send(Message(Refusal(error=error.to_dict()), ends.asked().id))

    ends.beside(play_owner)
    outcomes = [outcome_of(lambda: ends.ask(b"?")) for _ in range(3)]
    assert [type(each) for each in outcomes] == [StashTableNotFoundError, DirtyConnectionError, StashError]


def test_when_the_owner_goes_every_question_fails_and_every_later_one(ends: Ends) -> None:
    outcomes: list[Any] = []
    askers = [ends.beside(lambda: outcomes.append(outcome_of(lambda: ends.ask(b"?")))) for _ in range(4)]
    for _ in askers:
        ends.asked()
    ends.owner.close()
    for asker in askers:
        asker.join(WAIT_S)
    assert [type(each) for each in outcomes] == [DirtyConnectionError] * 4
    with pytest.raises(DirtyConnectionError):
        ends.ask(b"late")


def test_no_question_is_left_waiting_when_the_end_comes_in_the_middle_of_asking(ends: Ends) -> None:
    ends.reader.start_thread()
    ends.beside(ends.answer_all)
    begun, errors = threading.Semaphore(0), []

    def ask_until_closed() -> None:
        while not isinstance(outcome := outcome_of(lambda: ends.ask(b"?")), DirtyConnectionError):
            begun.release()
        errors.append(outcome)

    askers = [ends.beside(ask_until_closed) for _ in range(4)]
    for _ in range(100):
        assert begun.acquire(timeout=WAIT_S)
    ends.asks.close()  # as the link's end does it, but while the link still carries
    for asker in askers:
        asker.join(WAIT_S)
        assert not asker.is_alive()
    assert len(errors) == 4
    with pytest.raises(DirtyConnectionError):  # although the owner would answer
        ends.ask(b"late")


def test_an_answer_that_comes_twice_or_to_nobody_is_dropped(ends: Ends) -> None:
    replies: list[Any] = []
    ends.asks.start(b"?", replies.append)  # type: ignore[arg-type]
    question = ends.asked()
    answer = Message(Answer(value=1), question.id, question.body)
    for message in (answer, answer, Message(Answer(value=1), 99, (b"?",))):
        ends.asks.settle(message)
    assert replies == [b"?"]
