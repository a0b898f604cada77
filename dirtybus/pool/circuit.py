"""The circuit breaker of each app: whether its workers fail so often that its calls had better fail fast.

Counts what it is told; who is blamed for a death, and which worker tries again, is decided elsewhere. The three states
are Nygard's (*Release It!*): closed, open, and half-open while one probe is under way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import WorkerId

__all__ = ["Circuits"]


@dataclass(slots=True)
class _Circuit:
    """``probe_at`` is infinite while the circuit is closed; ``probe`` is the worker that tries."""

    failures: deque[float] = field(default_factory=deque)
    probe_at: float = math.inf
    probe: WorkerId | None = None

    @property
    def is_open(self) -> bool:
        return self.probe_at < math.inf


class Circuits:
    """One circuit for each app that ever failed.

    More than ``max_restarts`` failures within ``restart_period_s`` open it. From then on a worker that holds the app
    is tried every ``restart_delay_max_s``; the first that becomes ready closes it. A failure soon after opens it
    again, as the old ones still count, until a call of the app is answered.
    """

    def __init__(self, config: DirtyConfig) -> None:
        self._config = config
        self._circuits: dict[str, _Circuit] = {}

    def reconfigure(self, config: DirtyConfig, served: Iterable[str]) -> None:
        """Go by other limits from now on, and forget the apps that are not served any more."""
        self._config = config
        kept = set(served)
        self._circuits = {app: circuit for app, circuit in self._circuits.items() if app in kept}

    def is_open(self, app: str) -> bool:
        circuit = self._circuits.get(app)
        return circuit is not None and circuit.is_open

    @property
    def open_apps(self) -> frozenset[str]:
        """The apps whose circuit is open, half-open ones too."""
        return frozenset(app for app, circuit in self._circuits.items() if circuit.is_open)

    def fail(self, app: str, now: float) -> bool:
        """Count a failure; returns whether it opened the circuit. One while it is open puts the next probe off."""
        limit = self._config.max_restarts
        if not limit:
            return False
        circuit = self._circuits.setdefault(app, _Circuit())
        was_open = circuit.is_open
        circuit.failures.append(now)
        while circuit.failures[0] < now - self._config.restart_period_s or len(circuit.failures) > limit + 1:
            circuit.failures.popleft()
        if was_open or len(circuit.failures) > limit:
            circuit.probe_at = now + self._config.restart_delay_max_s
        return circuit.is_open and not was_open

    def heal(self, app: str) -> None:
        """Forget the failures: a call was answered."""
        circuit = self._circuits.get(app)
        if circuit is not None and not circuit.is_open:
            del self._circuits[app]

    def close(self, app: str) -> bool:
        """A worker with the app became ready; returns whether that closed the circuit."""
        circuit = self._circuits.get(app)
        if circuit is None or not circuit.is_open:
            return False
        circuit.probe_at, circuit.probe = math.inf, None
        return True

    # --- probes ---

    def due(self, now: float) -> Iterator[str]:
        """Yield the apps that are to be tried now."""
        for app, circuit in self._circuits.items():
            if circuit.probe is None and circuit.probe_at <= now:
                yield app

    def begin_probe(self, app: str, worker: WorkerId) -> None:
        """Book that this worker tries the app."""
        self._circuits[app].probe = worker

    def end_probe(self, worker: WorkerId, now: float) -> None:
        """The worker is gone; what it tried and did not prove is tried again later."""
        for circuit in self._circuits.values():
            if circuit.probe == worker:
                circuit.probe = None
                circuit.probe_at = max(circuit.probe_at, now + self._config.restart_delay_max_s)

    def next_probe_at(self, now: float) -> float | None:
        """Return when the next probe is due; one that is due and found no seat waits for a fact, not for time."""
        moments = [c.probe_at for c in self._circuits.values() if c.probe is None and now < c.probe_at < math.inf]
        return min(moments, default=None)

    def check(self, workers: Iterable[WorkerId]) -> None:
        """Raise AssertionError naming what does not add up."""
        living = set(workers)
        for app, circuit in self._circuits.items():
            assert circuit.probe is None or circuit.is_open, f"the closed circuit of {app} is probed"
            assert circuit.probe is None or circuit.probe in living, f"a dead worker probes {app}"
            limit = self._config.max_restarts or 0
            assert circuit.is_open or len(circuit.failures) <= limit + 1, f"the circuit of {app} forgets nothing"
