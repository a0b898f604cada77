"""One contestant under fire, in a process of its own: ``fault_visit NAME SECONDS SEED PLACE``; writes PLACE/row.json.

Callers call again as soon as they are told; now and then only a few of them do, so that there are idle workers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.fault_rows import FaultRow, Kill, Told, fault_row
from benchmarks.subjects.fault_peers import PEERS, Peer
from benchmarks.subjects.faulty import JOURNAL, answer

__all__ = ["ROW", "shoot_at"]

ROW = "row.json"
_WORKERS = 3
_CALLERS, _FEW = 8, 1
_TIDE_S = 0.8
_LIMIT_S = 10.0
_AFTER_ERROR_S = 0.02  # or the calls that a broken pool refuses at once would outnumber all others
_AFTERWARDS = 12


class _Callers:
    """Threads that call, and what they were told."""

    def __init__(self, peer: Peer) -> None:
        self.told: list[Told] = []
        self._peer = peer
        self._is_on = True
        self._threads = [threading.Thread(target=self._keep_calling, args=(n,), daemon=True) for n in range(_CALLERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let each finish its call; one that does not is left where it is, and its call counts as hung."""
        self._is_on = False
        gives_up_at = time.monotonic() + _LIMIT_S + 2
        for thread in self._threads:
            thread.join(max(0.0, gives_up_at - time.monotonic()))
        for number in (n for n, thread in enumerate(self._threads) if thread.is_alive()):
            self.told.append(Told(token=f"thread-{number}", told_at=time.monotonic(), outcome="hung"))

    def _keep_calling(self, caller: int) -> None:
        number = 0
        while self._is_on:
            if caller >= _FEW and time.monotonic() % (2 * _TIDE_S) < _TIDE_S:
                time.sleep(0.02)
                continue
            number += 1
            self.told.append(call_once(self._peer, f"{caller}-{number}"))
            if self.told[-1].outcome == "failed":
                time.sleep(_AFTER_ERROR_S)


def call_once(peer: Peer, token: str) -> Told:
    """Make one call and say what came of it."""
    try:
        got = peer.call(token, _LIMIT_S)
    except TimeoutError as exc:
        return Told(token=token, told_at=time.monotonic(), outcome="hung", note=type(exc).__name__)
    except Exception as exc:
        return Told(token=token, told_at=time.monotonic(), outcome="failed", note=type(exc).__name__)
    outcome = "answered" if got == answer(token) else "wrong"
    return Told(token=token, told_at=time.monotonic(), outcome=outcome)  # type: ignore[arg-type]  # one of the two


def shoot_at(name: str, peer: Peer, seconds: float, seed: int, place: Path) -> FaultRow:
    """Start the contestant, kill its workers for so long, and count what became of its calls."""
    journal = place / "journal"
    os.environ[JOURNAL] = str(journal)
    peer.open(place, _WORKERS)
    _wait_until_it_answers(peer)
    callers = _Callers(peer)
    began_at = time.monotonic()
    callers.start()
    kills = _kill_workers(random.Random(seed), journal, began_at + seconds)
    ended_at = time.monotonic()
    callers.stop()
    works = _works(peer)
    lines = journal.read_text(encoding="utf-8").splitlines()
    row = fault_row(name, callers.told, lines, kills, began_at=began_at, ended_at=ended_at, works_afterwards=works)
    (place / ROW).write_text(json.dumps(row.as_mapping()), encoding="utf-8")
    return row


def _wait_until_it_answers(peer: Peer) -> None:
    """Call until a call is answered: some listen before they have workers."""
    gives_up_at = time.monotonic() + 2 * _LIMIT_S
    number = 0
    while call_once(peer, f"warm-{number}").outcome != "answered":
        number += 1
        if time.monotonic() > gives_up_at:
            raise RuntimeError("it never answered")
        time.sleep(0.02)


def _kill_workers(numbers: random.Random, journal: Path, until: float) -> list[Kill]:
    """Kill a process below us that has worked, every 200 to 400 ms."""
    import psutil  # not at the top: workers that are spawned load this module again

    kills: list[Kill] = []
    while True:
        time.sleep(numbers.uniform(0.2, 0.4))
        if time.monotonic() >= until:
            return kills
        worked = {int(line.split()[2]) for line in journal.read_text(encoding="utf-8").splitlines()}
        children = psutil.Process().children(recursive=True)
        below = {child.pid for child in children if _lives(child)}
        living = sorted(worked & below - {kill.pid for kill in kills})
        if living:
            pid = numbers.choice(living)
            kills.append(Kill(at=time.monotonic(), pid=pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _lives(process: Any) -> bool:
    """Say whether there is somebody to kill: no process that is dead and that nobody has reaped."""
    with suppress(Exception):  # psutil's own: gone since
        return bool(process.status() != "zombie")
    return False


def _works(peer: Peer) -> bool:
    """Say whether it answers several calls in a row, now that nobody is killed any more."""
    gives_up_at = time.monotonic() + _LIMIT_S
    number = in_a_row = 0
    while in_a_row < _AFTERWARDS and time.monotonic() < gives_up_at:
        number += 1
        is_answered = call_once(peer, f"after-{number}").outcome == "answered"
        in_a_row = in_a_row + 1 if is_answered else 0
        if not is_answered:
            time.sleep(_AFTER_ERROR_S)
    return in_a_row == _AFTERWARDS


def main(name: str, seconds: str, seed: str, place: str) -> None:
    peer = PEERS[name][0]()
    shoot_at(name, peer, float(seconds), int(seed), Path(place))
    sys.stdout.flush()
    # what hangs in a pool would keep the process; whoever started it ends the rest of its group
    threading.Thread(target=peer.close, daemon=True).start()
    time.sleep(1.0)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
