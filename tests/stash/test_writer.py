from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from dirtybus.errors import DirtyError, StashNotStored
from dirtybus.stash import writer as writing
from dirtybus.stash.store import Upsert
from dirtybus.stash.writer import StashWriter
from tests.stash.dict_store import WITHIN_S, DictStore, value_row


class Answers:
    """Collects what those are told who wait, and waits for it."""

    def __init__(self) -> None:
        self._told = threading.Condition()
        self.all: list[tuple[int, DirtyError | None]] = []

    def of(self, number: int) -> Callable[[DirtyError | None], object]:
        def take(error: DirtyError | None) -> None:
            with self._told:
                self.all.append((number, error))
                self._told.notify_all()

        return take

    def after(self, count: int) -> list[tuple[int, DirtyError | None]]:
        with self._told:
            assert self._told.wait_for(lambda: len(self.all) >= count, WITHIN_S), self.all
            return list(self.all)


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture
def writer(store: DictStore) -> Iterator[StashWriter]:
    one = StashWriter(store, linger_s=3600)
    one.start()
    yield one
    store.gate.set()
    one.close(WITHIN_S)
    assert not one._thread.is_alive()
    assert store.closed == 1


@pytest.fixture
def answers() -> Answers:
    return Answers()


def put(
    writer: StashWriter, number: int, answers: Answers | None = None, *, durable: bool = True, size: int = 1
) -> None:
    change = Upsert(value_row(key=b"%d" % number, value=b"x" * size, version=number), is_new=True)
    on_done = None if answers is None else answers.of(number)
    writer.submit([change], version=number, is_durable=durable, on_done=on_done)


def test_what_comes_during_a_commit_goes_together_into_the_next(
    writer: StashWriter, store: DictStore, answers: Answers
) -> None:
    store.gate.clear()
    put(writer, 1, answers)
    assert store.entered.acquire(timeout=WITHIN_S)
    for number in range(2, 66):
        put(writer, number, answers)
    assert answers.all == []
    store.gate.set()
    assert answers.after(65) == [(number, None) for number in range(1, 66)]
    assert [(len(batch), version) for batch, version, _ in store.batches] == [(1, 1), (64, 65)]
    assert writer.state()["commits"] == 2
    assert writer.state()["pending_bytes"] == 0


def test_a_change_lingers_until_somebody_waits_for_a_later_one(
    writer: StashWriter, store: DictStore, answers: Answers
) -> None:
    put(writer, 1, durable=False)
    assert writer.state()["pending"] == 1
    assert not store.entered.acquire(blocking=False)
    put(writer, 2, answers)
    answers.after(1)
    assert [(len(batch), is_durable) for batch, _, is_durable in store.batches] == [(2, True)]


def test_urgency_ends_with_the_commit(writer: StashWriter, store: DictStore, answers: Answers) -> None:
    put(writer, 1, answers)
    answers.after(1)
    put(writer, 2, durable=False)
    assert (writer._urgent, writer.state()["pending"]) == (0, 1)
    assert len(store.batches) == 1


def test_it_lingers_no_longer_than_it_may(store: DictStore) -> None:
    writer = StashWriter(store, linger_s=0.01)
    writer.start()
    put(writer, 1, durable=False)
    assert store.entered.acquire(timeout=WITHIN_S)
    assert writer.close(WITHIN_S) == 0
    assert [is_durable for _, _, is_durable in store.batches] == [False]


def test_who_brings_more_than_fits_waits_until_it_is_written(store: DictStore, answers: Answers) -> None:
    writer = StashWriter(store, linger_s=3600, max_pending_bytes=1000)
    writer.start()
    store.gate.clear()
    put(writer, 1, durable=False, size=500)
    assert not writer.is_full
    put(writer, 2, durable=False, size=500)
    assert writer.is_full
    assert store.entered.acquire(timeout=WITHIN_S)  # though nobody waits
    store.gate.set()
    put(writer, 3, answers, durable=False)
    answers.after(1)
    assert not writer.is_full
    assert writer.close(WITHIN_S) == 0


def test_one_commit_is_of_bounded_size(
    writer: StashWriter, store: DictStore, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MAX_COMMIT_BYTES", 1000)
    store.gate.clear()
    put(writer, 1, answers, size=5000)  # more than a commit: alone
    assert store.entered.acquire(timeout=WITHIN_S)
    for number in range(2, 6):
        put(writer, number, answers, size=300)
    store.gate.set()
    answers.after(5)
    assert [len(batch) for batch, _, _ in store.batches] == [1, 1, 1, 1, 1]


def test_the_changes_of_one_operation_are_never_parted(
    writer: StashWriter, store: DictStore, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MAX_COMMIT_BYTES", 300)
    changes = [Upsert(value_row(key=b"%d" % number, value=b"x" * 200), is_new=True) for number in range(5)]
    writer.submit(changes, version=5, is_durable=True, on_done=answers.of(5))
    answers.after(1)
    assert [len(batch) for batch, _, _ in store.batches] == [5]


@pytest.mark.parametrize("error", [StashNotStored("the disk is full"), RuntimeError("a defect of the store")])
def test_a_store_that_fails_is_told_to_all_who_wait_and_tried_again(
    writer: StashWriter, store: DictStore, answers: Answers, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MAX_COMMIT_BYTES", 300)
    store.failures, store.error = 2, error
    store.gate.clear()
    put(writer, 1, answers)
    assert store.entered.acquire(timeout=WITHIN_S)
    put(writer, 2, answers, size=500)  # it would not go into the commit that fails
    store.gate.set()
    told = answers.after(2)
    assert [number for number, _ in told] == [1, 2]
    assert all(isinstance(each, StashNotStored) for _, each in told)
    assert error.args[0].split()[0] in str(writer.state()["error"]) or store.failures == 0
    put(writer, 3, answers)
    answers.after(3)
    put(writer, 4, answers)
    assert answers.after(4)[-1] == (4, None)
    assert [key for _, key in sorted(store.rows)] == [b"1", b"2", b"3", b"4"]
    assert writer.state()["error"] is None
    assert writer.state()["last_commit_s"] is not None


def test_who_cannot_be_told_keeps_nobody_else_from_it(writer: StashWriter, store: DictStore, answers: Answers) -> None:
    def raising(_: DirtyError | None) -> None:
        raise ValueError("the loop has gone")

    store.gate.clear()
    writer.submit([Upsert(value_row(), is_new=True)], version=1, is_durable=True, on_done=raising)
    put(writer, 2, answers)
    store.gate.set()
    assert answers.after(1) == [(2, None)]


def test_the_end_writes_what_lingers(store: DictStore) -> None:
    writer = StashWriter(store, linger_s=3600)
    writer.start()
    put(writer, 1, durable=False)
    assert writer.close(WITHIN_S) == 0
    assert writer.close(WITHIN_S) == 0
    assert [version for _, version, _ in store.batches] == [1]
    assert store.closed == 1


def test_the_end_tries_once_more_what_failed(store: DictStore, answers: Answers) -> None:
    writer = StashWriter(store, linger_s=3600)
    writer.start()
    store.failures = 1
    put(writer, 1, answers)
    assert isinstance(answers.after(1)[0][1], StashNotStored)
    assert writer.close(WITHIN_S) == 0
    assert store.rows.keys() == {("t", b"1")}


def test_what_fails_at_the_end_is_counted_and_all_are_told(store: DictStore, answers: Answers) -> None:
    writer = StashWriter(store, linger_s=3600)
    writer.start()
    store.failures = 10**6
    put(writer, 1, answers)
    answers.after(1)
    put(writer, 2, answers)
    assert writer.close(WITHIN_S) == 2
    assert [number for number, _ in answers.after(2)] == [1, 2]
    put(writer, 3, answers)
    number, error = answers.after(3)[-1]
    assert (number, isinstance(error, StashNotStored)) == (3, True)
    assert store.closed == 1


def test_a_store_that_hangs_holds_the_end_up_for_so_long_only(store: DictStore, answers: Answers) -> None:
    writer = StashWriter(store)
    writer.start()
    store.gate.clear()
    put(writer, 1, answers)
    assert store.entered.acquire(timeout=WITHIN_S)
    began_at = time.monotonic()
    assert writer.close(0.05) == 1
    assert time.monotonic() - began_at < WITHIN_S / 2
    assert "0.05 s" in str(answers.after(1)[0][1])
    store.gate.set()
    assert writer.close(WITHIN_S) == 0
    assert len(answers.all) == 1
    assert not writer._thread.is_alive()
