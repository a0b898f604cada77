"""Run gunicorn's own dirty arbiter until stdin ends: ``gunicorn_arbiter.py SOCKET APP…``. Says READY on stdout."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

from gunicorn.config import Config
from gunicorn.dirty.arbiter import DirtyArbiter
from gunicorn.glogging import Logger


def main(path: str, *apps: str) -> None:
    config = Config()
    config.set("dirty_apps", list(apps))
    config.set("dirty_workers", 2)
    config.set("dirty_timeout", 30)
    config.set("dirty_graceful_timeout", 2)
    config.set("errorlog", os.devnull)
    # built here and run in a child: it ends by itself when its parent is not the process that built it
    arbiter = DirtyArbiter(config, Logger(config), socket_path=path)
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            arbiter.run()
        finally:
            os._exit(0)
    wait_until_listening(path)
    print("READY", flush=True)
    sys.stdin.read()
    os.kill(child, signal.SIGTERM)
    # from Python 3.12 on it may wait for its clients for ever
    gives_up_at = time.monotonic() + 4
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > gives_up_at:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.02)


def wait_until_listening(path: str) -> None:
    gives_up_at = time.monotonic() + 20
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError:
                if time.monotonic() > gives_up_at:
                    raise
                time.sleep(0.02)
            else:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
