"""A user's program under launch_blocking(): many events, some running, most waiting; says what became of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from creart import it
from graia.broadcast import Broadcast
from launart import Launart, Service

from dirtybus import DirtyBus, InferenceRequested

APP = "tests.apps.basic:Basic"
EVENTS = 220
RUNNING = 20


class Watch(Service):
    """Says when twenty calls run and two hundred wait."""

    id = "tests.watch"

    @property
    def required(self) -> set[str]:
        return {"dirtybus.workers"}

    @property
    def stages(self) -> set[str]:  # type: ignore[override]  # launart wants its own literal type
        return {"preparing", "blocking"}

    async def launch(self, manager: Launart) -> None:
        async with self.stage("preparing"):
            pass
        async with self.stage("blocking"):
            while sum(worker["running"] for worker in bus.arbiter.status()["workers"]) < RUNNING:
                await asyncio.sleep(0.01)
            print("BUSY", os.getpid(), flush=True)
            await manager.status.wait_for_sigexit()


bus = DirtyBus(apps=[APP], workers=2, threads=RUNNING // 2, gate={"max_concurrent": None})
bus.install(it(Launart), it(Broadcast))
it(Launart).add_component(Watch())
events = [bus.post(InferenceRequested(APP, "sleep", (0.4,))) for _ in range(EVENTS)]
code: object = 0
try:
    it(Launart).launch_blocking()
except SystemExit as exc:
    code = exc.code
states = [event._state for event in events]
report = {
    "answered": sum(state.settled and state.error is None for state in states),
    "failed": sum(state.error is not None for state in states),
    "unsettled": sum(not state.settled for state in states),
    "ledger": dict(bus.arbiter.ledger.as_mapping()),
}
print("REPORT", json.dumps(report), flush=True)
sys.exit(code)  # type: ignore[arg-type]  # whatever the launch asked for
