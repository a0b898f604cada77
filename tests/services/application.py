"""The application under test: our services over a `FakeArbiter`, and services such as users write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from graia.broadcast import Broadcast
from launart import Launart, Service
from launart.status import Phase

from dirtybus.arbiter_service import ArbiterService
from dirtybus.config import DirtyConfig
from dirtybus.locker import ProcessLocker
from dirtybus.services import ExitLimits, GateService, LaunartGuard, SignalService, WorkerService, attach
from dirtybus.stash.keeper import Keeper
from dirtybus.stash_service import StashService
from tests.services.fake_arbiter import FakeArbiter

Step = Callable[[], Awaitable[object]]

#: short, so that a test of an overrun is over soon
LIMITS = ExitLimits(leave_s=0.3, cleanup_s=0.3, margin_s=2.0, cold_s=0.4)


async def at_once() -> None:
    """A step that takes no time."""


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def new_launart() -> Launart:
    return Launart()


class UserService(Service):
    """A co-operating service of three stages, unless steps are given for them. Says what it has done."""

    def __init__(
        self,
        name: str,
        say: Callable[[str], object],
        *required: str,
        stages: set[Phase] | None = None,
        prepare: Step = at_once,
        block: Step | None = None,
        cleanup: Step = at_once,
    ) -> None:
        super().__init__()
        self.id = name
        self._say = say
        self._required = set(required)
        self._stages: set[Phase] = {"preparing", "blocking", "cleanup"} if stages is None else stages
        self._prepare, self._block, self._cleanup = prepare, block, cleanup

    @property
    def required(self) -> set[str]:
        return self._required

    @property
    def stages(self) -> set[Phase]:
        return self._stages

    async def launch(self, manager: Launart) -> None:
        if "preparing" in self._stages:
            async with self.stage("preparing"):
                await self._prepare()
                self._say(f"{self.id} prepared")
        if "blocking" in self._stages:
            async with self.stage("blocking"):
                await (self._block() if self._block else manager.status.wait_for_sigexit())
        if "cleanup" in self._stages:
            async with self.stage("cleanup"):
                await self._cleanup()
                self._say(f"{self.id} cleaned")


@dataclass
class Application:
    """A plain Launart with our services on it, in the order in which the bus will add them."""

    say: Callable[[str], object]
    arbiter: FakeArbiter
    graceful_s: float = 2.0
    limits: ExitLimits = LIMITS
    launart: Launart = field(default_factory=new_launart)
    broadcast: Broadcast = field(default_factory=Broadcast)
    locker: ProcessLocker = field(default_factory=lambda: ProcessLocker(2))

    def __post_init__(self) -> None:
        self.broadcast._background_tasks = set()
        self.broadcast.prelude_dispatchers.append(self.locker)
        attach(self.launart, self.limits)
        config = DirtyConfig(workers=0, graceful_timeout_s=self.graceful_s)
        for service in (
            SignalService(self.arbiter, self.broadcast),
            StashService(Keeper()),
            ArbiterService(self.arbiter),
            WorkerService(self.arbiter, self.broadcast),
            GateService(self.locker, self.arbiter, self.broadcast, config),
        ):
            self.launart.add_component(service)

    @property
    def guard(self) -> LaunartGuard:
        return attach(self.launart)

    def add(self, *services: Service) -> None:
        for service in services:
            self.launart.add_component(service)
