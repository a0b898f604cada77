from __future__ import annotations

import asyncio
import signal

import pytest
from launart import Launart
from launart.status import ServiceStatus, U_Stage

from dirtybus.errors import DirtyError, DirtyTimeoutError
from dirtybus.services import DirtyService, ExitLimits, attach
from dirtybus.services.kills import Kills
from dirtybus.services.stages import walk_to_end
from dirtybus.services.verdict import Verdict
from tests.services.application import LIMITS, new_launart

WITHIN_S = 10.0


class Steps(DirtyService):
    """Notes each verb. A subclass overrides the one that a test is about."""

    id = "steps"

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    async def start(self) -> None:
        self.done.append("start")

    async def watch(self) -> None:
        self.done.append("watch")
        await super().watch()

    async def drain(self, within_s: float) -> None:
        self.done.append("drain")

    def kill(self) -> None:
        self.done.append("kill")


async def launch(service: DirtyService, limits: ExitLimits = LIMITS) -> Launart:
    launart = new_launart()
    launart.add_component(service)
    attach(launart, limits)
    await asyncio.wait_for(launart.launch(), WITHIN_S)
    return launart


async def test_a_service_starts_watches_and_drains_and_is_not_killed() -> None:
    class Leaving(Steps):
        async def watch(self) -> None:
            self.guard.request_exit("test")
            await super().watch()

    service = Leaving()
    await launch(service)
    assert service.done == ["start", "watch", "drain"]


async def test_a_start_that_fails_is_killed() -> None:
    class Broken(Steps):
        async def start(self) -> None:
            raise ValueError("on purpose")

    service = Broken()
    with pytest.raises(ValueError, match="on purpose"):
        await launch(service)
    assert service.done == ["kill"]


async def test_a_start_that_takes_too_long_is_killed_and_named() -> None:
    class Slow(Steps):
        start_within_s = 0.05

        async def start(self) -> None:
            await asyncio.get_running_loop().create_future()

    service = Slow()
    with pytest.raises(DirtyTimeoutError, match="service steps did not start within"):
        await launch(service)
    assert service.done == ["kill"]


async def test_a_watch_that_fails_still_lets_the_service_drain() -> None:
    class Broken(Steps):
        async def watch(self) -> None:
            raise ValueError("on purpose")

    service = Broken()
    with pytest.raises(ValueError, match="on purpose"):
        await launch(service)
    assert service.done == ["start", "drain"]


async def test_a_watch_that_ends_early_is_a_failure() -> None:
    class Early(Steps):
        async def watch(self) -> None: ...

    service = Early()
    with pytest.raises(DirtyError, match="ended, though nobody is to leave"):
        await launch(service)
    assert service.done == ["start", "drain"]


async def test_a_drain_that_fails_is_killed() -> None:
    class Broken(Steps):
        async def watch(self) -> None:
            self.guard.request_exit("test")

        async def drain(self, within_s: float) -> None:
            raise ValueError("on purpose")

    service = Broken()
    with pytest.raises(ValueError, match="on purpose"):
        await launch(service)
    assert service.done == ["start", "kill"]


async def test_a_drain_that_takes_too_long_is_work_cut_and_killed() -> None:
    class Slow(Steps):
        async def watch(self) -> None:
            self.guard.request_exit("test")

        async def drain(self, within_s: float) -> None:
            await asyncio.get_running_loop().create_future()

    service = Slow()
    launart = await launch(service, ExitLimits(graceful_s=0.1, leave_s=0.3, margin_s=1.5))
    assert service.done == ["start", "kill"]
    assert attach(launart).exit_code == 124


async def test_a_launart_has_one_guard_and_its_class_none() -> None:
    launart = new_launart()
    assert attach(launart) is attach(launart)
    assert "launch" in vars(launart)
    assert not any(name in vars(new_launart()) for name in ("launch", "launch_blocking", "_on_task_done"))


def test_launart_still_has_every_method_that_the_guard_stands_in_for() -> None:
    launart = new_launart()
    plain = set(dir(launart)) | set(vars(launart))
    attach(launart)
    assert set(vars(launart)) - plain == {"_dirtybus_guard"}


@pytest.mark.parametrize("stage", [None, "waiting-for-prepare", "preparing", "prepared", "blocking"])
def test_a_dead_service_is_walked_to_its_end_from_any_stage(stage: U_Stage) -> None:
    path: dict[U_Stage, list[U_Stage]] = {
        None: [],
        "waiting-for-prepare": ["waiting-for-prepare"],
        "preparing": ["waiting-for-prepare", "preparing"],
        "prepared": ["waiting-for-prepare", "preparing", "prepared"],
        "blocking": ["blocking"],
    }
    status = ServiceStatus()
    for each in path[stage]:
        status.stage = each
    walk_to_end(status)
    assert status.stage == "finished"


def test_a_kill_that_raises_does_not_spare_the_others() -> None:
    done: list[str] = []

    def broken() -> None:
        done.append("broken")
        raise ValueError("on purpose")

    kills = Kills()
    kills.add("first", lambda: done.append("first"))
    kills.add("broken", broken)
    kills.call_all()
    kills.call_all()
    assert done == ["broken", "first"]


def test_a_failure_beats_cut_work_and_a_cold_stop_beats_all() -> None:
    verdict = Verdict()
    assert (verdict.code, verdict.reason) == (0, "")
    verdict.cuts.append("calls were cut")
    assert verdict.code == 124
    verdict.failures["db"] = ValueError("on purpose")
    assert verdict.code == 1
    verdict.exit_called(SystemExit(7))
    assert verdict.code == 7
    verdict.cold_signal = signal.SIGTERM
    assert verdict.code == 143


@pytest.mark.parametrize(("given", "code"), [(None, 0), (0, 0), (3, 3), ("a message", 1)])
def test_sys_exit_makes_the_code_that_python_would_make(given: int | str | None, code: int) -> None:
    verdict = Verdict()
    verdict.exit_called(SystemExit(given))
    assert verdict.code == code
