"""A real model in dirty workers: magika tells what is inside files. The owner never loads the model, nor NumPy.

Run it: pip install magika && python examples/inference.py [FILE_OR_DIRECTORY ...]
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyApp, DirtyBus, DirtyError, InferenceRequested
from dirtybus.errors import MissingExtra
from dirtybus.events import ArbiterStarting, ShutdownRequested

if TYPE_CHECKING:
    from magika.types import MagikaResult


class Verdict(TypedDict):
    """What the model says of one file; ``score`` is from 0 to 1."""

    label: str
    mime_type: str
    score: float


class Classifier(DirtyApp):
    """Loaded once in each worker (0.3 s), then about 10 ms of CPU a file."""

    def init(self) -> None:
        try:
            from magika import Magika
        except ImportError as exc:
            raise MissingExtra("magika", "demo", "telling file types") from exc
        self._model = Magika()

    def classify(self, content: bytes) -> Verdict:
        """Judge bytes that the caller has."""
        return _verdict(self._model.identify_bytes(content))

    def classify_file(self, path: str) -> Verdict:
        """Judge a file of this machine. Only the path travels, and only a few kilobytes of the file are read."""
        result = self._model.identify_path(path)
        if not result.ok:
            raise OSError(f"{path} cannot be read: {result.status}")
        return _verdict(result)


def _verdict(result: MagikaResult) -> Verdict:
    # plain values: what the caller gets must not need the model's package on its side
    return Verdict(label=str(result.output.label), mime_type=result.output.mime_type, score=float(result.score))


def files_below(places: list[str]) -> list[Path]:
    """List the files named, and those in the directories named; without any, this directory's."""
    # whole paths, because a worker may have another working directory
    roots = [Path(place).absolute() for place in places] or [Path(__file__).absolute().parent]
    return [path for root in roots for path in (_files_in(root) if root.is_dir() else [root])]


def _files_in(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


async def classify_and_print(bus: DirtyBus, path: Path) -> None:
    event = InferenceRequested("inference:Classifier", "classify_file", args=(str(path),), timeout_s=60)
    try:
        verdict = await bus.ask(event)
    except DirtyError as exc:  # one unreadable file is no reason to stop
        print(f"{path}: {exc}", file=sys.stderr)
        return
    print(f"{verdict['label']:<12} {verdict['score']:4.0%}  {path}")


def main() -> None:
    files = files_below(sys.argv[1:])
    bcc, manager = it(Broadcast), it(Launart)
    bus = DirtyBus(apps=["inference:Classifier"], workers=2)
    bus.install(manager, bcc)

    @bcc.receiver(ArbiterStarting)
    async def classify_all() -> None:
        """Post them all at once: the bus holds them until the model is loaded, then keeps both workers busy."""
        try:
            await asyncio.gather(*(classify_and_print(bus, path) for path in files))
        finally:
            bus.post(ShutdownRequested(f"{len(files)} files are done"))

    manager.launch_blocking()


if __name__ == "__main__":
    main()
