"""An app that prints and logs in every way there is."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from dirtybus import DirtyApp, current_call

BRACES = "{0} {name} {} %s %(x)d <red>"


class Loud(DirtyApp):
    def everything(self) -> int:
        print("printed to stdout")
        print("printed to stderr", file=sys.stderr)
        logging.getLogger("shop").warning("logged %s", "by stdlib")
        current_call().logger.info("logged by the call")
        return current_call().id

    def with_loguru(self) -> int:
        from loguru import logger

        logger.warning("logged by loguru {}", {"a": 1})
        logger.debug("below the level")
        try:
            raise KeyError("caught")
        except KeyError:
            logger.exception("with a traceback")
        return current_call().id

    def tracebacks(self) -> None:
        try:
            raise KeyError("printed")
        except KeyError:
            traceback.print_exc()
            logging.getLogger("shop").exception("logged")
        print("afterwards")

    def braces(self) -> None:
        print(BRACES)
        logging.getLogger("shop").warning(BRACES)

    def below(self) -> None:
        logging.getLogger("shop").debug("below the level")
        logging.getLogger("shop").info("at the level")

    def from_c(self) -> None:
        libc = ctypes.CDLL(None)
        libc.write(2, b"written by C to 2\n", 18)
        libc.write(1, b"written by C to 1\n", 18)
        sys.stdout.buffer.write(b"written as bytes\n")
        sys.stdout.buffer.flush()

    def flood(self, lines: int) -> int:
        for number in range(lines):
            print(f"line {number}")
        return lines

    def badly(self) -> str:
        logging.getLogger("shop").warning("%d apples", "no number")
        print("half a pair \udce9")
        print("x" * 200_000)
        return "went on"

    def bar(self) -> None:
        for percent in range(0, 101, 5):
            sys.stderr.write(f"\r{percent}%")
        sys.stderr.write("\n")
        print("with a carriage return\r")

    def unfinished(self) -> None:
        sys.stdout.write("no newline")
        sys.stderr.write("Traceback (most recent call last):\n  File half a traceback")

    def in_a_thread(self) -> None:
        thread = threading.Thread(target=print, args=("printed by a thread",))
        thread.start()
        thread.join()

    def in_finalizers(self, count: int) -> int:
        """Return a value whose encoding collects objects that print when they go."""
        gc.set_threshold(1)
        try:
            for _ in range(count):
                Printer()
                print("between")
        finally:
            gc.set_threshold(700)
        return count

    def from_a_fork(self) -> int:
        pid = os.fork()
        if pid == 0:
            print("printed by a fork")
            sys.stdout.flush()
            logging.getLogger("shop").warning("logged by a fork")
            os._exit(0)
        return os.waitpid(pid, 0)[1]

    def to_a_file_of_its_own(self, directory: str, span_s: float) -> None:
        logger = logging.getLogger("of_its_own")
        logger.addHandler(logging.FileHandler(f"{directory}/{os.getpid()}.log"))
        logger.warning("one")
        time.sleep(span_s)

    def to_a_file_slowly(self, path: str) -> str:
        """Stay in the middle of a record, with the handler's lock, until a file tells to go on."""
        handler = logging.FileHandler(path, delay=False)
        handler.setFormatter(Slow(Path(path)))
        logger = logging.getLogger("slow")
        logger.addHandler(handler)
        logger.warning("one")
        return "written"

    def echo(self, value: Any) -> Any:
        return value


class Slow(logging.Formatter):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def format(self, record: logging.LogRecord) -> str:
        self.path.with_suffix(".began").touch()
        while not self.path.with_suffix(".go").exists():
            time.sleep(0.005)
        return super().format(record)


class Printer:
    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        print("printed by a finalizer")
