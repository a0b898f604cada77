from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from dirtybus.transport.claims import _PLACES, Claims

_WRITER = """
import sys, time
from dirtybus.transport.claims import Claims
claims = Claims.attach(int(sys.argv[1]))
for call in (3, 7):
    claims.claim(call)
print("claimed", flush=True)
time.sleep(60)
"""


def test_only_what_was_begun_is_said_to_be() -> None:
    claims = Claims.create()
    claims.claim(3)
    assert [claims.was_begun(call) for call in (2, 3, 4)] == [False, True, False]
    claims.close()
    claims.close()


def test_a_place_that_comes_round_again_errs_on_the_safe_side() -> None:
    claims = Claims.create()
    claims.claim(5 + _PLACES)
    assert claims.was_begun(5 + _PLACES)
    assert claims.was_begun(5), "it may have begun: its place was written over"
    assert not claims.was_begun(5 + 2 * _PLACES)
    claims.close()


def test_an_older_call_that_begins_later_does_not_hide_the_newer_one() -> None:
    claims = Claims.create()
    claims.claim(5 + _PLACES)
    claims.claim(5)  # it waited long, or is run again
    assert claims.was_begun(5 + _PLACES)
    assert claims.was_begun(5)
    claims.close()


def test_threads_that_share_a_place_leave_the_newest_there() -> None:
    for _ in range(50):
        claims = Claims.create()
        calls = [n * _PLACES for n in range(1, 9)]
        threads = [threading.Thread(target=claims.claim, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(claims.was_begun(call) for call in calls)
        claims.close()


def test_the_notes_outlive_kill_9_of_their_writer() -> None:
    claims = Claims.create()
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(claims.fd)], pass_fds=(claims.fd,), stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"claimed\n"
    claims.close_fd()
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait(10) == -signal.SIGKILL
    writer.stdout.close()
    assert [call for call in range(1, 10) if claims.was_begun(call)] == [3, 7]
    claims.close()
