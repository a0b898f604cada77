"""Streams that run as one, with readers that read, leave and stall as they like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.app import CallContext
from dirtybus.errors import CallCancelled, CallError
from dirtybus.protocol.heads import Call
from dirtybus.worker.jobs import Job
from dirtybus.worker.strands import Strand, Strands, entries

ROWS = st.lists(st.sampled_from(["chunk", "end", "error"]), min_size=3, max_size=3)
READS = st.lists(st.sampled_from(["read", "leave", None]), min_size=3, max_size=3)


class Readers:
    """Three of them, with a window of ``window`` chunks each."""

    def __init__(self, window: int = 2) -> None:
        head = Call(app="m:A", action="x", window=window)
        self.jobs = [Job(number, head, b"", CallContext(id=number, app="m:A", action="x")) for number in range(3)]
        self.sent: list[list[Any]] = [[], [], []]
        self.ended: list[Any] = ["open"] * 3
        self.changes = 0
        self.strands = Strands(self.jobs, self.chunk, self.finish, self.note_change)

    def note_change(self) -> None:
        self.changes += 1

    def chunk(self, job: Job, value: Any) -> None:
        assert self.ended[job.id] == "open", "a chunk after the last word"
        if value == "unsendable":
            raise TypeError("it cannot be sent")
        self.sent[job.id].append(value)

    def finish(self, strand: Strand) -> None:
        assert self.ended[strand.job.id] == "open", "two last words"
        self.ended[strand.job.id] = strand.error
        strand.job.is_settled = True


@given(st.lists(st.tuples(ROWS, READS), max_size=30))
def test_each_reader_gets_its_own_chunks_in_order_and_one_last_word(steps: list[tuple[list[str], list[Any]]]) -> None:
    readers = Readers()
    expected: list[list[int]] = [[], [], []]
    over: list[Any] = ["open"] * 3
    left: set[int] = set()
    for number, (kinds, reads) in enumerate(steps):
        if not readers.strands.is_wanted:
            break
        row: list[Any] = []
        for who, kind in enumerate(kinds):
            row.append({"chunk": number, "end": StopIteration(), "error": ValueError(number)}[kind])
            if over[who] == "open" and who not in left:
                if kind == "chunk":
                    expected[who].append(number)
                else:
                    over[who] = kind
        readers.strands.deal(row)
        for who, read in enumerate(reads):
            if read == "leave":
                readers.jobs[who].cancel()
                left.add(who)
            elif read == "read":
                readers.jobs[who].credits.give(1)
        readers.strands.flush()
        assert "open" in readers.ended, "the worker was free before the action ended"
    readers.strands.end(None)
    for job in readers.jobs:
        job.credits.give(1000)
    readers.strands.flush()
    assert not readers.strands.must_wait
    for who in range(3):
        if who in left:
            assert readers.sent[who] == expected[who][: len(readers.sent[who])]
            assert readers.ended[who] is None or isinstance(readers.ended[who], CallCancelled | ValueError)
        else:
            assert readers.sent[who] == expected[who]
            assert isinstance(readers.ended[who], ValueError) == (over[who] == "error")


def test_the_fastest_reader_sets_the_pace_and_the_slowest_is_cut_off() -> None:
    readers = Readers(window=1)
    readers.strands.deal([0, 0, 0])
    assert not readers.strands.must_wait
    readers.strands.deal([1, 1, 1])
    assert readers.strands.must_wait
    for number in range(2, 300):
        readers.jobs[0].credits.give(1)
        readers.strands.flush()
        assert not readers.strands.must_wait
        readers.strands.deal([number] * 3)
    assert readers.changes == 298
    assert isinstance(readers.ended[1], CallError)
    assert readers.sent == [list(range(299)), [0], [0]]


def test_a_chunk_that_cannot_be_sent_ends_its_own_stream() -> None:
    readers = Readers()
    readers.strands.deal([1, "unsendable", 1])
    assert isinstance(readers.ended[1], TypeError)
    readers.strands.deal([2, 2, 2])
    assert readers.sent == [[1, 2], [], [1, 2]]


def test_what_was_yielded_before_an_error_of_the_action_comes_first() -> None:
    readers = Readers(window=1)
    readers.strands.deal([1, 1, StopIteration()])
    readers.strands.deal([2, 2, None])
    readers.strands.end(KeyError("broken"))
    assert readers.strands.must_wait
    for job in readers.jobs:
        job.credits.give(9)
    readers.strands.flush()
    assert readers.sent == [[1, 2], [1, 2], []]
    assert [type(end) for end in readers.ended] == [KeyError, KeyError, type(None)]


@pytest.mark.parametrize("row", ["ab", b"ab", {1: 1, 2: 2}, None, 2, iter([1, 2])])
def test_what_is_no_list_is_no_answer(row: Any) -> None:
    with pytest.raises(TypeError, match="must return a list with one entry for each of its calls, not"):
        entries(row, 2, "return")
