"""Operations that may have to wait for somebody else."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from dirtybus.stash.op import Op, StashReply

if TYPE_CHECKING:
    from dirtybus.stash.state import StashState

__all__ = ["Topic", "WaitingOp"]

#: What somebody waits for: a kind of news, and whose.
Topic = tuple[str, str]


class WaitingOp(Op, frozen=True):
    """An operation that may have to wait."""

    #: of several that wait for the same, none is served before one that came earlier, unless it reaches further
    is_fair = True

    @property
    def topic(self) -> Topic:
        """What it waits for."""
        raise NotImplementedError

    @property
    def reach(self) -> int:
        """How much could serve it. When one of the same topic has to wait, so have all that do not reach further."""
        return 0

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply | None:
        """Carry it out, or return None: it has to wait."""
        raise NotImplementedError

    def moved_on(self, state: StashState, now: float) -> WaitingOp:
        """Return what to go on waiting with, after an attempt that came too early."""
        return self

    def give_up(self, state: StashState, now: float) -> StashReply:
        """Return what it comes to when its wait is over."""
        raise NotImplementedError
