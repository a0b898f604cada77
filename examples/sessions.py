"""Sessions that all workers share, that end when nobody uses them, and that outlive a restart.

Run it: python examples/sessions.py
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path

from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyApp, DirtyBus, InferenceRequested, stash
from dirtybus.events import ArbiterStarting, ShutdownRequested

IDLE_S = 1.0


class Shop(DirtyApp):
    """Any worker may serve any visit: what they have to know of a visitor stands in the stash."""

    def log_in(self, name: str) -> str:
        token = secrets.token_urlsafe(8)
        stash.put("sessions", token, {"name": name, "visits": 0})
        stash.incr("statistics", "logins")
        return token

    def visit(self, token: str) -> str:
        session = stash.transact(self._count, token)
        return "please log in" if session is None else f"{session['name']}, visit {session['visits']}"

    def _count(self, tx: stash.Transaction, token: str) -> dict[str, object] | None:
        """Run again from the start if another worker changes the session meanwhile: no visit is lost."""
        session: dict[str, object] | None = tx.get("sessions", token)
        if session is not None:
            session["visits"] = int(str(session["visits"])) + 1
            tx.put("sessions", token, session)
        return session


async def first_day(bus: DirtyBus) -> str:
    """Log two visitors in, and let one of them go away."""
    ada, bob = [await ask(bus, "log_in", name) for name in ("Ada", "Bob")]
    # twenty visits at once, in two workers
    await asyncio.gather(*(ask(bus, "visit", ada) for _ in range(20)))
    print(await ask(bus, "visit", ada))
    while await bus.stash.exists("sessions", bob):
        await ask(bus, "visit", ada)  # each visit keeps Ada's session
        await asyncio.sleep(IDLE_S / 10)
    print(f"Bob has not been seen for {IDLE_S:g} s:", await ask(bus, "visit", bob))
    # Ada asks to be remembered for longer
    await bus.stash.put("sessions", ada, await bus.stash.get("sessions", ada), idle="30m")
    return ada


async def second_day(bus: DirtyBus, token: str) -> None:
    """Everything was stopped and started again since."""
    print("after a restart:", await ask(bus, "visit", token))
    print("logins so far:", await bus.stash.get("statistics", "logins"))


async def ask(bus: DirtyBus, action: str, argument: str) -> str:
    answer: str = await bus.ask(InferenceRequested("sessions:Shop", action, (argument,)))
    return answer


async def open_shop(file: Path, token: str | None) -> str:
    """Run the whole application once, from its start to its end."""
    launart, bcc = Launart(), Broadcast()
    bus = DirtyBus(
        apps=["sessions:Shop"],
        workers=2,
        stash={
            "persist": file,
            "tables": {"sessions": {"idle": IDLE_S, "max_entries": 10_000, "on_full": "lru"}},
        },
    )
    bus.install(launart, bcc)
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @bcc.receiver(ArbiterStarting)
    async def serve() -> None:
        try:
            if token is None:
                told.set_result(await first_day(bus))
            else:
                await second_day(bus, token)
                told.set_result(token)
        finally:
            bus.post(ShutdownRequested("the shop closes"))

    await launart.launch()
    return told.result()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "shop.sqlite"
        token = asyncio.run(open_shop(file, None))
        asyncio.run(open_shop(file, token))


if __name__ == "__main__":
    main()
