"""What a lease says of itself, whoever holds it. Asks nobody."""

from __future__ import annotations

from collections.abc import Callable

from dirtybus.errors import LeaseLost, StashError
from dirtybus.stash.grip import Grip, Terms

__all__ = ["Holding"]


class Holding:
    """A lease that is held, or not yet, or no more."""

    def __init__(self, terms: Terms, on_lost: Callable[[], object] | None) -> None:
        self._terms = terms
        self._on_lost = on_lost
        self._grip: Grip | None = None

    @property
    def token(self) -> str:
        """What the owner knows this holder by."""
        return self._held().token

    @property
    def fencing(self) -> int:
        """The number of this holder, larger than that of every one before."""
        return self._held().fencing

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may hold it by now. Asks nobody."""
        return self._held().is_lost

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost. Asks nobody, so call it as often as you like."""
        if (grip := self._held()).is_lost:
            raise grip.error()

    def _held(self) -> Grip:
        if self._grip is None:
            raise LeaseLost(f"lease {self._terms.name!r} is not held; acquire it first", {"name": self._terms.name})
        return self._grip

    def _check_free(self) -> None:
        if self._grip is not None:
            raise StashError(f"this lease of {self._terms.name!r} is held already; release it first, or take another")
