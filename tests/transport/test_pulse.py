from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from dirtybus.transport.pulse import Pulse, give_pulse


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    pulse = Pulse()
    yield pulse
    pulse.close()
    pulse.close()


def was_answered(pulse: Pulse) -> bool:
    until = time.monotonic() + 10
    while not (answered := pulse.was_answered()) and time.monotonic() < until:
        time.sleep(0.001)
    return answered


def test_what_is_asked_comes_back_once(pulse: Pulse) -> None:
    threads = threading.active_count()
    give_pulse(os.dup(pulse.fd))
    pulse.close_fd()
    assert not pulse.was_answered(), "nobody asked yet"
    for _ in range(3):
        pulse.ask()
        assert was_answered(pulse)
        assert not pulse.was_answered()
    assert threading.active_count() == threads, "an app that counts its threads would meet ours"
    # the thread leaves with the owner
    fds = len(os.listdir("/dev/fd"))
    pulse.close()
    until = time.monotonic() + 10
    while len(os.listdir("/dev/fd")) > fds - 2:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_nobody_at_the_other_end_is_no_answer(pulse: Pulse) -> None:
    pulse.ask()
    assert not pulse.was_answered()
    pulse.close_fd()
    pulse.ask()
    assert not pulse.was_answered()


def test_asking_one_who_never_reads_does_not_block(pulse: Pulse) -> None:
    for _ in range(100_000):
        pulse.ask()
    assert not pulse.was_answered()
