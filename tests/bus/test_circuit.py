"""Listeners on the bus hear when an app is out of order and when it works again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from graia.broadcast import Broadcast

from dirtybus.bus import DirtyBus
from dirtybus.errors import AppBroken, DirtyError
from dirtybus.events import CircuitClosed, CircuitOpened
from tests.arbiter.serving import BASIC, until
from tests.bus.running import running_bus

FRAIL = "tests.apps.frail:Frail"


async def test_listeners_hear_that_a_circuit_opened_and_closed_with_the_report(tmp_path: Path) -> None:
    fault = tmp_path / "fault"
    fault.write_text("")
    opened: list[tuple[str, DirtyError]] = []
    closed: list[str] = []

    def before(_: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(CircuitOpened)
        def note_opened(app: str, error: DirtyError) -> None:
            opened.append((app, error))

        @broadcast.receiver(CircuitClosed)
        def note_closed(app: str) -> None:
            closed.append(app)

    limits = {"max_restarts": 1, "restart_delay": 0.02, "restart_delay_max": 0.3, "healthy_after": 0}
    async with running_bus(FRAIL, BASIC, before=before, env={"FRAIL": str(fault)}, **limits) as (bus, _):
        fault.write_text("init raises")
        os.kill(bus.arbiter.status()["workers"][0]["pid"], signal.SIGKILL)
        await until(lambda: opened)
        assert await bus.call(BASIC, "echo", 1) == 1
        ((app, error),) = opened
        assert app == FRAIL
        assert isinstance(error, AppBroken)
        assert (error.details["app"], error.details["error_type"]) == (FRAIL, "RuntimeError")
        assert closed == []
        fault.write_text("")
        await until(lambda: closed)
        assert await bus.call(FRAIL, "work") == "done"
    assert (closed, len(opened)) == ([FRAIL], 1)
