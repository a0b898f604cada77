"""Run one scenario as a process: what happens goes to stdout line by line, the log to stderr."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable

from creart import it
from graia.broadcast import Broadcast
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from launart import Launart
from launart.status import ManagerStatus

from dirtybus.errors import BootFailed
from dirtybus.events import DrainBegun, DrainEnded, ScaleRequested, ShutdownRequested
from tests.services.application import Application, UserService, forever
from tests.services.fake_arbiter import FakeArbiter


def say(line: str) -> None:
    print(line, flush=True)


def app(graceful_s: float = 2.0, **arbiter: object) -> Application:
    fake = FakeArbiter(say, **arbiter)  # type: ignore[arg-type]
    # the plain objects that every library of the process shares
    made = Application(say, fake, graceful_s=graceful_s, launart=it(Launart), broadcast=it(Broadcast))

    async def drain_begun() -> None:
        say("drain begun")

    async def drain_ended(event: DrainEnded) -> None:
        say(f"drain ended clean={event.clean}")

    made.broadcast.receiver(DrainBegun)(drain_begun)
    made.broadcast.receiver(DrainEnded)(drain_ended)
    return made


def user(name: str, *required: str, **steps: object) -> UserService:
    return UserService(name, say, *required, **steps)  # type: ignore[arg-type]


async def crash() -> None:
    raise ValueError("crashed on purpose")


async def crash_soon() -> None:
    await asyncio.sleep(0.05)
    raise ValueError("crashed on purpose")


def cooperating() -> Application:
    made = app()
    made.add(user("db"), user("web", "db"))
    return made


def ignores_exit() -> Application:
    made = cooperating()
    made.add(user("deaf", "web", block=forever))
    return made


def ignores_exit_without_cleanup() -> Application:
    made = cooperating()
    made.add(user("deaf", "web", block=forever, stages={"preparing", "blocking"}))
    return made


def cleans_for_ever() -> Application:
    made = cooperating()
    made.add(user("slow", "web", cleanup=forever))
    return made


def swallows_cancel() -> Application:
    async def swallow() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                say("cancel swallowed")

    made = app(graceful_s=0.2)
    made.add(user("db"), user("stubborn", block=swallow))
    return made


def slow_boot() -> Application:
    made = app(boot_s=30.0)
    made.add(user("db"))
    return made


def prepare_fails_alone() -> Application:
    made = app()
    for name in list(made.launart.components):
        made.launart.remove_component(name)
    made.add(user("bad", prepare=crash))
    return made


def prepare_fails_beside_prepared() -> Application:
    async def late() -> None:
        say("second was asked to prepare")

    made = app()
    made.add(user("db"), user("bad", "db", prepare=crash_soon), user("good", "db"), user("second", "bad", prepare=late))
    return made


def crashes_before_first_stage() -> Application:
    class Bad(UserService):
        async def launch(self, manager: Launart) -> None:
            raise ValueError("crashed on purpose")

    made = cooperating()
    made.add(Bad("bad", say))
    return made


def returns_without_stages() -> Application:
    class Bad(UserService):
        async def launch(self, manager: Launart) -> None:
            say("bad returned")

    made = cooperating()
    made.add(Bad("bad", say))
    return made


def boot_fails() -> Application:
    made = app(boot_error=BootFailed("model.bin is not there"))
    made.add(user("db"))
    return made


def blocking_fails() -> Application:
    async def slowly() -> None:
        await asyncio.sleep(0.2)

    made = app()
    made.add(user("db"), user("bad", "db", block=crash_soon), user("top", "bad", cleanup=slowly))
    return made


def cleanup_fails() -> Application:
    async def slowly() -> None:
        await asyncio.sleep(0.2)

    made = app()
    made.add(user("db"), user("bad", "db", cleanup=crash), user("slow", "db", cleanup=slowly))
    return made


def nothing_blocks() -> Application:
    made = app()
    for name in list(made.launart.components):
        made.launart.remove_component(name)
    made.add(user("db", stages={"preparing", "cleanup"}))
    return made


def unknown_required() -> Application:
    made = app()
    made.add(user("bad", "nobody"))
    return made


def sys_exit() -> Application:
    async def leave() -> None:
        sys.exit(3)

    made = app()
    made.add(user("db"), user("bad", "db", block=leave))
    return made


def keyboard_interrupt() -> Application:
    async def leave() -> None:
        raise KeyboardInterrupt

    made = app()
    made.add(user("db"), user("bad", "db", block=leave))
    return made


def cancels_itself() -> Application:
    async def leave() -> None:
        await asyncio.sleep(0.05)
        raise asyncio.CancelledError

    made = app()
    made.add(user("db"), user("bad", block=leave))
    return made


def pool_gives_up() -> Application:
    made = app(watch_s=0.1)
    made.add(user("db"))
    return made


def long_work() -> Application:
    made = app(work_s=0.5)
    made.add(user("db"))
    return made


def work_beyond_the_deadline() -> Application:
    made = app(graceful_s=0.3, work_s=30.0)
    made.add(user("db"))
    return made


def drains_for_ever() -> Application:
    made = app(graceful_s=30.0, work_s=30.0)
    made.add(user("db"))
    return made


def deaf_drain() -> Application:
    made = app(graceful_s=0.2, deaf=True)
    made.add(user("db"))
    return made


def held_events() -> Application:
    class Asked(Dispatchable):
        class Dispatcher(BaseDispatcher):
            @staticmethod
            async def catch(interface: object) -> None: ...

    made = app(work_s=0.0)
    made.add(user("db", prepare=lambda: asyncio.sleep(0.1)))

    async def listener() -> None:
        say("event began")
        await asyncio.sleep(0.3)
        say("event ended")

    async def post() -> None:
        for _ in range(4):
            made.broadcast.postEvent(Asked())
        say("posted")

    made.broadcast.receiver(Asked)(listener)
    made.add(user("poster", prepare=post))
    return made


def blocked_loop() -> Application:
    async def block() -> None:
        say("loop blocked")
        time.sleep(60)  # noqa: ASYNC251 - to block the loop

    made = app(graceful_s=0.2)
    made.add(user("db"), user("bad", block=block))
    return made


def stuck_thread() -> Application:
    async def start() -> None:
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)

    made = app(graceful_s=0.2)
    made.add(user("db", prepare=start))
    return made


def shutdown_on_the_bus() -> Application:
    made = cooperating()

    async def ask() -> None:
        made.broadcast.postEvent(ShutdownRequested("asked by a test"))
        await made.launart.status.wait_for_sigexit()

    made.add(user("asker", block=ask))
    return made


def scaled() -> Application:
    made = cooperating()

    async def asked(event: ScaleRequested) -> None:
        say(f"asked for {event.workers}")

    made.broadcast.receiver(ScaleRequested)(asked)
    return made


def threaded(made: Application) -> None:
    thread = threading.Thread(target=made.launart.launch_blocking)
    thread.start()
    thread.join()


def embedded(made: Application) -> None:
    asyncio.run(made.launart.launch())


def blocking(made: Application) -> None:
    made.launart.launch_blocking()


def say_ready(made: Application) -> None:
    """Say so once everything blocks: a signal sent after that line meets a running application."""
    launart = made.launart

    @launart.status.on_update(ManagerStatus.stage)
    def on_stage(statv: object, stats: object, past: object, current: object) -> None:
        if current == "blocking":
            asyncio.get_running_loop().call_later(0.02, say, "running")


def main(scenario: str, how: str) -> None:
    # whoever runs the tests in the background has their children ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    made: Application = globals()[scenario]()
    say_ready(made)
    ways: dict[str, Callable[[Application], object]] = {"embedded": embedded, "threaded": threaded}
    ways.get(how, blocking)(made)
    say("returned")


if __name__ == "__main__":
    main(*sys.argv[1:])
