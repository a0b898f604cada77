"""How a process ended, as far as the system tells, and in words."""

from __future__ import annotations

import signal
from dataclasses import dataclass

__all__ = ["ExitStatus"]


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: by ``code``, or by a signal of that name; both None: there never was one.

    ``oom_kills`` is set for a SIGKILL that we did not send: how many processes the kernel has killed for want of
    memory since we last asked. None: it does not say.
    """

    code: int | None
    signal: str | None
    is_ours: bool = False
    oom_kills: int | None = None

    @classmethod
    def of(cls, returncode: int) -> ExitStatus:
        """Return the status that `subprocess.Popen.returncode` stands for."""
        return cls(returncode, None) if returncode >= 0 else cls(None, _name(-returncode))

    @property
    def is_unexplained(self) -> bool:
        """Whether somebody else ended it by SIGKILL."""
        return self.signal == "SIGKILL" and not self.is_ours

    @property
    def oom_hint(self) -> bool | None:
        """Whether the kernel probably killed it for want of memory; None: unknown, or no question."""
        return self.oom_kills > 0 if self.is_unexplained and self.oom_kills is not None else None

    def __str__(self) -> str:
        if self.signal is None and self.code is None:
            return "it could not be started"
        if self.signal is None:
            return f"it exited with code {self.code}"
        return f"it was killed by {self.signal}{self._hint()}"

    def _hint(self) -> str:
        if not self.is_unexplained:
            return ""
        if self.oom_kills is None:
            return ", perhaps by the kernel for want of memory"
        if self.oom_kills <= 0:
            return "; nobody here sent it; the kernel's out-of-memory counter did not move"
        processes = "1 process" if self.oom_kills == 1 else f"{self.oom_kills} processes"
        return f"; the kernel has killed {processes} for want of memory meanwhile"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has a number only
        return f"signal {number}"
