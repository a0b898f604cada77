"""Who is measured, what it needs, and which of gunicorn's clients it stands against. Imports none of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CONTESTANTS", "GUNICORN_ASYNC", "GUNICORN_SYNC", "IN_PROCESS", "Contestant", "is_there", "named"]

IN_PROCESS = "dirtybus in process"
GUNICORN_SYNC = "gunicorn.dirty sync"
GUNICORN_ASYNC = "gunicorn.dirty async"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One way to have a call run in another process.

    ``subject`` is the import path of what is visited, ``needs`` the module without which it cannot be, ``against``
    the contestant that ``x_gunicorn`` compares with.
    """

    name: str
    subject: str
    needs: str
    against: str


CONTESTANTS = (
    Contestant(
        name=IN_PROCESS,
        subject="benchmarks.subjects.dirtybus_inside:Inside",
        needs="dirtybus",
        against=GUNICORN_ASYNC,
    ),
    Contestant(
        name="dirtybus sync",
        subject="benchmarks.subjects.dirtybus_outside:OutsideSync",
        needs="dirtybus",
        against=GUNICORN_SYNC,
    ),
    Contestant(
        name="dirtybus async",
        subject="benchmarks.subjects.dirtybus_outside:OutsideAsync",
        needs="dirtybus",
        against=GUNICORN_ASYNC,
    ),
    Contestant(
        name=GUNICORN_SYNC,
        subject="benchmarks.subjects.gunicorn_client:GunicornSync",
        needs="gunicorn.dirty",
        against=GUNICORN_SYNC,
    ),
    Contestant(
        name=GUNICORN_ASYNC,
        subject="benchmarks.subjects.gunicorn_client:GunicornAsync",
        needs="gunicorn.dirty",
        against=GUNICORN_ASYNC,
    ),
    Contestant(
        name="ProcessPoolExecutor",
        subject="benchmarks.subjects.executor:Executor",
        needs="concurrent.futures",
        against=GUNICORN_ASYNC,
    ),
)


def named(names: Sequence[str]) -> list[Contestant]:
    """Return those whose name holds one of ``names``; all for none.

    Raises:
        LookupError: a name is nobody's.
    """
    for name in names:
        if not any(name.casefold() in each.name.casefold() for each in CONTESTANTS):
            known = ", ".join(each.name for each in CONTESTANTS)
            raise LookupError(f"no contestant is called {name!r}; there are: {known}")
    wanted = [each for each in CONTESTANTS if any(name.casefold() in each.name.casefold() for name in names)]
    return wanted if names else list(CONTESTANTS)


def is_there(contestant: Contestant) -> bool:
    """Whether what it needs is installed."""
    try:
        return importlib.util.find_spec(contestant.needs) is not None
    except ModuleNotFoundError:  # its parent package is missing, or too old to have it
        return False
