"""The verdict: what the exit code of the process will say. Stops nothing; must never learn how.

Codes are for ever: they stand in people's unit files and alert rules. 3 and 4 are never ours, as an old gunicorn
master takes a child's 3 or 4 for its own end.
"""

from __future__ import annotations

import signal
from typing import Final

from dirtybus.errors import DirtyError

__all__ = ["FAILED", "WORK_CUT", "Verdict", "cold_code"]

FAILED: Final = 1
WORK_CUT: Final = 124


def cold_code(signum: int) -> int:
    """Return what a shell reports for a process that this signal ended."""
    return 128 + signum


class Verdict:
    """What went wrong in one launch, and the code that says so.

    A cold stop beats a code that somebody asked for with ``sys.exit``, that beats a failed service, and that beats
    work that was cut.
    """

    def __init__(self) -> None:
        self.failures: dict[str, BaseException] = {}
        self.cuts: list[str] = []
        self.asked_code = 0
        self.cold_signal: signal.Signals | None = None

    @property
    def code(self) -> int:
        """The exit code: 0 clean, 1 failed, 124 work was cut, 128 + n stopped cold by signal n."""
        if self.cold_signal is not None:
            return cold_code(self.cold_signal)
        if self.asked_code:
            return self.asked_code
        if self.failures:
            return FAILED
        return WORK_CUT if self.cuts else 0

    @property
    def reason(self) -> str:
        """One sentence for the log; empty when all went well."""
        if self.cold_signal is not None:
            return f"stopped cold by {self.cold_signal.name}"
        if self.asked_code:
            return f"sys.exit({self.asked_code})"
        if self.failures:
            return "; ".join(f"service {name} failed: {error!r}" for name, error in self.failures.items())
        return "; ".join(self.cuts)

    def exit_called(self, error: SystemExit) -> None:
        """Book a ``sys.exit`` somewhere in the application: its code becomes the exit code."""
        if error.code is None:
            return
        self.asked_code = error.code if isinstance(error.code, int) else FAILED

    def raise_failure(self) -> None:
        """Raise what the first failed service raised, if one did."""
        for name, error in self.failures.items():
            error.add_note(f"service {name} of the launart application raised this")
            if isinstance(error, Exception):
                raise error
            # an error that is none, such as a GeneratorExit, would be taken for something else further up
            raise DirtyError(f"service {name} ended with {error!r}") from error
