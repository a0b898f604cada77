"""The departure: how one launch of launart ends, and who is cancelled when. Judges nobody; knows no signal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from launart import Launart, Service
from launart.status import ManagerStatus
from loguru import logger

from dirtybus.config.fitting import EXIT_MARGIN_S
from dirtybus.services.stages import ENTERING, NOT_LEFT, UNPREPARED, walk_to_end

__all__ = ["Departure", "ExitLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitLimits:
    """How long the parts of an exit may take, in seconds from the moment it was asked for.

    Attributes:
        delay_s: to go on taking work, where any is taken; the other spans count from the end of this one.
        graceful_s: for work in progress.
        leave_s: for a service to leave its preparing or blocking stage; then it is cancelled.
        cleanup_s: for the cleanup stage of a service that is not ours, from when it begins.
        margin_s: for everything else; ``delay_s + graceful_s + margin_s`` after the request the process is ended.
        cold_s: from a second signal to the end of the process.
    """

    delay_s: float = 0.0
    graceful_s: float = 30.0
    leave_s: float = 2.0
    cleanup_s: float = 10.0
    margin_s: float = EXIT_MARGIN_S
    cold_s: float = 0.6

    @property
    def overtime_s(self) -> float:
        """How long to wait for what must end now: a drain whose time is up, a service that was cancelled."""
        return 0.1 * self.margin_s

    @property
    def cancel_s(self) -> float:
        """When every service that still runs is cancelled."""
        return self.graceful_s + 0.5 * self.margin_s

    @property
    def give_up_s(self) -> float:
        """When those that swallowed that are left behind."""
        return self.graceful_s + 0.75 * self.margin_s

    @property
    def hard_s(self) -> float:
        """When the process is ended from outside of its event loop, at the latest."""
        return self.delay_s + self.graceful_s + self.margin_s


class Departure:
    """The end of one launch: begun at most once, then enforced by timers until `conclude`.

    Args:
        launart: what is to end.
        loop: the loop that it runs on.
        limits: the deadlines.
        on_overrun: called with the id of a service that is cancelled because of a deadline, and with why.
    """

    def __init__(
        self,
        launart: Launart,
        loop: asyncio.AbstractEventLoop,
        limits: ExitLimits,
        on_overrun: Callable[[str, str], object],
    ) -> None:
        self.loop = loop
        #: set when waiting for the services makes no sense any more
        self.given_up: asyncio.Future[None] = loop.create_future()
        self._launart = launart
        self.limits = limits
        self._on_overrun = on_overrun
        self._is_begun = False
        #: when the time of work in progress is over; None while nobody was told to end
        self._work_ends_at: float | None = None
        self._written_off: set[str] = set()
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def is_announced(self) -> bool:
        """Whether the application was told to end, though it may still take work."""
        return self._work_ends_at is not None

    @property
    def is_begun(self) -> bool:
        """Whether every service was told to leave."""
        return self._is_begun

    @property
    def remaining_s(self) -> float:
        """How long work in progress may still go on."""
        if self._work_ends_at is None:
            return self.limits.graceful_s
        return max(0.0, self._work_ends_at - self.loop.time())

    def announce(self, begin: Callable[[], object]) -> None:
        """Have ``begin`` called after ``delay_s`` seconds, unless that is done before; `conclude` calls it off."""
        self._work_ends_at = self.loop.time() + self.limits.delay_s + self.limits.graceful_s
        self._after(self.limits.delay_s, begin)

    def begin(self) -> None:
        """Tell every service to leave, and set the deadlines."""
        self._is_begun = True
        self._work_ends_at = self.loop.time() + self.limits.graceful_s
        self._launart.status.exiting = True
        for service, task in self._alive():
            # who has prepared passes through its blocking stage, which it leaves at once, and so gets to its cleanup
            if "preparing" in service.stages and service.status.stage in UNPREPARED:
                task.cancel()
        self._end_blocking()
        self._after(self.limits.leave_s, self._cancel_lingering)
        self._after(self.limits.cancel_s, self._cancel_late)
        self._after(self.limits.give_up_s, self._give_up)

    def hurry(self) -> None:
        """Cancel every service now, and wait only half of ``cold_s`` for what they make of it."""
        self._is_begun = True
        self._work_ends_at = self.loop.time()
        for _, task in self._alive():
            task.cancel()
        self._after(0.5 * self.limits.cold_s, self._give_up)

    def limit_cleanup(self, service: Service, task: asyncio.Task[Any], *, is_ours: bool) -> asyncio.TimerHandle:
        """Cancel the service when its cleanup has taken too long, unless the returned timer is cancelled before.

        One of ours ends its drain by itself when work has no time left; this is for when it fails to.
        """
        if is_ours:
            span_s, why = self.remaining_s + 2 * self.limits.overtime_s, "its drain went on when its time was over"
        else:
            span_s, why = self.limits.cleanup_s, f"its cleanup took over {self.limits.cleanup_s:g} s (cleanup_s)"
        return self.loop.call_later(span_s, self._overrun, service, task, why)

    def settle(self) -> None:
        """To be called when a service has ended. Gives up when all that still run were written off."""
        if self._written_off and self._written_off.issuperset(service.id for service, _ in self._alive()):
            self._give_up()

    def conclude(self, launching: asyncio.Task[Any]) -> None:
        """Stop the deadlines. A launch that was given up is left behind, and launart may be launched again."""
        for timer in self._timers:
            timer.cancel()
        self.given_up.cancel()
        launching.cancel()
        for _, task in self._alive():
            task.cancel()
        if self._launart.task_group is not None:
            # launart's own end was not reached
            self._launart.task_group = None
            self._launart.status = ManagerStatus()

    def _alive(self) -> Iterator[tuple[Service, asyncio.Task[Any]]]:
        for name, task in list(self._launart.tasks.items()):
            service = self._launart.components.get(name)
            if service is not None and not task.done():
                yield service, task

    def _end_blocking(self) -> None:
        """Let launart go on to the cleanup without waiting for blocking stages, as its own signal handler does."""
        group = self._launart.task_group
        if group is None or group.blocking_task is None:
            return
        if any("blocking" in each.stages and each.status.stage in ENTERING for each, _ in self._alive()):
            # it would wait for a blocking stage that is over, for ever; it leaves by itself, and the group ends then
            return
        group.stop = True
        group.blocking_task.cancel()

    def _after(self, span_s: float, order: Callable[[], object]) -> None:
        self._timers.append(self.loop.call_later(span_s, order))

    def _cancel_lingering(self) -> None:
        for service, task in self._alive():
            if service.status.stage in NOT_LEFT:
                why = (
                    f"still {service.status.stage or 'outside of its stages'} {self.limits.leave_s:g} s after the exit"
                )
                self._overrun(service, task, f"{why}; let it await manager.status.wait_for_sigexit()")

    def _cancel_late(self) -> None:
        for service, task in self._alive():
            self._overrun(service, task, f"still {service.status.stage} when all had to be over")

    def _overrun(self, service: Service, task: asyncio.Task[Any], why: str) -> None:
        if not task.done():
            self._on_overrun(service.id, why)
            task.cancel()
            self._after(self.limits.overtime_s, partial(self._write_off, service, task))

    def _write_off(self, service: Service, task: asyncio.Task[Any]) -> None:
        if not task.done():
            logger.error("service {} does not end though it was cancelled: going on without it", service.id)
            # whoever waits for a stage of it goes on, so that the others get to their cleanup
            walk_to_end(service.status)
            self._written_off.add(service.id)
            self.settle()

    def _give_up(self) -> None:
        if not self.given_up.done():
            self.given_up.set_result(None)
