from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dirtybus.services.watchdog import Watchdog

WITHIN_S = 10.0
FDS = Path("/dev/fd")


def watchdogs() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "dirtybus-watchdog"]


def join_all() -> None:
    for each in watchdogs():
        each.join(WITHIN_S)
    assert not watchdogs()


def make(seen: list[int] | None = None, news: threading.Event | None = None) -> Watchdog:
    def on_signal(signum: int) -> None:
        if seen is not None and news is not None:
            seen.append(signum)
            news.set()

    return Watchdog(on_signal=on_signal, last_words=lambda _code: None)


def test_a_stopped_watchdog_leaves_no_thread_and_no_descriptor() -> None:
    join_all()
    before = len(os.listdir(FDS))
    for _ in range(20):
        watchdog = make()
        watchdog.start()
        watchdog.start()
        watchdog.arm(60.0, 1)
        watchdog.stop()
        watchdog.stop()
    join_all()
    assert len(os.listdir(FDS)) == before


def test_the_thread_closes_nothing_that_is_still_being_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = make()
    watchdog.start()
    (thread,) = [each for each in threading.enumerate() if each.name == "dirtybus-watchdog"]
    write = os.write

    def write_late(fd: int, data: bytes) -> int:
        write(fd, data)
        thread.join(0.3)  # it has read the last order by now, and is over if it does not wait
        return write(fd, data)

    monkeypatch.setattr(os, "write", write_late)
    watchdog.stop()
    monkeypatch.undo()
    join_all()


def test_an_armed_watchdog_that_is_stopped_in_time_ends_nothing() -> None:
    watchdog = make()
    watchdog.start()
    watchdog.arm(0.2, 1)
    watchdog.stop()
    join_all()
    watchdog.arm(0.0, 1)
    time.sleep(0.3)  # longer than the order that was forgotten: the process would be gone


def test_a_signal_is_seen_while_the_main_thread_sits_in_a_system_call() -> None:
    seen: list[int] = []
    news = threading.Event()
    previous = signal.signal(signal.SIGUSR2, lambda _signum, _frame: None)
    watchdog = make(seen, news)
    watchdog.start()
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        assert news.wait(WITHIN_S)
    finally:
        watchdog.stop()
        signal.signal(signal.SIGUSR2, previous)
    assert seen == [signal.SIGUSR2]


def test_a_wakeup_descriptor_that_somebody_has_set_stays_theirs() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    try:
        watchdog = make()
        watchdog.start()
        watchdog.stop()
        assert signal.set_wakeup_fd(-1) == writer
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)
