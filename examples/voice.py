"""A voice for want of a recording: vowels made of pulses and three resonances each. Plain arithmetic, no model."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterable

RATE_HZ = 16_000
_VOWEL_S = 0.18
#: The three lowest resonances, in Hz, of the vowels in "father", "see", "hawk" and "hat".
_VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480))
_WIDTHS_HZ = (80, 100, 140)


def babble_pcm() -> bytes:
    """Return 16-bit mono sound of 5.5 s: a voice from 1.0 to 2.5 s and from 3.5 to 4.5 s, and nearly nothing around."""
    noise = random.Random(7)  # noqa: S311 - no secret: the same each time, so that what is heard is, too
    parts = [_hush(1.0, noise), _voice(1.5, noise), _hush(1.0, noise), _voice(1.0, noise), _hush(1.0, noise)]
    return array("h", (round(32_000 * max(-1.0, min(1.0, x))) for part in parts for x in part)).tobytes()


def _hush(seconds: float, noise: random.Random) -> list[float]:
    return [noise.gauss(0, 0.001) for _ in range(int(seconds * RATE_HZ))]


def _voice(seconds: float, noise: random.Random) -> list[float]:
    pulses = _pulses(int(seconds * RATE_HZ), noise)
    step = int(_VOWEL_S * RATE_HZ)
    spoken: list[float] = []
    for turn, start in enumerate(range(0, len(pulses), step)):
        spoken += _vowel(pulses[start : start + step], _VOWELS[turn % len(_VOWELS)])
    return spoken


def _pulses(count: int, noise: random.Random) -> list[float]:
    """What the vocal cords do: a click for each period of a pitch that wanders around 120 Hz."""
    phase, clicks = 0.0, []
    for i in range(count):
        phase += (120 + 15 * math.sin(13.2 * i / RATE_HZ) + 8 * math.sin(31.4 * i / RATE_HZ)) / RATE_HZ
        click, phase = divmod(phase, 1.0)
        clicks.append(click + noise.gauss(0, 0.005))
    return clicks


def _vowel(sound: list[float], resonances_hz: Iterable[float]) -> list[float]:
    for centre_hz, width_hz in zip(resonances_hz, _WIDTHS_HZ, strict=True):
        sound = _resonate(sound, centre_hz, width_hz)
    loudest = max(map(abs, sound)) or 1.0
    # swelling and fading makes syllables of what would be a buzz
    return [0.5 * x / loudest * math.sqrt(math.sin(math.pi * i / len(sound))) for i, x in enumerate(sound)]


def _resonate(sound: list[float], centre_hz: float, width_hz: float) -> list[float]:
    """What the mouth does: a filter with two poles."""
    radius = math.exp(-math.pi * width_hz / RATE_HZ)
    near, far = 2 * radius * math.cos(2 * math.pi * centre_hz / RATE_HZ), -radius * radius
    one, two, heard = 0.0, 0.0, []
    for x in sound:
        one, two = (1 - radius) * x + near * one + far * two, one
        heard.append(one)
    return heard
