"""gunicorn's own dirty arbiter, until stdin ends: ``gunicorn_owner SOCKET WORKERS``. Says READY when it listens."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time

from gunicorn.config import Config
from gunicorn.dirty.arbiter import DirtyArbiter
from gunicorn.glogging import Logger

APP = "benchmarks.subjects.gunicorn_app:Bench"
_LISTENING_WITHIN_S = 20.0


def main(path: str, workers: str) -> None:
    # each client that gives up leaves a traceback of asyncio's: not on our screen, nor at the price of writing it
    logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    config = Config()
    for name, value in {"dirty_apps": [APP], "dirty_workers": int(workers), "errorlog": os.devnull}.items():
        config.set(name, value)
    config.set("dirty_graceful_timeout", 2)
    # made by the parent of the process that runs it: an arbiter whose parent did not make it takes that for its
    # parent's death and leaves after a second
    arbiter = DirtyArbiter(config, Logger(config), socket_path=path)
    child = os.fork()
    if child == 0:
        try:
            arbiter.run()
        finally:
            os._exit(0)
    try:
        wait_until_listening(path)
        print("READY", flush=True)
        sys.stdin.read()
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def wait_until_listening(path: str) -> None:
    """Wait for the socket, looking every 5 ms: no other sign is given. Raises OSError after 20 s."""
    gives_up_at = time.monotonic() + _LISTENING_WITHIN_S
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError:
                if time.monotonic() > gives_up_at:
                    raise
                time.sleep(0.005)
            else:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
