"""The verdict, on planted records: each broken promise is found, and named as what it is."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dirtybus.errors import CallCancelled, DirtyAppError, DirtyTimeoutError, PoisonCall, QueueFull, WorkerLost
from tests.chaos import truth
from tests.chaos.journal import Journal, JournalWriter
from tests.chaos.records import CallRecord, Outcome, merged, outcome_of
from tests.chaos.verdict import Rules, judge, longest_stall_s

RULES = Rules(patience_s=10.0, cancel_grace_s=0.5, margin_s=1.0, crash_limit=3)


def record(kind: str, outcome: Outcome | None = Outcome.ANSWER, *, took_s: float = 0.1, **given: Any) -> CallRecord:
    at = None if outcome is None else 100.0 + took_s
    made = CallRecord(token="t", kind=kind, caller="c", asked_at=100.0, outcome=outcome, settled_at=at)
    return replace(made, **given)


def breaches(*records: CallRecord, journal: str = "", ended_at: float = 101.0) -> list[str]:
    """Return what was found, as words; the journal is written as ``begin t; end t``."""
    found = judge(records, Journal.of(journal.split("; ")), ended_at=ended_at, rules=RULES)
    return [breach.what for breach in found.breaches]


# --- nothing to complain of ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("its", "journal"),
    [
        (record("answer", value=truth.answer("t")), ""),
        (record("work", value=truth.answer("t")), "begin t; end t"),
        (record("stream", value=truth.chunks("t")), ""),
        (record("work", Outcome.LOST), "begin t"),
        (record("work", Outcome.LOST), ""),
        (record("stream", Outcome.LOST, value=truth.chunks("t")[:2]), ""),
        (record("answer", Outcome.POISON, note="3 deaths: a; b; c"), ""),
        (record("answer", Outcome.TIMEOUT, deadline_s=0.1, note="queued"), ""),
        (record("work", Outcome.TIMEOUT, deadline_s=0.1, note="running"), "begin t"),
        (record("answer", Outcome.CANCELLED, may_leave=True), ""),
        (record("fail", Outcome.APP_ERROR, note=f"ValueError: {truth.answer('t')}"), ""),
        (record("answer", Outcome.APP_ERROR, note="MemoryError"), ""),
        (record("answer", Outcome.DISCONNECTED, is_cut=True), ""),
        (record("work", None, is_cut=True), "begin t"),
        (record("version", token="reload-1v7", value=7), ""),
    ],
)
def test_a_kept_promise_is_no_breach(its: CallRecord, journal: str) -> None:
    assert breaches(its, journal=journal) == []


# --- lost ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "its",
    [
        record("answer", None),
        record("answer", Outcome.LOST),
        record("stream", Outcome.LOST),
        record("answer", Outcome.REFUSED),
        record("work", Outcome.REFUSED),
        record("answer", Outcome.DISCONNECTED),
        record("answer", Outcome.POISON, note="2 deaths: a; b"),
    ],
)
def test_an_answer_that_was_promised_and_did_not_come_is_lost(its: CallRecord) -> None:
    assert breaches(its) == ["lost"]


# --- doubled ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "its",
    [
        record("work", value=truth.answer("t")),
        record("work", Outcome.LOST),
        record("work", Outcome.CANCELLED, may_leave=True),
        record("work", None, is_cut=True),
    ],
)
def test_a_second_begin_is_a_doubled_run_whatever_the_caller_was_told(its: CallRecord) -> None:
    assert breaches(its, journal="begin t; begin t; end t") == ["doubled"]


# --- wrong --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("its", "journal"),
    [
        (record("answer", value=truth.answer("another")), ""),
        (record("answer", value=None), ""),
        (record("stream", value=truth.chunks("t")[:-1]), ""),
        (record("stream", value=truth.chunks("another")), ""),
        (record("stream", Outcome.LOST, value=["not mine"]), ""),
        (record("stream", Outcome.CANCELLED, may_leave=True, value=truth.chunks("t")[1:3]), ""),
        (record("work", value=truth.answer("t")), "begin t"),
        (record("segfault", value=truth.answer("t")), "begin t; end t"),
        (record("answer", Outcome.CANCELLED), ""),
        (record("answer", Outcome.TIMEOUT), ""),
        (record("answer", Outcome.TIMEOUT, took_s=0.1, deadline_s=0.2), ""),
        (record("work", Outcome.TIMEOUT, deadline_s=0.1, note="queued"), "begin t"),
        (record("work", Outcome.POISON, note="3 deaths: a; b; c"), ""),
        (record("answer", Outcome.APP_ERROR, note="KeyError: 1"), ""),
        (record("fail", Outcome.APP_ERROR, note=f"ValueError: {truth.answer('another')}"), ""),
        (record("answer", Outcome.OTHER, note="ProtocolError"), ""),
        (record("version", token="reload-1v7", value=6), ""),
    ],
)
def test_what_is_not_so_is_wrong(its: CallRecord, journal: str) -> None:
    assert breaches(its, journal=journal) == ["wrong"]


# --- hung ---------------------------------------------------------------------------------------------------------


def test_a_call_that_nobody_settles_hangs_when_its_time_is_up() -> None:
    assert breaches(record("answer", None), ended_at=110.9) == ["lost"]
    assert breaches(record("answer", None), ended_at=111.1) == ["hung"]


def test_an_outcome_after_deadline_grace_and_margin_came_too_late() -> None:
    its = record("work", Outcome.TIMEOUT, deadline_s=1.0, took_s=2.4, note="running")
    assert breaches(its) == []
    assert breaches(replace(its, settled_at=102.6)) == ["hung"]


def test_a_slow_reader_is_given_its_time() -> None:
    its = record("stream", value=truth.chunks("t"), took_s=12.0)
    assert breaches(its) == ["hung"]
    assert breaches(replace(its, extra_s=2.0)) == []


# --- stalls -------------------------------------------------------------------------------------------------------


def span(asked_at: float, settled_at: float | None, outcome: Outcome | None = Outcome.ANSWER) -> CallRecord:
    return CallRecord(token="t", kind="answer", caller="c", asked_at=asked_at, settled_at=settled_at, outcome=outcome)


@pytest.mark.parametrize(
    ("spans", "stall_s"),
    [
        ([], 0.0),
        ([span(0, 1)], 1.0),
        ([span(0, 1), span(5, 6)], 1.0),
        ([span(0, 4), span(1, 2), span(2, 5)], 2.0),
        ([span(0, 1), span(0, 3, Outcome.LOST), span(2, 5)], 4.0),
        ([span(0, 2, Outcome.LOST), span(3, 4)], 2.0),
        ([span(0, 1), span(0, None, None)], 9.0),
    ],
)
def test_a_stall_is_a_span_in_which_calls_are_open_and_none_is_answered(
    spans: list[CallRecord], stall_s: float
) -> None:
    assert math.isclose(longest_stall_s(spans, ended_at=10.0), stall_s)


# --- what the verdict is given ------------------------------------------------------------------------------------


def test_the_error_of_a_call_has_one_name() -> None:
    errors = [PoisonCall("x"), WorkerLost("x"), DirtyTimeoutError(), CallCancelled("x"), QueueFull("x")]
    assert [outcome_of(error) for error in errors] == ["poison", "worker lost", "timeout", "cancelled", "refused"]
    assert [outcome_of(error) for error in (DirtyAppError("x"), KeyError())] == ["app error", "other"]


def test_the_last_line_of_a_record_counts_and_half_a_line_does_not() -> None:
    asked, settled = record("answer", None), record("answer", value="x")
    other = replace(asked, token="u")
    lines = [asked.as_line(), settled.as_line(), other.as_line(), replace(other, outcome=Outcome.LOST).as_line()[:-9]]
    assert merged(line.strip() for line in lines) == [settled, other]
    assert json.loads(asked.as_line())["outcome"] is None


def test_the_journal_counts_what_several_writers_wrote(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert Journal.read(path) == Journal()
    first, second = JournalWriter(str(path)), JournalWriter(str(path))
    first.begin("a")
    second.begin("a")
    first.end("a")
    journal = Journal.read(path)
    assert (journal.begun["a"], journal.ended["a"], journal.begun["b"]) == (2, 1, 0)
