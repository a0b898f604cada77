"""Exit codes: what each means, and which error gives which. They are for ever: they stand in people's scripts.

3 and 4 are for questions only (`status`). An owner never ends with them: an old gunicorn master takes a child's 3 or 4
for its own end.
"""

from __future__ import annotations

from enum import IntEnum

from dirtybus.errors import ConfigError, DirtyConnectionError, DirtyError, MissingExtra, Unavailable

__all__ = ["ExitCode", "code_of"]


class ExitCode(IntEnum):
    """What the exit code says."""

    DONE = 0
    #: what was asked for failed: the app raised, a worker could not start
    FAILED = 1
    #: a wrong option, argument or setting, or an extra that is not installed
    USAGE = 2
    #: nothing runs there; of `status` only
    NOT_RUNNING = 3
    #: the arbiter cannot be reached, or went away
    UNREACHABLE = 69
    #: not now: draining, the queue is full, no worker
    TRY_LATER = 75
    #: a limit passed, or work was cut by one
    OUT_OF_TIME = 124
    #: Ctrl-C
    INTERRUPTED = 130


def code_of(error: DirtyError) -> ExitCode:
    """Return the exit code of a verb that ended with this error."""
    match error:
        case ConfigError() | MissingExtra():
            return ExitCode.USAGE
        case DirtyConnectionError():
            return ExitCode.UNREACHABLE
        case Unavailable():
            return ExitCode.TRY_LATER
        case TimeoutError():
            return ExitCode.OUT_OF_TIME
    return ExitCode.FAILED
