"""An app that fails as the file says that the variable FRAIL names: in its init, or in its calls. Empty: not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dirtybus import DirtyApp


def fault() -> str:
    return Path(os.environ["FRAIL"]).read_text()


class Frail(DirtyApp):
    def init(self) -> None:
        match fault():
            case "init raises":
                raise RuntimeError("the model is gone")
            case "init exits":
                os.write(2, b"last words\n")
                os._exit(5)
            case "init hangs":
                time.sleep(600)

    def work(self) -> str:
        if fault() == "calls exit":
            os._exit(7)
        return "done"

    def die(self) -> None:
        os._exit(1)

    def pid(self) -> int:
        return os.getpid()
