"""``await launart.launch()`` inside a loop that is somebody else's: it can be cancelled, and it raises."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirtybus.errors import BootFailed, ConfigError, DirtyError
from dirtybus.services import ExitLimits
from tests.services.application import LIMITS, Application, UserService, forever
from tests.services.fake_arbiter import FakeArbiter

WITHIN_S = 10.0


class Said(list[str]):
    """What was said, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._news = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.append(line)
        self._news.set()

    async def until(self, line: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            while line not in self:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def launched(application: Application) -> AsyncIterator[asyncio.Task[None]]:
    task: asyncio.Task[None] = asyncio.create_task(application.launart.launch())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task}, timeout=WITHIN_S)
        assert task.done(), "launch() hangs"


def make(said: Said, limits: ExitLimits = LIMITS, **arbiter: object) -> Application:
    return Application(said, FakeArbiter(said, **arbiter), limits=limits)  # type: ignore[arg-type]


async def test_a_cancelled_launch_drains_before_the_cancellation_goes_on() -> None:
    said = Said()
    async with launched(make(said, work_s=0.1)) as task:
        await said.until("admission open")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert said[-3:] == ["admission closed", "workers drained clean=True", "arbiter closed"]


async def test_wait_for_a_launch_times_out_in_time_and_in_order() -> None:
    said = Said()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(make(said).launart.launch(), 0.2)
    assert said[-1] == "arbiter closed"


async def test_a_launch_cancelled_while_it_prepares_kills_what_starts() -> None:
    said = Said()
    async with launched(make(said, boot_s=60.0)) as task:
        await said.until("workers start")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert said[-2:] == ["arbiter killed", "arbiter closed"]


async def test_a_launch_cancelled_twice_kills_at_once() -> None:
    said = Said()
    application = make(said, work_s=60.0)
    application.guard.limits = ExitLimits(graceful_s=60.0, cold_s=0.5)
    async with launched(application) as task:
        await said.until("admission open")
        task.cancel()
        await asyncio.wait_for(application.arbiter.draining.wait(), WITHIN_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 2.0)
    assert "arbiter killed" in said


async def test_a_launch_raises_what_the_first_failed_service_raised() -> None:
    with pytest.raises(BootFailed, match="no model") as caught:
        await make(Said(), boot_error=BootFailed("no model")).launart.launch()
    assert "service dirtybus.workers" in caught.value.__notes__[0]


async def test_a_second_launch_of_a_running_one_is_refused_and_harms_nothing() -> None:
    said = Said()
    application = make(said)
    async with launched(application) as task:
        await said.until("admission open")
        with pytest.raises(DirtyError, match="runs already"):
            await application.launart.launch()
        application.guard.request_exit("test")
        await asyncio.wait_for(task, WITHIN_S)


async def test_services_that_require_each_other_are_named() -> None:
    said = Said()
    application = make(said)
    application.add(UserService("hen", said, "egg"), UserService("egg", said, "hen"))
    with pytest.raises(ConfigError, match=r"in a circle: .*egg, hen"):
        await application.launart.launch()
    assert not said


async def test_signals_are_given_back_when_the_launch_has_ended() -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGQUIT, signal.SIGTTIN)}
    said = Said()
    application = make(said)
    async with launched(application) as task:
        await said.until("admission open")
        during = {each: signal.getsignal(each) for each in before}
        application.guard.request_exit("test")
        await asyncio.wait_for(task, WITHIN_S)
    assert all(during[each] != before[each] for each in before)
    assert {each: signal.getsignal(each) for each in before} == before
    assert signal.set_wakeup_fd(-1) == -1


async def test_a_signal_that_somebody_handles_stays_theirs() -> None:
    def theirs(_signum: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGTERM, theirs)
    try:
        said = Said()
        async with launched(make(said)):
            await said.until("admission open")
            assert signal.getsignal(signal.SIGTERM) is theirs
        assert signal.getsignal(signal.SIGTERM) is theirs
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_people_may_still_end_a_plain_launch_by_on_sys_signal() -> None:
    said = Said()
    application = make(said)
    async with launched(application) as task:
        await said.until("admission open")
        application.launart._on_sys_signal(None, None, main_task=task)
        await asyncio.wait_for(task, WITHIN_S)
    assert said[-1] == "arbiter closed"


async def test_setting_exiting_ends_it_even_if_a_service_ignores_that() -> None:
    said = Said()
    application = make(said)
    application.add(UserService("deaf", said, block=forever))
    async with launched(application) as task:
        await said.until("admission open")
        application.launart.status.exiting = True
        with pytest.raises(DirtyError, match="service deaf: still blocking"):
            await asyncio.wait_for(task, WITHIN_S)
    assert said[-1] == "arbiter closed"


async def test_a_crash_of_a_service_that_was_added_while_running_is_its_own() -> None:
    async def crash() -> None:
        raise ValueError("on purpose")

    said = Said()
    application = make(said)
    async with launched(application) as task:
        await said.until("admission open")
        application.add(UserService("plugin", said, prepare=crash))
        plugin = application.launart.task_group
        assert plugin is not None
        await asyncio.wait({*plugin.sideload_trackers.values()}, timeout=WITHIN_S)
        assert not task.done()
        assert not application.guard.is_leaving


async def test_a_service_added_while_running_that_ignores_the_exit_does_not_hold_it_up() -> None:
    said = Said()
    application = make(said)
    async with launched(application) as task:
        await said.until("admission open")
        application.add(UserService("plugin", said, block=forever))
        await said.until("plugin prepared")
        application.guard.request_exit("test")
        await asyncio.wait({task}, timeout=WITHIN_S)
        assert task.done()
        with pytest.raises(DirtyError, match="plugin"):
            await task
    assert said[-1] == "arbiter closed"


async def test_a_service_whose_id_has_braces_still_fails_by_its_own_error() -> None:
    async def crash() -> None:
        raise ValueError("on purpose")

    said = Said()
    application = make(said)
    application.add(UserService("svc{0}", said, block=crash))
    with pytest.raises(ValueError, match="on purpose"):
        await asyncio.wait_for(application.launart.launch(), WITHIN_S)


async def test_no_task_of_ours_is_left_when_the_launch_has_ended() -> None:
    said = Said()
    application = make(said)
    async with launched(application) as task:
        await said.until("admission open")
        application.guard.request_exit("test")
        await asyncio.wait_for(task, WITHIN_S)
        await asyncio.sleep(0)
        left = {each.get_name() for each in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]
    assert not left
