"""Whatever goes off where, its own caller gets one exact error and the next call works. loky's table of faults."""

from __future__ import annotations

import os
from typing import Any

import pytest

from dirtybus.errors import DecodeError, DirtyAppError, DirtyError, WorkerLost
from tests.apps.mines import ArgumentMine
from tests.arbiter.serving import serving

MINEFIELD = "tests.apps.mines:Minefield"


def code_or_signal(error: DirtyError) -> object:
    return (error.exit_code, error.signal) if isinstance(error, WorkerLost) else None


CRASHES: list[tuple[str, str, type[DirtyError], str, object]] = [
    ("take", "raise", DecodeError, "a mine", None),
    ("take", "sys.exit", DirtyAppError, "SystemExit: 3", None),
    ("take", "os._exit", WorkerLost, "code 9", (9, None)),
    ("take", "SIGSEGV", WorkerLost, "SIGSEGV", (None, "SIGSEGV")),
    ("step_on", "raise", DirtyAppError, "RuntimeError: a mine", None),
    ("step_on", "sys.exit", DirtyAppError, "SystemExit: 3", None),
    ("step_on", "os._exit", WorkerLost, "code 9", (9, None)),
    ("step_on", "SIGSEGV", WorkerLost, "SIGSEGV", (None, "SIGSEGV")),
    ("give", "raise", DirtyAppError, "RuntimeError: a mine", None),
    ("give", "sys.exit", DirtyAppError, "SystemExit: 3", None),
    ("give", "os._exit", WorkerLost, "code 9", (9, None)),
    ("give", "SIGSEGV", WorkerLost, "SIGSEGV", (None, "SIGSEGV")),
]


@pytest.mark.parametrize(("action", "how", "kind", "text", "end"), CRASHES)
async def test_a_crash_is_told_exactly_and_the_next_call_works(
    action: str, how: str, kind: type[DirtyError], text: str, end: object
) -> None:
    argument: Any = {ArgumentMine(how, os.getpid()): 1} if action == "take" else how
    async with serving(MINEFIELD, restart_delay=0) as arbiter:
        with pytest.raises(DirtyError, match=text) as caught:
            await arbiter.call(MINEFIELD, action, argument)
        assert type(caught.value) is kind
        assert code_or_signal(caught.value) == end
        assert await arbiter.call(MINEFIELD, "echo", 1) == 1
        assert (arbiter.ledger.lost, arbiter.ledger.succeeded) == (kind is WorkerLost, 1)
