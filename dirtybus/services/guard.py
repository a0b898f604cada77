"""The guard: makes one plain Launart fail loudly, stop on SIGTERM, and end in time. Must never learn what is drained.

launart alone dies of SIGTERM, waits for ever when a service fails to prepare, goes on without one that crashed, ends
with exit code 0 whatever happened, swallows a cancelled ``launch()``, and bounds no cleanup.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, cast

from launart import Launart, Service
from launart.status import ManagerStatus
from loguru import logger

from dirtybus.errors import DirtyError, DirtyTimeoutError
from dirtybus.services.departure import Departure, ExitLimits
from dirtybus.services.exit_signals import ExitSignals
from dirtybus.services.kills import Kills
from dirtybus.services.owned_loop import cached_loop, close_loop, run_to_end
from dirtybus.services.stages import check_required, failure_of, reach, walk_to_end
from dirtybus.services.verdict import FAILED, Verdict, cold_code

__all__ = ["LaunartGuard", "attach"]

_ATTRIBUTE: Final = "_dirtybus_guard"


def attach(launart: Launart, limits: ExitLimits | None = None) -> LaunartGuard:
    """Put a guard on this Launart, or return the one that it has; ``limits``, if given, replace the guard's.

    Only this object is changed, never its class. A Launart that already runs is guarded from its next launch on.
    """
    guard = cast("LaunartGuard | None", vars(launart).get(_ATTRIBUTE))
    if guard is None:
        guard = LaunartGuard(launart)
    if limits is not None:
        guard.limits = limits
    return guard


class LaunartGuard:
    """Stands in for some methods of one Launart, and gives our services the words for failing and ending.

    Use it in the thread of the loop that launart runs on. Get it by `attach`.
    """

    def __init__(self, launart: Launart) -> None:
        self._limits = ExitLimits()
        self.verdict = Verdict()
        self.kills = Kills()
        self.signals = ExitSignals(on_leave=self._leave, on_cold=self._stop_cold, last_words=self._say_last_words)
        self._launart = launart
        self._departure: Departure | None = None
        self._owns_process = False
        self._stand_down: Callable[[float], object] | None = None
        self._launart_launch: Callable[[], Coroutine[Any, Any, None]] = launart.launch
        self._launart_on_task_done = launart._on_task_done  # noqa: SLF001 - it logs, and withdraws interfaces
        self._launart_on_sys_signal = launart._on_sys_signal  # noqa: SLF001 - for a launch that we did not see begin
        # All of launart that we stand in for. The underscored are private: hence the pin >=0.8.2,<0.9 and the tests.
        vars(launart).update(
            {
                _ATTRIBUTE: self,
                "launch": self.launch,
                "launch_blocking": self.launch_blocking,
                "_on_sys_signal": self._on_sys_signal,
                "_on_task_done": self._on_task_done,
                "_component_prepare": self._component_prepare,
                "_component_cleanup": self._component_cleanup,
            }
        )

    # --- what services and the bus ask for ---

    @property
    def limits(self) -> ExitLimits:
        """How long the parts of an exit may take; of an exit that has begun, those of its beginning."""
        return self._limits

    @limits.setter
    def limits(self, limits: ExitLimits) -> None:
        self._limits = limits
        self.signals.limits = limits
        if self._departure is not None and not self.is_told_to_end:
            self._departure.limits = limits

    @property
    def exit_code(self) -> int:
        """What the process's exit code is to be, as things stand."""
        return self.verdict.code

    @property
    def is_leaving(self) -> bool:
        """Whether every service was told to leave."""
        return self._departure is not None and self._departure.is_begun

    @property
    def is_told_to_end(self) -> bool:
        """Whether the application was told to end; for ``delay_s`` more it may still take work."""
        return self._departure is not None and (self._departure.is_announced or self._departure.is_begun)

    @property
    def remaining_s(self) -> float:
        """How long work in progress may still go on once all were told to end; all of it before."""
        return self.limits.graceful_s if self._departure is None else self._departure.remaining_s

    def take_work(self, stand_down: Callable[[float], object]) -> None:
        """Note that work is taken from now on.

        ``stand_down`` is called in the loop when the application is told to end, before anybody is told to leave and
        while work is still taken; with the seconds that work in progress has to end.
        """
        self._stand_down = stand_down

    def request_exit(self, why: str, *, at_once: bool = False) -> None:
        """End the application in order. A second request changes nothing.

        While work is taken, services are told to leave only after ``delay_s``, unless it is to be ``at_once``.
        """
        departure = self._departure
        if departure is None or departure.is_begun or (departure.is_announced and not at_once):
            return
        logger.info("{}: leaving; work in progress has {:g} s to end", why, self.limits.graceful_s)
        stand_down, self._stand_down = self._stand_down, None
        delay_s = 0.0 if at_once or stand_down is None else self.limits.delay_s
        if self._owns_process:
            self.signals.end_process_within(self.limits.hard_s - self.limits.delay_s + delay_s, FAILED)
        if stand_down is not None:
            stand_down(delay_s + self.limits.graceful_s)
        if delay_s:
            logger.info("work is taken for {:g} s more (drain_delay)", delay_s)
            departure.announce(self._begin_departure)
        else:
            departure.begin()

    def _begin_departure(self) -> None:
        if self._departure is not None and not self._departure.is_begun:
            self._departure.begin()

    def fail(self, service_id: str, error: BaseException) -> None:
        """Book that a service failed, and end the application in order with exit code 1."""
        if service_id not in self.verdict.failures:
            self.verdict.failures[service_id] = error
            logger.error("service {} failed: {!r}", service_id, error)
        self.request_exit(f"service {service_id} failed", at_once=True)

    def cut(self, why: str) -> None:
        """Book that work was cut by a deadline: exit code 124 unless something worse happens."""
        self.verdict.cuts.append(why)
        logger.warning("work was cut: {}", why)

    # --- launching ---

    async def launch(self) -> None:
        """Run the application inside a loop that is not ours, until it ends.

        Cancelling makes it leave in order, within the limits, before the `CancelledError` goes on; cancelling once
        more makes it cold. Work that was cut raises nothing: `exit_code` tells.

        Raises:
            ConfigError: the services cannot be put in an order.
            DirtyError: it runs already, or a service ended in a way that is no exception of its own.
            Exception: whatever the first failed service raised.
            SystemExit: a second signal came, and nobody else handles signals here.
        """
        self._begin(asyncio.get_running_loop(), owns_process=False)
        try:
            was_cancelled = await self._launch_guarded()
        finally:
            self._finish()
        if was_cancelled:
            raise asyncio.CancelledError
        if self.verdict.cold_signal is not None:
            raise SystemExit(self.exit_code)
        self.verdict.raise_failure()

    def launch_blocking(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        stop_signal: Iterable[signal.Signals] = (signal.SIGINT,),
    ) -> None:
        """Run the application as what this process is for, until it ends.

        ``stop_signal`` are handled whoever handles them now; SIGTERM and SIGQUIT too, unless somebody does already.
        After a cold stop, the process ends within ``cold_s`` even if the `SystemExit` is caught. ``loop`` must be None.

        Raises:
            ConfigError: the services cannot be put in an order.
            SystemExit: with the exit code, unless that is 0.
        """
        if loop is not None:
            raise DirtyError("launch_blocking(loop=…) was removed in launart 0.7: give creart the loop instead")
        owned = cached_loop()
        self._begin(owned, owns_process=True)
        self.signals.take(stop_signal)
        try:
            run_to_end(owned, self._launch_guarded(), on_exit=self._on_exit_called)
        finally:
            self.signals.end_process_within(self.limits.hard_s, self.exit_code or FAILED)
            close_loop(owned, within_s=self.limits.leave_s if self.verdict.cold_signal is None else 0.1)
            self._finish()
        if self.exit_code:
            logger.error("exit code {}: {}", self.exit_code, self.verdict.reason)
            raise SystemExit(self.exit_code)

    def _begin(self, loop: asyncio.AbstractEventLoop, *, owns_process: bool) -> None:
        if self._departure is not None:
            raise DirtyError("this Launart runs already; wait for that launch instead of launching it again")
        check_required(self._launart.components.values())
        self.verdict = Verdict()
        self._owns_process = owns_process
        self._stand_down = None
        self._departure = Departure(self._launart, loop, self.limits, self._overran)
        self.signals.begin(loop)

        @self._launart.status.on_update(ManagerStatus.exiting)
        def on_exiting(statv: object, stats: object, past: object, current: object) -> None:
            # some set it themselves to end an application; called before the value is stored
            loop.call_soon(partial(self.request_exit, "launart is exiting", at_once=True))

    async def _launch_guarded(self) -> bool:
        """Launch, until all services have ended or were given up; return whether we were cancelled meanwhile."""
        departure = self._departure
        assert departure is not None
        launching = departure.loop.create_task(self._launart_launch(), name="launart")
        was_cancelled = False
        try:
            while not (launching.done() or departure.given_up.done()):
                try:
                    await asyncio.wait({launching, departure.given_up}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    if was_cancelled:
                        self._stop_cold(None)
                    else:
                        was_cancelled = True
                        self.request_exit("launch() was cancelled")
        finally:
            departure.conclude(launching)
            self.kills.call_all()
        if launching.done() and not launching.cancelled():
            launching.result()
        return was_cancelled

    def _finish(self) -> None:
        self._departure = None
        # after a cold stop, threads that nobody can end must not keep the interpreter from ending
        self.signals.end(keep_watch=self._owns_process and self.verdict.cold_signal is not None)

    # --- ends ---

    def _leave(self, signum: signal.Signals) -> None:
        if self.is_told_to_end:
            logger.info("{} received: leaving already; once more ends all at once", signum.name)
        self.request_exit(f"{signum.name} received")

    def _stop_cold(self, signum: signal.Signals | None) -> None:
        """Kill everything now. What awaits gets one more turn, so that callers are told."""
        if self._departure is None:
            return
        self.verdict.cold_signal = self.verdict.cold_signal or signum
        logger.warning("{}: killing everything now", _cause_of_cold(signum))
        self.kills.call_all()
        self._departure.hurry()
        self._launart.status.exiting = True

    def _overran(self, service_id: str, why: str) -> None:
        logger.error("service {} is cancelled: {}", service_id, why)
        self.verdict.failures.setdefault(service_id, DirtyTimeoutError(f"service {service_id}: {why}"))
        self.kills.call(service_id)

    def _on_exit_called(self, error: SystemExit | KeyboardInterrupt) -> None:
        if isinstance(error, SystemExit):
            self.verdict.exit_called(error)
        else:
            self.verdict.asked_code = cold_code(signal.SIGINT)
        self.request_exit(f"{type(error).__name__} raised", at_once=True)

    def _say_last_words(self, code: int) -> None:
        self.kills.call_all()
        logger.critical("the process did not end in time: exit code {}, forced; the stacks are on stderr", code)
        logger.complete()

    # --- what launart calls instead of its own ---

    def _on_sys_signal(self, signum: int | None, _frame: object, main_task: asyncio.Task[Any]) -> None:
        """Leave in order; people call this with None to end a plain ``launch()``."""
        if self._departure is None:
            self._launart_on_sys_signal(signum, None, main_task)
        elif signum is not None:
            self.signals.arrived(signum)
        elif not main_task.done():
            self.request_exit("asked by _on_sys_signal")

    def _on_task_done(self, service: Service, task: asyncio.Task[Any]) -> None:
        failure = failure_of(service, task, is_leaving=self.is_leaving)
        try:
            self._launart_on_task_done(service, task)
        except Exception:
            # launart formats its message twice, so that braces in an id break it
            logger.opt(exception=failure).error("service {} ended, and launart could not say how", service.id)
        walk_to_end(service.status)
        if failure is not None and not self._is_sideloaded(service):
            self.fail(service.id, failure)
        if self._departure is not None:
            self._departure.settle()

    async def _component_prepare(self, task: asyncio.Task[Any], service: Service) -> None:
        if self.is_leaving:
            task.cancel()
        if await reach(service, task, "waiting-for-prepare") and service.status.stage == "waiting-for-prepare":
            logger.debug("service {} prepares", service.id)
            service.status.stage = "preparing"
        if await reach(service, task, "prepared"):
            logger.success("service {} is prepared", service.id)

    async def _component_cleanup(self, task: asyncio.Task[Any], service: Service) -> None:
        self.request_exit("every service has left its blocking stage", at_once=True)
        await reach(service, task, "waiting-for-cleanup")
        if service.status.stage != "waiting-for-cleanup":
            # it has ended, or was written off
            return
        logger.debug("service {} cleans up", service.id)
        service.status.stage = "cleanup"
        departure = self._departure
        limit = departure.limit_cleanup(service, task, is_ours=service.id in self.kills) if departure else None
        try:
            await reach(service, task, "finished")
        finally:
            if limit is not None:
                limit.cancel()

    def _is_sideloaded(self, service: Service) -> bool:
        group = self._launart.task_group
        return group is not None and service.id in group.sideload_trackers


def _cause_of_cold(signum: signal.Signals | None) -> str:
    if signum is None:
        return "launch() was cancelled twice"
    return f"{signum.name} received" + ("" if signum == signal.SIGQUIT else ", and not for the first time")
