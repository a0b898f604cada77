from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.oom import OomCounter
from dirtybus.transport import posix


@pytest.mark.parametrize(
    ("status", "hint", "text"),
    [
        (ExitStatus.of(3), None, "it exited with code 3"),
        (ExitStatus.of(-11), None, "it was killed by SIGSEGV"),
        (ExitStatus(None, "SIGKILL", is_ours=True, oom_kills=3), None, "it was killed by SIGKILL"),
        (ExitStatus(None, "SIGKILL"), None, "it was killed by SIGKILL, perhaps by the kernel for want of memory"),
        (
            ExitStatus(None, "SIGKILL", oom_kills=0),
            False,
            "it was killed by SIGKILL; nobody here sent it; the kernel's out-of-memory counter did not move",
        ),
        (
            ExitStatus(None, "SIGKILL", oom_kills=1),
            True,
            "it was killed by SIGKILL; the kernel has killed 1 process for want of memory meanwhile",
        ),
        (
            ExitStatus(None, "SIGKILL", oom_kills=2),
            True,
            "it was killed by SIGKILL; the kernel has killed 2 processes for want of memory meanwhile",
        ),
    ],
)
def test_an_end_is_told_with_what_is_known_of_memory(status: ExitStatus, hint: bool | None, text: str) -> None:
    assert status.oom_hint is hint
    assert str(status) == text


class Counter:
    count: int | None = 5

    def read(self) -> int | None:
        return self.count


def test_what_was_counted_before_is_not_held_against_a_later_death() -> None:
    kernel = Counter()
    oom = OomCounter(kernel.read)
    assert oom.look(0.0) == 0
    kernel.count = 7
    assert oom.look(10.0) == 2
    assert oom.look(20.0) == 0


def test_workers_that_die_of_one_shortage_are_all_told_of_it() -> None:
    kernel = Counter()
    oom = OomCounter(kernel.read)
    kernel.count = 7
    assert [oom.look(10.0), oom.look(10.5), oom.look(11.0)] == [2, 2, 2]
    assert oom.look(20.0) == 0


def test_where_the_kernel_does_not_count_nothing_is_said() -> None:
    kernel = Counter()
    kernel.count = None
    oom = OomCounter(kernel.read)
    assert oom.look(0.0) is None
    kernel.count = 3
    assert oom.look(10.0) is None, "three since when?"
    assert oom.look(20.0) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the counter is Linux's")
def test_the_counter_is_found_here_and_a_plain_kill_does_not_move_it() -> None:
    before = posix.oom_kills()
    assert before is not None
    assert before >= 0
    victim = subprocess.Popen(["sleep", "60"])
    os.kill(victim.pid, signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    assert posix.oom_kills() == before


def test_on_a_system_without_such_files_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix, "_oom_counters", lambda: iter(["/no/such/file", __file__]))
    assert posix.oom_kills() is None
