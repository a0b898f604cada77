from __future__ import annotations

from dirtybus.demo.loop_lag import LoopLag
from dirtybus.demo.summary import label_table, summary
from dirtybus.demo.tally import Tally
from dirtybus.errors import Draining, WorkerLost


def tally_of(*, answered: int = 0, refused: int = 0, lost: int = 0, open_: int = 0) -> Tally:
    tally = Tally()
    for _ in range(answered + refused + lost + open_):
        tally.post()
    tally.note_ready(1, 101)
    tally.note_ready(2, 102)
    tally.note_open(10.0)
    for number in range(answered):
        tally.answer_file(101 if number % 3 else 102, 10.0 + (number + 1) * 0.5)
    for _ in range(refused):
        tally.fail(Draining("shutting down"))
    for _ in range(lost):
        tally.fail(WorkerLost("it died"))
    return tally


def told(tally: Tally) -> str:
    ledger = {"submitted": 4, "succeeded": 3, "failed": 0, "open": 0}
    return summary(tally, labels={"python": 3, "c": 1}, ledger=ledger, lag_worst_s=0.0123, chat="left out")


def test_events_posted_after_the_first_worker_was_ready_are_not_early() -> None:
    tally = Tally()
    tally.post()
    tally.note_ready(1, 101)
    tally.post()
    assert (tally.posted, tally.posted_early) == (2, 1)


def test_files_per_second_count_from_when_they_could_run() -> None:
    assert tally_of(answered=4).files_per_s == 2.0
    assert Tally().files_per_s == 0.0


def test_each_worker_has_its_count() -> None:
    assert tally_of(answered=4).by_worker() == {1: 2, 2: 2}


def test_it_is_complete_only_when_every_event_was_answered() -> None:
    assert tally_of(answered=4).is_complete
    for short in (tally_of(answered=3, refused=1), tally_of(answered=3, lost=1), tally_of(answered=3, open_=1)):
        assert not short.is_complete


def test_the_summary_shows_every_number() -> None:
    lines = told(tally_of(answered=4)).splitlines()
    assert lines == [
        "LABEL   FILES",
        "python      3",
        "c           1",
        "",
        "events     every event answered: 4/4, 4 of them posted before any worker was ready",
        "files      4 in 2.0 s, 2 files/s",
        "workers    w1 2, w2 2",
        "loop lag   worst 12.3 ms, measured every 10 ms while the workers worked",
        "calls      4 submitted, 3 succeeded, 0 open",
        "chat       left out",
    ]


def test_the_summary_never_claims_what_did_not_happen() -> None:
    text = told(tally_of(answered=1, refused=2, lost=1, open_=1))
    assert "every event" not in text
    assert "1/5 answered, 2 refused, 1 failed, 1 open" in text
    assert "Draining: shutting down" in text
    assert "WorkerLost: it died" in text


def test_many_labels_end_in_a_line_for_the_rest() -> None:
    lines = list(label_table({f"label{number}": number for number in range(1, 13)}))
    assert len(lines) == 1 + 10 + 1 + 1
    assert lines[1].split() == ["label12", "12"]
    assert lines[-2] == "and 2 more labels on 3 files"
    assert list(label_table({})) == []


def test_the_worst_lag_is_kept_and_an_early_tick_is_none() -> None:
    lag = LoopLag()
    for late_s in (0.002, 0.010, -0.001):
        lag.note(late_s)
    assert (lag.now_s, lag.worst_s) == (0.0, 0.010)
