"""Two schedulers with the same timetable: each tick is one's turn, and the report is never written by both.

Run it: python examples/cron_once.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from dirtybus.client import DirtyClient
from dirtybus.errors import LeaseHeld

TICK_S, TICKS = 0.3, 16
REPORT_S = 0.75
LEASE_S = 0.5  # less than a report takes: it is renewed while its holder lives
HERE = Path(__file__).parent


# --- one scheduler ---


def schedule(name: str, path: str) -> None:
    """Be one of several schedulers, each a process of its own."""
    with DirtyClient(path) as client, ThreadPoolExecutor(4) as reports:
        say(name, "is ready")
        began_at = float(sys.stdin.readline())
        begun = []
        for tick in range(TICKS):
            time.sleep(max(0.0, began_at + tick * TICK_S - time.time()))
            if client.stash.once(f"tick {tick}", ttl="1h"):
                say(name, f"tick {tick}")
                begun.append(reports.submit(report, client, name, tick))
        for one in begun:
            one.result()


def report(client: DirtyClient, name: str, tick: int) -> None:
    """Write a report, unless the one before is not done yet: then this tick is skipped."""
    try:
        with client.stash.lease("report", LEASE_S) as lease:
            say(name, f"begins the report of tick {tick}, fencing number {lease.fencing}")
            done_at = time.monotonic() + REPORT_S
            while time.monotonic() < done_at:
                lease.check()  # whoever has lost it must stop
                time.sleep(0.02)
            say(name, f"ends the report of tick {tick}")
    except LeaseHeld:
        say(name, f"skips the report of tick {tick}")


def say(name: str, what: str) -> None:
    # in one piece, as threads speak at the same time
    os.write(1, f"{name} {what}\n".encode())


# --- who starts them all, and kills one ---


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        path = str(Path(directory) / "s")
        stack.enter_context(owner(path))
        reading, writing = os.pipe()  # one for both, so what they say comes in the order in which they said it
        lines = stack.enter_context(open(reading))
        schedulers = {name: stack.enter_context(started(name, path, writing)) for name in "AB"}
        os.close(writing)  # or the end of the lines would never come
        for _ in schedulers:
            print(lines.readline(), end="")
        tell_when(time.time() + 0.1, schedulers)
        follow(lines, schedulers)
        with DirtyClient(path) as client:
            skipped = client.stash.lease_info("report")["skipped"]
        print(f"{skipped} ticks were skipped, as the report of before was not done")


def follow(lines: TextIO, schedulers: dict[str, subprocess.Popen[str]]) -> None:
    """Print what they say until both have ended; at half time, kill the one that writes a report."""
    tick, was_killed = 0, False
    for line in lines:
        print(line, end="", flush=True)
        name, verb, *rest = line.split()
        if verb == "tick":
            tick = int(rest[0])
        elif verb == "begins" and tick >= TICKS // 2 and not was_killed:
            was_killed = True
            schedulers[name].kill()
            schedulers[name].wait()
            print(f"{name} killed while it writes: its lease is free at once", flush=True)


def tell_when(began_at: float, schedulers: dict[str, subprocess.Popen[str]]) -> None:
    for process in schedulers.values():
        assert process.stdin is not None
        process.stdin.write(f"{began_at}\n")
        process.stdin.flush()


@contextmanager
def owner(path: str) -> Iterator[None]:
    """Run who keeps the leases; it wants an app, so here is one, of which nothing is asked."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "dirtybus", "run", "hello:Greeter", "--workers", "1"]
    command += ["--socket", path, "--ready-fd", str(writing)]
    with (
        open(reading, "rb", buffering=0) as ready,
        subprocess.Popen(command, cwd=HERE, pass_fds=(writing,), stderr=subprocess.DEVNULL) as process,
    ):
        os.close(writing)  # or the end of the owner would never be seen
        try:
            if ready.read(6) != b"READY\n":
                raise SystemExit("the owner did not start; see what `dirtybus run hello:Greeter` says")
            yield
        finally:
            process.terminate()


@contextmanager
def started(name: str, path: str, writing: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, name, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writing, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        schedule(*sys.argv[1:])
    else:
        main()
