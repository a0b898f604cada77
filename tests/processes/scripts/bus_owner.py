"""A user's program: a DirtyBus on a plain Launart, with settings from a file; SIGCHLD is the user's if it says so."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyBus
from dirtybus.config.sources import load_config


def main(settings: Path, log_file: str) -> None:
    if os.environ.get("OWN_SIGCHLD"):
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
    if log_file:
        handler = logging.FileHandler(log_file)
        logging.getLogger("user").addHandler(handler)
        logging.getLogger("user").error("owner began")
    bus = DirtyBus(load_config(settings, environ={}))
    bus.reload_config = lambda: load_config(settings, environ={})
    bus.install(it(Launart), it(Broadcast))
    it(Launart).launch_blocking()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
