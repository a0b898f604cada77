"""How the process ends: the drain and its deadline, the second signal, the hard timer, PID 1, process groups."""

from __future__ import annotations

import subprocess
from pathlib import Path
from signal import SIGINT, SIGQUIT, SIGTERM, SIGTTIN, SIGTTOU, Signals

import pytest

from tests.services.harness import run, scenario

UNSHARE = ("unshare", "--pid", "--fork")
#: as the brief for a cold end has it, from the signal to the end of the process
COLD_S = 1.0


def may_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], check=False, capture_output=True, timeout=10).returncode == 0
    except FileNotFoundError:
        return False


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_work_that_ends_in_time_is_waited_for(log: Path) -> None:
    ended = await run("long_work", SIGTERM, log=log)
    assert ended.code == 0
    assert ended.took_s > 0.5
    assert "drain ended clean=True" in ended.lines


async def test_work_that_is_cut_by_the_deadline_makes_code_124(log: Path) -> None:
    ended = await run("work_beyond_the_deadline", SIGTERM, log=log)
    assert ended.code == 124
    assert ended.order("drain ended clean=False", "arbiter closed", "db cleaned") == [
        "drain ended clean=False",
        "arbiter closed",
        "db cleaned",
    ]


async def test_a_drain_that_swallows_its_cancellation_is_killed_and_the_others_clean_up(log: Path) -> None:
    ended = await run("deaf_drain", SIGTERM, log=log)
    assert ended.code == 1
    assert ended.order("arbiter killed", "arbiter closed", "db cleaned") == [
        "arbiter killed",
        "arbiter closed",
        "db cleaned",
    ]


async def test_events_are_held_until_all_is_prepared_and_drained_before_anything_is_cleaned_up(log: Path) -> None:
    ended = await run("held_events", SIGTERM, log=log)
    assert ended.code == 0
    assert ended.lines.index("posted") < ended.lines.index("db prepared") < ended.lines.index("event began")
    assert ended.lines.count("event ended") == 4
    last = max(number for number, line in enumerate(ended.lines) if line == "event ended")
    assert last < ended.lines.index("workers drained clean=True")


@pytest.mark.parametrize("signum", [SIGINT, SIGTERM])
async def test_a_second_signal_kills_within_a_second_and_says_so(signum: Signals, log: Path) -> None:
    ended = await run("drains_for_ever", signum, signum, log=log)
    assert ended.code == 128 + signum
    assert ended.took_s < COLD_S
    assert "arbiter killed" in ended.lines
    assert f"{signum.name} received, and not for the first time: killing everything now" in ended.log


async def test_sigquit_kills_at_the_first_time(log: Path) -> None:
    ended = await run("drains_for_ever", SIGQUIT, log=log)
    assert ended.code == 128 + SIGQUIT
    assert ended.took_s < COLD_S
    assert "arbiter killed" in ended.lines


async def test_a_second_signal_ends_a_process_whose_thread_never_ends(log: Path) -> None:
    ended = await run("stuck_thread", SIGTERM, SIGTERM, log=log)
    assert ended.code == 128 + SIGTERM
    assert ended.took_s < COLD_S


async def test_a_blocked_loop_ends_by_the_hard_timer_with_stacks_and_kills(log: Path) -> None:
    ended = await run("blocked_loop", SIGTERM, log=log, after="loop blocked")
    assert ended.code == 1
    assert "arbiter killed" in ended.lines
    assert "Thread 0x" in ended.log
    assert "in block" in ended.log
    assert "the process did not end in time: exit code 1, forced" in ended.log


async def test_a_second_signal_ends_a_blocked_loop_too(log: Path) -> None:
    async with scenario("blocked_loop", log=log) as running:
        await running.until("loop blocked")
        running.send(SIGTERM)
        running.send(SIGINT)
        ended = await running.end()
    # two different signals may be seen in either order
    assert ended.code in (128 + SIGTERM, 128 + SIGINT)
    assert ended.took_s < COLD_S
    assert "arbiter killed" in ended.lines


async def test_a_thread_that_never_ends_does_not_keep_the_process(log: Path) -> None:
    ended = await run("stuck_thread", SIGTERM, log=log)
    assert ended.code == 1
    assert "db cleaned" in ended.lines
    assert "forced" in ended.log


async def test_a_sigint_to_the_process_group_drains_like_one_to_the_process(log: Path) -> None:
    async with scenario("cooperating", log=log) as running:
        await running.until("running")
        running.send(SIGINT, to=-running.pid)
        ended = await running.end()
    assert ended.code == 0
    assert "workers drained clean=True" in ended.lines


async def test_sigterm_drains_pid_1(log: Path) -> None:
    if not may_unshare():
        pytest.skip("this user may not make a PID namespace with unshare")
    async with scenario("long_work", log=log, prefix=UNSHARE) as running:
        await running.until("running")
        (pid_1,) = children(running.pid)
        running.send(SIGTERM, to=pid_1)
        ended = await running.end()
    assert ended.code == 0
    assert "drain ended clean=True" in ended.lines


async def test_sigttin_and_sigttou_ask_for_a_worker_more_and_less(log: Path) -> None:
    async with scenario("scaled", log=log) as running:
        await running.until("running")
        running.send(SIGTTIN)
        await running.until("resized to 3")
        running.send(SIGTTOU)
        await running.until("resized to 2")
        running.send(SIGTERM)
        ended = await running.end()
    assert ended.code == 0
    assert ended.order("asked for 3", "asked for 2") == ["asked for 3", "asked for 2"]


async def test_outside_of_the_main_thread_a_warning_says_that_signals_do_not_drain(log: Path) -> None:
    async with scenario("shutdown_on_the_bus", log=log, how="threaded") as running:
        ended = await running.end()
    assert ended.code == 0
    assert ended.log.count("SIGTERM will not drain") == 1
    assert "db cleaned" in ended.lines


async def test_sigterm_drains_an_application_under_asyncio_run(log: Path) -> None:
    ended = await run("long_work", SIGTERM, log=log, how="embedded")
    assert ended.code == 0
    assert ended.order("drain ended clean=True", "db cleaned", "returned") == [
        "drain ended clean=True",
        "db cleaned",
        "returned",
    ]


async def test_sigint_drains_an_application_under_asyncio_run(log: Path) -> None:
    ended = await run("long_work", SIGINT, log=log, how="embedded")
    # asyncio.run turns its cancellation into a KeyboardInterrupt once we have ended
    assert ended.code == -SIGINT
    assert ended.order("drain ended clean=True", "db cleaned") == ["drain ended clean=True", "db cleaned"]


async def test_a_second_signal_ends_an_application_under_asyncio_run_at_once(log: Path) -> None:
    ended = await run("drains_for_ever", SIGTERM, SIGTERM, log=log, how="embedded")
    assert ended.code == 128 + SIGTERM
    assert ended.took_s < COLD_S
    assert "arbiter killed" in ended.lines
