"""Which apps sit on which seat, as pure functions of the specs. Knows no worker.

A seat is a place for one worker process; what it holds never changes while it exists, so a worker that died is
replaced by one with the same apps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dirtybus.config import AppSpec, check_apps

__all__ = ["Apps", "plan", "smallest_size", "unlimited_apps", "why_not"]

#: The apps of one seat, in the order of the specs.
Apps = tuple[str, ...]


def plan(specs: Sequence[AppSpec], size: int) -> list[Apps]:
    """Return what each of ``size`` seats holds.

    An app without a limit sits on every seat. A limited one takes the seats with the fewest limited apps so far,
    the first among equals, and no seat twice. A seat may end up with no app: it needs no worker.

    Raises:
        ConfigError: an app is listed twice, or asks for more workers than there are seats.
    """
    check_apps(specs, size)
    limited: list[set[str]] = [set() for _ in range(size)]
    for spec in specs:
        emptiest_first = sorted(range(size), key=lambda seat: len(limited[seat]))
        for seat in emptiest_first[: spec.workers or 0]:
            limited[seat].add(spec.path)
    return [tuple(s.path for s in specs if s.workers is None or s.path in here) for here in limited]


def unlimited_apps(specs: Iterable[AppSpec]) -> Apps:
    """Return what a seat added later holds: the limits of the other apps are used up already."""
    return tuple(spec.path for spec in specs if spec.workers is None)


def smallest_size(seats: Iterable[Apps], unlimited: Collection[str]) -> int:
    """Return how many of these seats must stay: those that hold a limited app, and one for the other apps."""
    return max(1 if unlimited else 0, sum(1 for apps in seats if any(app not in unlimited for app in apps)))


def why_not(size: int, smallest: int) -> str | None:
    """Return the sentence that forbids ``size`` workers; None when it is allowed."""
    if size >= smallest:
        return None
    return f"Cannot decrease below {smallest} worker{'s' if smallest > 1 else ''} (required by app specs)"
