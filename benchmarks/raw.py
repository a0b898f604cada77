"""The kernel's own price: 64 bytes over a socket pair to a process that does nothing else. Knows no contestant."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns

from benchmarks.rows import Finding, percentile

__all__ = ["RAW", "Raw", "measure_raw"]

RAW = "raw socketpair, 64 B"
_MESSAGE = bytes(64)
_ROUND_TRIPS = 2_000
_SENDS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """What a round trip costs, and how many one-way sends of one message each there are in a second."""

    p50_us: float
    p99_us: float
    calls_per_s: float
    chunks_per_s: float

    def of(self, metric: str) -> float | None:
        """Return the measure that ``metric`` is set against; None where there is none."""
        value: float | None = getattr(self, metric, None)
        return value

    def between(self, other: Raw) -> Raw:
        """Return the middle of two: the machine's state while something ran between them."""
        return Raw(**{name: (getattr(self, name) + getattr(other, name)) / 2 for name in self.__slots__})

    def findings(self) -> list[Finding]:
        """Return it as a contestant's own."""
        calls, stream = {"concurrency": 1, "workers": 1}, {"workers": 1}
        return [
            Finding(suite="stream" if name == "chunks_per_s" else "calls", metric=name, value=getattr(self, name),
                    params=stream if name == "chunks_per_s" else calls)
            for name in self.__slots__
        ]  # fmt: skip


def measure_raw() -> Raw:
    """Measure for about a tenth of a second. Call it from a process without threads: it forks."""
    latencies_us, span_s = _ping_pong()
    return Raw(
        p50_us=percentile(latencies_us, 50),
        p99_us=percentile(latencies_us, 99),
        calls_per_s=len(latencies_us) / span_s,
        chunks_per_s=_one_way(),
    )


def _ping_pong() -> tuple[list[float], float]:
    with _peer(_echo) as sock:
        latencies_us = []
        began_at = perf_counter()
        for _ in range(_ROUND_TRIPS):
            sent_ns = perf_counter_ns()
            sock.send(_MESSAGE)
            sock.recv(len(_MESSAGE))
            latencies_us.append((perf_counter_ns() - sent_ns) / 1000)
        return latencies_us, perf_counter() - began_at


def _one_way() -> float:
    with _peer(_pour) as sock:
        left = _SENDS * len(_MESSAGE)
        began_at = perf_counter()
        sock.send(b"!")
        while left:
            left -= len(sock.recv(256 * 1024))
        return _SENDS / (perf_counter() - began_at)


def _echo(sock: socket.socket) -> None:
    while message := sock.recv(len(_MESSAGE)):
        sock.send(message)


def _pour(sock: socket.socket) -> None:
    sock.recv(1)
    for _ in range(_SENDS):
        sock.sendall(_MESSAGE)


@contextmanager
def _peer(serve: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """Yield a socket whose other end is served by a child; the child ends with the socket, and is reaped."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _serve_and_leave(serve, ours, theirs)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        os.waitpid(child, 0)


def _serve_and_leave(serve: Callable[[socket.socket], None], ours: socket.socket, theirs: socket.socket) -> None:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's; the socket's end is ours
        ours.close()
        serve(theirs)
    except OSError:
        os._exit(1)  # the other end is gone in the middle of it
    finally:
        os._exit(0)
