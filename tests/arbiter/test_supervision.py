"""What becomes of an app whose workers keep failing, and of its neighbours: real workers, a fault in a file."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.cli.verbs import dirtybus as verbs
from dirtybus.errors import AppBroken, DirtyError, WorkerLost
from dirtybus.events import CircuitClosed, CircuitOpened, LifecycleEvent, WorkerExited, WorkerSpawned
from dirtybus.protocol.frames import GD1, FrameBuffer
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES, decode_message, encode_message
from dirtybus.protocol.gd1_messages import Error as Gd1Error
from dirtybus.protocol.gd1_messages import Request as Gd1Request
from tests.arbiter.serving import BASIC, Diary, serving, until

FRAIL = "tests.apps.frail:Frail"
#: circuits are tried again soon, and restarts do not keep a test waiting
SOON = {"restart_delay": 0.02, "restart_delay_max": 0.4}
Break = Callable[[str], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fault"
    path.write_text("")
    return path


@pytest.fixture
def break_(path: Path) -> Break:
    """Say how the app fails from now on."""

    def break_(fault: str) -> None:
        path.with_suffix(".new").write_text(fault)
        path.with_suffix(".new").rename(path)

    return break_


@asynccontextmanager
async def frail(path: Path, **settings: Any) -> AsyncIterator[Arbiter]:
    # a kill by a test is nobody's failure: only boots count, unless told otherwise
    given = {**SOON, "workers": 2, "max_restarts": 2, "healthy_after": 0, **settings}
    async with serving(FRAIL, BASIC, env={"FRAIL": str(path)}, **given) as arbiter:
        yield arbiter


@asynccontextmanager
async def neighbour(arbiter: Arbiter) -> AsyncIterator[list[int]]:
    """Ask the other app on the same workers all the while; each call must be answered."""
    answers: list[int] = []
    is_over = asyncio.Event()

    async def ask() -> None:
        while not is_over.is_set():
            answers.append(await arbiter.call(BASIC, "echo", len(answers), timeout_s=20))
            await asyncio.sleep(0.002)

    asking = asyncio.create_task(ask())
    try:
        yield answers
    finally:
        is_over.set()
        await asking
    assert answers == list(range(len(answers)))
    assert answers


async def kill_all(arbiter: Arbiter) -> None:
    """Kill every worker that there is now and wait until each has gone."""
    before = {worker["worker"]: worker["pid"] for worker in arbiter.status()["workers"]}
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not before.keys() & {worker["worker"] for worker in arbiter.status()["workers"]})


def holders(arbiter: Arbiter) -> int:
    """How many workers hold both apps and are ready."""
    ready = [worker for worker in arbiter.status()["workers"] if worker["state"] in ("idle", "busy")]
    return sum(set(worker["apps"]) == {FRAIL, BASIC} for worker in ready)


async def refusals(arbiter: Arbiter, count: int) -> list[AppBroken]:
    """Call the broken app so many times in a row; each call must fail at once."""
    told: list[AppBroken] = []
    spans = []
    for _ in range(count):
        began_at = time.perf_counter()
        with pytest.raises(AppBroken) as caught:
            await arbiter.call(FRAIL, "work")
        spans.append(time.perf_counter() - began_at)
        told.append(caught.value)
    # nothing is waited for; what one call in a hundred takes longer, the machine had others to serve
    assert sorted(spans)[len(spans) // 2] < 0.05
    assert max(spans) < 1
    return told


REPORTS: dict[str, dict[str, Any]] = {
    "init raises": {"step": "init", "error_type": "RuntimeError", "exit_code": 1},
    "init exits": {"step": "init", "exit_code": 5, "stderr": ["last words"]},
    "init hangs": {"step": "init", "signal": "SIGKILL"},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", REPORTS)
async def test_an_app_that_cannot_boot_any_more_fails_fast_with_the_boot_report_and_comes_back(
    path: Path, break_: Break, fault: str
) -> None:
    diary = Diary()
    # a boot takes a fraction of a second, but on a busy machine several
    limits = {"boot_timeout": 2.5, "max_restarts": 1} if "hangs" in fault else {}
    async with frail(path, observer=diary, **limits) as arbiter, neighbour(arbiter) as answers:
        break_(fault)
        await kill_all(arbiter)
        (opened,) = await until(lambda: diary.of(CircuitOpened))
        error = (await refusals(arbiter, 1))[0]
        assert error.details == {**error.details, **REPORTS[fault], "app": FRAIL, "app_path": FRAIL}
        assert 0 <= error.details["duration_s"] < 10
        assert error.retry_after_s == SOON["restart_delay_max"]
        assert isinstance(error.details["stderr"], list)
        if "raises" in fault:
            assert "the model is gone" in error.details["traceback"]
        if "hangs" in fault:
            assert error.details["duration_s"] > 1
            assert any("frail.py" in line for line in error.details["stderr"]), "the stacks say where it hung"
        assert (opened.app, opened.error.details["step"]) == (FRAIL, "init")
        assert isinstance(opened.error, AppBroken)
        answered = len(answers)
        await until(lambda: len(answers) > answered + 20)

        break_("")
        await until(lambda: diary.of(CircuitClosed))
        assert await arbiter.call(FRAIL, "work") == "done"
        await until(lambda: holders(arbiter) == 2)
    assert [event.app for event in diary.of(CircuitClosed)] == [FRAIL]
    assert len(diary.of(CircuitOpened)) == 1


@pytest.mark.timeout(60)
async def test_an_app_that_crashes_at_every_call_fails_fast_and_its_neighbour_lives_on(
    path: Path, break_: Break
) -> None:
    diary = Diary()
    async with frail(path, observer=diary, restart_delay_max=3, healthy_after=10) as arbiter:
        break_("calls exit")
        told: list[DirtyError] = []
        while not told or not isinstance(told[-1], AppBroken):
            with pytest.raises(DirtyError) as caught:
                await arbiter.call(FRAIL, "work")
            told.append(caught.value)
        assert {type(error) for error in told[:-1]} == {WorkerLost}
        # max_restarts and the one too many; and each worker that held the app when it was enough
        assert 3 <= len(told[:-1]) <= 3 + arbiter.target
        # a worker that was booting when it was enough may have closed it once more, until its own call
        assert len(diary.of(CircuitOpened)) == len(diary.of(CircuitClosed)) + 1
        spawned = len(diary.of(WorkerSpawned))
        async with neighbour(arbiter):
            for error in await refusals(arbiter, 200):
                assert error.details == {**error.details, "step": "running", "exit_code": 7, "app_path": FRAIL}
                assert error.details["started"] is False
            # replacements for the workers that died last, without the app; no call has started anything
            assert len(diary.of(WorkerSpawned)) <= spawned + arbiter.target
            break_("")
            await until(lambda: len(diary.of(CircuitClosed)) == len(diary.of(CircuitOpened)))
            assert await arbiter.call(FRAIL, "work") == "done"
            await until(lambda: holders(arbiter) == 2)


@pytest.mark.timeout(60)
async def test_while_a_circuit_is_open_workers_are_started_for_probes_only(path: Path, break_: Break) -> None:
    diary = Diary()
    async with frail(path, observer=diary, workers=1, max_restarts=1) as arbiter:
        break_("init raises")
        await kill_all(arbiter)
        await until(lambda: diary.of(CircuitOpened))
        assert await arbiter.call(BASIC, "echo", 1) == 1
        spawned, began_at = len(diary.of(WorkerSpawned)), time.monotonic()
        while len(diary.of(WorkerSpawned)) < spawned + 3:
            await refusals(arbiter, 3)
            await asyncio.sleep(0.01)  # the loop must hear of the workers, too
        # the first may have been due at once; each that fails puts the next one off
        assert time.monotonic() - began_at > 2 * SOON["restart_delay_max"]
        assert len(diary.of(CircuitOpened)) == 1, "a probe that fails is no news"


class Clock(Diary):
    """Notes when each event came, too."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def __call__(self, event: LifecycleEvent) -> None:
        super().__call__(event)
        self.times.append(time.monotonic())

    def gaps(self) -> list[float]:
        """Return how long after each exit the next process was there."""
        marks = [
            (at, type(event))
            for at, event in zip(self.times, self.events, strict=True)
            if isinstance(event, WorkerExited | WorkerSpawned)
        ]
        ends, starts = ([at for at, kind in marks if kind is wanted] for wanted in (WorkerExited, WorkerSpawned))
        return [start - end for end, start in zip(ends, starts[1:], strict=False)]


@pytest.mark.timeout(60)
async def test_the_first_replacement_comes_at_once_and_later_ones_ever_later(path: Path, break_: Break) -> None:
    clock = Clock()
    delays = {"restart_delay": 0.3, "restart_delay_max": 1.2, "max_restarts": 0}
    async with frail(path, observer=clock, workers=1, **delays) as arbiter:
        break_("init raises")
        await kill_all(arbiter)
        await until(lambda: len(clock.of(WorkerSpawned)) == 6)
    first, *later = clock.gaps()[:5]
    assert first < 0.3
    # jitter takes up to a half of each; what comes on top is the machine's
    for gap, full_s in zip(later, (0.3, 0.6, 1.2, 1.2), strict=True):
        assert full_s / 2 <= gap < full_s + 1.0
    assert not clock.of(CircuitOpened), "max_restarts is off"


async def test_an_arbiter_that_is_stopped_at_once_holds_nothing_against_its_apps(path: Path) -> None:
    diary = Diary()
    async with frail(path, observer=diary, workers=3, max_restarts=1, healthy_after=10) as arbiter:
        arbiter.kill()
        await until(lambda: len(diary.of(WorkerExited)) == 3)
    assert not diary.of(CircuitOpened)


# --- those who ask from outside ---


async def until_broken(arbiter: Arbiter, break_: Break) -> None:
    break_("init raises")
    await kill_all(arbiter)

    async def is_broken() -> bool:
        try:
            await arbiter.call(FRAIL, "work")
        except DirtyError as exc:
            return isinstance(exc, AppBroken)
        return False

    async with asyncio.timeout(20):
        while not await is_broken():
            await asyncio.sleep(0.01)


async def test_the_command_line_says_why_and_to_try_again_later(path: Path, break_: Break, tmp_path: Path) -> None:
    socket = str(tmp_path / "s")
    async with frail(path, workers=1, max_restarts=1, socket=socket) as arbiter:
        await until_broken(arbiter, break_)
        ended = await asyncio.to_thread(CliRunner().invoke, verbs, ["call", FRAIL, "work", "--socket", socket])
        assert (ended.exit_code, ended.stdout) == (75, "")
        assert f"dirtybus: {FRAIL} is out of order" in ended.stderr
        assert "  | RuntimeError: the model is gone" in ended.stderr


async def test_a_client_of_gunicorns_gets_the_error_that_it_knows(path: Path, break_: Break, tmp_path: Path) -> None:
    socket = str(tmp_path / "s")
    async with frail(path, workers=1, max_restarts=1, socket=socket) as arbiter:
        await until_broken(arbiter, break_)
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(encode_message(Gd1Request(FRAIL, "work"), 1))
        frames = FrameBuffer(MAX_PAYLOAD_BYTES, versions=frozenset({GD1}))
        async with asyncio.timeout(20):
            while (frame := frames.next_frame()) is None:
                frames.feed(await reader.read(1 << 16))
        writer.close()
    told = decode_message(frame)
    assert isinstance(told, Gd1Error)
    assert told.error["error_type"] == "DirtyNoWorkersAvailableError"
    assert "RuntimeError: the model is gone" in told.error["message"]
    assert told.error["details"]["app_path"] == FRAIL
    assert told.error["details"]["step"] == "init"
