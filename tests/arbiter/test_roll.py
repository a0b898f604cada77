from __future__ import annotations

from typing import cast

import pytest

from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.ledger import Entry
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.spawner import Child
from dirtybus.pool.model import CallId, WorkerId
from dirtybus.pool.ports import KillReason
from dirtybus.protocol.heads import BootFailed, Booting

APPS = ("m:A", "m:B")


class Dead:
    """A process that had begun some calls."""

    pid = 7

    def __init__(self, *begun: int) -> None:
        self.begun = begun

    def was_begun(self, call_id: int) -> bool:
        return call_id in self.begun


def dead_worker(*begun: int, boot_s: float | None = None) -> WorkerRecord:
    return WorkerRecord(WorkerId(1), APPS, 10.0, child=cast("Child", Dead(*begun)), boot_s=boot_s)


def entry_of(call: int, app: str) -> Entry:
    return Entry(CallId(call), app, "go", 0.0)


def test_the_app_that_was_booting_is_to_blame() -> None:
    record = dead_worker()
    record.note_step(Booting(step="import", app="m:A"), 10.5)
    record.note_step(Booting(step="init", app="m:B"), 11.0)
    assert record.blamed() == ("m:B",)
    record.report = BootFailed(step="init", app="m:A", duration_s=1.0, error={})
    assert record.blamed() == ("m:A",), "its own word counts"


@pytest.mark.parametrize("step", [None, Booting(step="dirty_worker_init")])
def test_a_step_that_is_no_apps_is_held_against_each_app(step: Booting | None) -> None:
    record = dead_worker()
    record.step = step
    assert record.blamed() == APPS


def test_once_it_was_ready_the_calls_that_had_begun_are_to_blame() -> None:
    record = dead_worker(1, 2, 3, boot_s=1.0)
    record.step = Booting(step="init", app="m:B")
    record.calls = {CallId(n): entry_of(n, app) for n, app in ((1, "m:A"), (2, "m:A"), (4, "m:B"))}
    assert record.blamed() == ("m:A",)
    record.calls = {}
    assert record.blamed() == (), "it was idle"


def test_nobody_is_to_blame_for_an_end_that_was_ordered_or_a_process_that_never_was() -> None:
    record = dead_worker(1, boot_s=1.0)
    record.calls = {CallId(1): entry_of(1, "m:A")}
    for why, blamed in ((KillReason.HEARTBEAT, ("m:A",)), (KillReason.DRAIN_DEADLINE, ())):
        record.killed_for = why
        assert record.blamed() == blamed
    record.killed_for, record.is_dismissed = None, True
    assert record.blamed() == ()
    assert WorkerRecord(WorkerId(1), APPS, 10.0).blamed() == ()


def test_the_boot_report_of_one_that_cannot_speak_any_more_has_the_last_step_and_its_span() -> None:
    record = dead_worker()
    record.lines.append("Thread 0x1 (most recent call first):")
    record.killed_for = KillReason.BOOT_TIMEOUT
    assert record.boot_error(ExitStatus.of(-9), 5.0).details["step"] == "boot"
    record.note_step(Booting(step="init", app="m:B"), 11.0)
    error = record.boot_error(ExitStatus.of(-9), 5.0)
    assert (error.details["step"], error.details["app"], error.details["duration_s"]) == ("init", "m:B", 4.0)
    assert error.message.startswith("worker 1 could not start: init of m:B failed after 4.0 s: killed because it did")
    assert error.message.endswith("| Thread 0x1 (most recent call first):")
