"""The view: all that a screen shows of the demo at one moment, and the plain screen. Measures nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

__all__ = ["PlainScreen", "Screen", "View", "WorkerView"]

_LINE_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One worker."""

    number: int
    pid: int
    state: str
    answered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The demo at one moment. ``held`` events wait for the gate, ``running`` ones are past it."""

    elapsed_s: float
    posted: int
    settled: int
    held: int
    running: int
    files_per_s: float
    lag_now_s: float
    lag_worst_s: float
    workers: Sequence[WorkerView]


class Screen(Protocol):
    """Shows views until it is closed."""

    def show(self, view: View) -> None: ...
    def close(self) -> None:
        """Leave the screen to others. May be called twice."""


class PlainScreen:
    """A line now and then, for logs and pipes: once a second, and when a worker changes its state."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next_at = 0.0
        self._states: dict[int, str] = {}

    def show(self, view: View) -> None:
        self._show_workers(view)
        if view.elapsed_s >= self._next_at:
            self._next_at = view.elapsed_s + _LINE_EVERY_S
            self._say(
                view,
                f"{view.settled}/{view.posted} events done, {view.held} held, {view.running} running, "
                f"{view.files_per_s:.0f} files/s, loop lag {view.lag_now_s * 1e3:.1f} ms "
                f"(worst {view.lag_worst_s * 1e3:.1f})",
            )

    def close(self) -> None:
        self._out.flush()

    def _show_workers(self, view: View) -> None:
        for worker in view.workers:
            # busy or idle, it changes too often to be told
            state = "ready" if worker.state in {"busy", "idle"} else worker.state
            if self._states.get(worker.number) != state:
                self._states[worker.number] = state
                self._say(view, f"worker {worker.number} is {state} (pid {worker.pid})")

    def _say(self, view: View, text: str) -> None:
        self._out.write(f"{view.elapsed_s:6.1f} s  {text}\n")
        self._out.flush()
