"""A launart service's way through its stages, so that nobody waits for a dead one. Knows no deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from launart import Service
from launart.status import ServiceStatus, U_Stage

from dirtybus.errors import ConfigError, DirtyError

__all__ = ["ENTERING", "NOT_LEFT", "UNPREPARED", "check_required", "failure_of", "reach", "walk_to_end"]

#: where a service stands that has not prepared yet
UNPREPARED: Final[frozenset[U_Stage]] = frozenset({None, "waiting-for-prepare", "preparing"})
#: where a service stands that is about to enter its blocking stage
ENTERING: Final[frozenset[U_Stage]] = frozenset({None, "prepared"})
#: where a service stands that has not noticed that all are to leave
NOT_LEFT: Final[frozenset[U_Stage]] = frozenset({*UNPREPARED, "prepared", "blocking"})

_NEXT: Final[Mapping[U_Stage, U_Stage]] = {
    None: "finished",
    "waiting-for-prepare": "preparing",
    "preparing": "prepared",
    "prepared": "finished",
    "blocking": "blocking-completed",
    "blocking-completed": "finished",
    "waiting-for-cleanup": "cleanup",
    "cleanup": "finished",
}


def walk_to_end(status: ServiceStatus) -> None:
    """Bring the status of a service that is over, or written off, to its end, by launart's own transitions.

    Whoever waits for a stage of it goes on; without this, launart and other services wait for ever.
    """
    while status.stage in _NEXT:
        status.stage = _NEXT[status.stage]


async def reach(service: Service, task: asyncio.Task[Any], stage: U_Stage) -> bool:
    """Wait until the service has come to ``stage`` or its task has ended; return whether its task still runs."""
    if not task.done():
        arrival = asyncio.create_task(service.status.wait_for(stage))
        try:
            await asyncio.wait({task, arrival}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
    return not task.done()


def failure_of(service: Service, task: asyncio.Task[Any], *, is_leaving: bool) -> BaseException | None:
    """Return why a service whose task is over has failed; None when it ended as a service may."""
    if task.cancelled():
        return None if is_leaving else DirtyError(f"service {service.id} was cancelled, though nobody is to leave")
    error = task.exception()
    if isinstance(error, SystemExit | KeyboardInterrupt):
        # meant for the process, and whoever runs the loop has got it too
        return None
    if error is None and not is_leaving and "preparing" in service.stages and service.status.stage in UNPREPARED:
        return DirtyError(f"service {service.id} ended before it was prepared")
    return error


def check_required(services: Iterable[Service]) -> None:
    """Refuse an application whose services cannot be put in an order.

    Raises:
        ConfigError: a service requires one that was not added, or services require each other in a circle.
    """
    required = {service.id: set(service.required) for service in services}
    for name, wanted in required.items():
        if missing := sorted(wanted - required.keys()):
            raise ConfigError(
                f"service {name!r} requires {missing[0]!r}, which is not among the services: {', '.join(required)}; "
                "add it with launart.add_component(...), or take it out of `required`"
            )
    done: set[str] = set()
    while layer := {name for name, wanted in required.items() if name not in done and wanted <= done}:
        done |= layer
    if circle := sorted(required.keys() - done):
        raise ConfigError(f"services require each other in a circle: {', '.join(circle)}; break it in their `required`")
