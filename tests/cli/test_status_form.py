from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from dirtybus.cli.status_form import plain_status, screen_of

LONG_APP = "a_package_with_a_long_name.and_a_module_with_another:TheClassThatNobodyCouldNameShorter"


def status(**changes: Any) -> dict[str, Any]:
    workers = [
        {"worker": 1, "pid": 41, "state": "busy", "apps": [LONG_APP, "m:B"], "age_s": 8040.5, "boot_s": 0.1,
         "running": 2, "answered": 7, "calls": [
            {"call": 9, "app": "m:B", "action": "look", "attempt": 2, "age_s": 70.0, "running_s": 61.5,
             "outcome": None},
            {"call": 8, "app": "m:B", "action": "hang", "attempt": 1, "age_s": 130.0, "running_s": 125.0,
             "outcome": "expired"}]},
        {"worker": 2, "pid": 42, "state": "booting", "apps": ["m:B"], "age_s": 1.0, "boot_s": None, "running": 0,
         "answered": 0, "calls": []},
    ]  # fmt: skip
    told = {
        "name": "shop", "pid": 40, "state": "open", "target": 2, "smallest": 1, "least": 2, "most": 2,
        "workers": workers, "waits": {"m:B": "1 worker with it, all busy"},
        "queued": {"m:B": 3}, "broken": ["m:B"], "oldest_call_s": 70.0,
        "ledger": {"submitted": 12, "succeeded": 7, "open": 5},
        "stash": {"tables": 2, "entries": 30, "memory_bytes": 1536, "max_bytes": 2**30, "waiting": 1, "store": None},
    }  # fmt: skip
    return {**told, **changes}


def test_in_a_pipe_each_table_has_a_header_and_nothing_is_folded() -> None:
    instance, workers, queue, ledger, calls, broken, stash = plain_status(status()).split("\n\n")
    assert instance.splitlines() == [
        "# name\tstate\tpid\ttarget\tsmallest\toldest_call_s",
        "shop\topen\t40\t2\t1\t70.0",
    ]
    assert workers.splitlines() == [
        "# worker\tpid\tstate\tage_s\trunning\tanswered\tapps",
        f"1\t41\tbusy\t8040.5\t2\t7\t{LONG_APP},m:B",
        "2\t42\tbooting\t1.0\t0\t0\tm:B",
    ]
    assert queue.splitlines() == ["# app\tqueued", "m:B\t3"]
    assert ledger == "# submitted\tsucceeded\topen\n12\t7\t5"
    assert calls.splitlines() == [
        "# worker\tcall\tapp\taction\tattempt\tage_s\trunning_s\toutcome",
        "1\t9\tm:B\tlook\t2\t70.0\t61.5\t-",
        "1\t8\tm:B\thang\t1\t130.0\t125.0\texpired",
    ]
    assert broken.splitlines() == ["# broken", "m:B"]
    assert stash.splitlines() == ["# tables\tentries\tmemory_bytes\tmax_bytes\twaiting", "2\t30\t1536\t1073741824\t1"]


def test_without_an_open_call_there_is_no_oldest_one() -> None:
    assert plain_status(status(oldest_call_s=None)).splitlines()[1] == "shop\topen\t40\t2\t1\t-"
    assert "oldest" not in drawn(status(oldest_call_s=None))


def drawn(told: dict[str, Any]) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(screen_of(told))
    return out.getvalue()


def test_the_stash_is_shown_with_its_bound_and_what_is_to_be_written() -> None:
    assert "stash: 2 tables  30 entries  1.5 KiB of 1.0 GiB\n" in drawn(status()).replace(" \n", "\n")
    unbounded = {**status()["stash"], "max_bytes": None, "store": {"pending_bytes": 0, "error": None}}
    assert "1.5 KiB  0 B to be written" in drawn(status(stash=unbounded))
    failing = {**unbounded, "store": {"pending_bytes": 2048, "error": "disk full"}}
    assert "2.0 KiB to be written  ✗ disk full" in drawn(status(stash=failing))


def test_on_a_terminal_states_are_text_and_shape() -> None:
    screen = drawn(status())
    assert "dirtybus shop  pid 40  open  2 of 2 workers  3 queued  2 running" in screen
    assert "● busy" in screen
    assert "◌ booting" in screen
    assert "2h14m" in screen
    assert "calls: 12 submitted  7 succeeded  5 open  oldest 1m10s" in screen


def test_on_a_terminal_each_running_call_has_a_line_and_one_that_outlives_its_end_says_so() -> None:
    screen = drawn(status())
    looking, hanging = (next(line.split() for line in screen.splitlines() if name in line) for name in ("look", "hang"))
    assert looking == ["w1", "9", "1m01s", "1m10s", "2", "m:B", "look"]
    assert hanging == ["w1", "8", "2m05s", "2m10s", "1", "m:B", "hang", "(expired,", "still", "running)"]
    idle = [{**worker, "calls": []} for worker in status()["workers"]]
    assert "ATTEMPT" not in drawn(status(workers=idle))


def test_on_a_terminal_an_app_that_is_out_of_order_has_a_line() -> None:
    assert "✗ out of order, its workers keep failing: m:B" in drawn(status())
    assert "out of order" not in drawn(status(broken=[]))


def test_without_a_queue_there_is_no_table_of_it() -> None:
    assert "QUEUED" in drawn(status())
    assert "QUEUED" not in drawn(status(queued={}))


def test_an_elastic_pool_shows_its_limits_and_a_queue_why_it_is() -> None:
    screen = drawn(status(most=8))
    assert "2 of 2 workers (2-8)" in screen
    assert "1 worker with it, all busy" in screen
