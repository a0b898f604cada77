"""An app that writes down what it begins and what it has done, so that what was done in part is seen."""

from __future__ import annotations

import os
import time

from dirtybus import DirtyApp, action


class Recorder(DirtyApp):
    """Appends to the file that RECORD names; one short write each, which the system does not split."""

    def init(self) -> None:
        self.fd = os.open(os.environ["RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def once(self, number: int) -> int:
        self._note("begun", number)
        time.sleep(0.02)
        self._note("done", number)
        return number

    @action(idempotent=True)
    def again(self, number: int) -> int:
        return self.once(number)

    def _note(self, what: str, number: int) -> None:
        os.write(self.fd, f"{what} {number}\n".encode())
