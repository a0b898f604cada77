"""The faults: a table of what can go wrong, and when it does. Each picks its victim by what the arbiter's status says.

A fault returns whether it happened: there may be nobody to do it to.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import BootFailed
from tests.chaos.apps import FAIR
from tests.chaos.asking import Asker
from tests.chaos.crowd import Crowd
from tests.chaos.mix import Plan, draw, plan_of

__all__ = ["FAULTS", "Code", "Planned", "World", "plan_faults"]

_LEAST, _MOST = 2, 4
_CHANCE_S = 4.0  # how long a fault waits for somebody in the state that it wants: longer than from lull to lull
_RELOADS, _RELOAD_S = 3, 20.0


class Code:
    """The part of the app that reloads change: a module of one line, where workers look first."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "storm_code.py"
        self.version = 0
        self.renew()

    def renew(self) -> int:
        """Write the next version and return it."""
        self.version += 1
        self._write(f"VERSION = {self.version}\n")
        return self.version

    def break_it(self) -> None:
        self._write("raise RuntimeError('broken on purpose')\n")

    def mend(self) -> None:
        self._write(f"VERSION = {self.version}\n")

    def _write(self, text: str) -> None:
        # renamed into place: a worker that boots meanwhile reads one or the other
        fresh = self._path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._path)


@dataclass(kw_only=True)
class World:
    """What faults are done to."""

    arbiter: Arbiter
    asker: Asker
    crowd: Crowd
    code: Code
    socket_path: Path
    size: int
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def token(self, name: str) -> str:
        return f"{name}-{next(self.numbers)}"

    def pids(self, *states: str) -> list[int]:
        """Return the processes of the workers in these states; of all workers for none."""
        workers: list[dict[str, Any]] = self.arbiter.status()["workers"]
        return [w["pid"] for w in workers if w["pid"] and (not states or w["state"] in states)]

    async def pid_in(self, numbers: random.Random, *states: str) -> int | None:
        """Return some worker in one of the states, as soon as there is one; None when none comes to be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CHANCE_S):
                while not (pids := self.pids(*states)):
                    await asyncio.sleep(0.002)
                return numbers.choice(pids)
        return None

    async def reload(self) -> None:
        async with asyncio.timeout(_RELOAD_S):
            await self.arbiter.reload()

    def signal(self, pid: int | None, number: signal.Signals) -> bool:
        """Send a signal to a worker of ours, and to nobody else. False when it is gone."""
        try:
            if pid is None or psutil.Process(pid).ppid() != os.getpid():
                return False
            os.kill(pid, number)
        except (psutil.NoSuchProcess, ProcessLookupError):
            return False
        return True


Act = Callable[[World, random.Random], Awaitable[bool]]

# --- processes ----------------------------------------------------------------------------------------------------


async def kill_idle(world: World, numbers: random.Random) -> bool:
    return world.signal(await world.pid_in(numbers, "idle"), signal.SIGKILL)


async def kill_busy(world: World, numbers: random.Random) -> bool:
    return world.signal(await world.pid_in(numbers, "busy"), signal.SIGKILL)


async def kill_booting(world: World, numbers: random.Random) -> bool:
    """Kill a worker, and its successor in the middle of its start."""
    world.signal(await world.pid_in(numbers, "idle", "busy"), signal.SIGKILL)
    pid = await world.pid_in(numbers, "booting")
    await asyncio.sleep(numbers.uniform(0.0, 0.1))
    return pid in world.pids("booting") and world.signal(pid, signal.SIGKILL)


async def kill_draining(world: World, numbers: random.Random) -> bool:
    """Make a worker leave, and kill it on its way out."""
    world.arbiter.resize(max(_LEAST, world.arbiter.target - 1))
    killed = world.signal(await world.pid_in(numbers, "draining"), signal.SIGKILL)
    world.arbiter.resize(world.size)
    return killed


async def kill_all(world: World, numbers: random.Random) -> bool:
    """Kill every worker at the same moment."""
    return [world.signal(pid, signal.SIGKILL) for pid in world.pids()].count(True) > 0


async def pause(world: World, numbers: random.Random) -> bool:
    """Stop a worker, and let it go on before anybody loses patience, or after."""
    pid = await world.pid_in(numbers, "idle", "busy")
    stopped = world.signal(pid, signal.SIGSTOP)
    await asyncio.sleep(numbers.uniform(0.02, 1.0))
    world.signal(pid, signal.SIGCONT)
    return stopped


async def freeze(world: World, numbers: random.Random) -> bool:
    """Stop a worker for good."""
    return world.signal(await world.pid_in(numbers, "busy"), signal.SIGSTOP)


# --- calls that are faults ----------------------------------------------------------------------------------------


def deadly_call(kind: str) -> Act:
    async def call(world: World, numbers: random.Random) -> bool:
        token = world.token(kind)
        await world.asker.ask(plan_of(kind, token), token)
        return True

    return call


async def burst(world: World, numbers: random.Random) -> bool:
    """Ask for very much at once."""
    async with asyncio.TaskGroup() as tasks:
        for _ in range(150):
            token = world.token("burst")
            tasks.create_task(world.asker.ask(draw(numbers, token), token))
    return True


# --- clients ------------------------------------------------------------------------------------------------------


async def kill_client(world: World, numbers: random.Random) -> bool:
    await world.crowd.replace_victim()
    return True


async def babble(world: World, numbers: random.Random) -> bool:
    """Connect, say what is no message, or half of one, and hang up."""
    words = numbers.choice([b"", b"GET / HTTP/1.1\r\n\r\n", numbers.randbytes(300), b"\x00" * 7, b"\xff" * 64])
    with socket.socket(socket.AF_UNIX) as peer:
        peer.setblocking(False)
        await asyncio.get_running_loop().sock_connect(peer, str(world.socket_path))
        with suppress(ConnectionError, BlockingIOError):
            peer.send(words)
            await asyncio.sleep(numbers.uniform(0.0, 0.05))
    return True


# --- the pool -----------------------------------------------------------------------------------------------------


async def resize(world: World, numbers: random.Random) -> bool:
    """Scale up or down, and back after a while."""
    world.arbiter.resize(numbers.choice([_LEAST, _MOST]))
    await asyncio.sleep(numbers.uniform(0.1, 1.0))
    world.arbiter.resize(world.size)
    return True


async def reload(world: World, numbers: random.Random) -> bool:
    """Roll new code out, again where another fault met a new worker; whoever calls afterwards must get it."""
    if world.reloading.locked():
        return False
    async with world.reloading:
        version = world.code.renew()
        for _ in range(_RELOADS):
            with suppress(BootFailed):
                await world.reload()
                token = world.token("reload") + f"v{version}"
                await world.asker.ask(Plan(kind="version", app=FAIR), token)
                return True
    return False


async def reload_broken(world: World, numbers: random.Random) -> bool:
    """Roll out code that does not boot: the old workers must serve on."""
    if world.reloading.locked():
        return False
    async with world.reloading:
        world.code.break_it()
        try:
            await world.reload()
        except BootFailed:
            return True
        finally:
            world.code.mend()
    raise AssertionError("a reload with code that cannot boot was called a success")


#: each with how often it happens in one round of all of them
FAULTS: dict[str, tuple[int, Act]] = {
    "kill_idle": (4, kill_idle),
    "kill_busy": (8, kill_busy),
    "kill_booting": (3, kill_booting),
    "kill_draining": (2, kill_draining),
    "kill_all": (1, kill_all),
    "pause": (2, pause),
    "freeze": (1, freeze),
    "segfault": (2, deadly_call("segfault")),
    "leave": (2, deadly_call("leave")),
    "leave_once": (1, deadly_call("leave_once")),
    "poison": (1, deadly_call("poison")),
    "hog": (1, deadly_call("hog")),
    "want_too_much": (1, deadly_call("want_too_much")),
    "spin": (1, deadly_call("spin")),
    "hold": (1, deadly_call("hold")),
    "burst": (1, burst),
    "kill_client": (1, kill_client),
    "babble": (1, babble),
    "resize": (2, resize),
    "reload": (1, reload),
    "reload_broken": (1, reload_broken),
}


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault of the plan: when, counted from the start, which, and what it draws its own choices from."""

    at_s: float
    name: str
    seed: int

    async def strike(self, world: World) -> bool:
        return await FAULTS[self.name][1](world, random.Random(self.seed))


def plan_faults(seed: int, seconds: float, *, per_s: float, without: Iterable[str] = ()) -> list[Planned]:
    """Return the faults of a storm: the same for the same seed. Every sort comes before any comes twice as often."""
    left_out = set(without)
    whole = [name for name, (times, _) in FAULTS.items() if name not in left_out for _ in range(times)]
    numbers = random.Random(seed)
    planned: list[Planned] = []
    bag: list[str] = []
    at_s = 0.0
    while whole and (at_s := at_s + numbers.uniform(0.4, 1.6) / per_s) < seconds:
        if not bag:
            bag = list(whole)
            numbers.shuffle(bag)
        planned.append(Planned(at_s, bag.pop(), numbers.getrandbits(32)))
    return planned
