"""Break valid bytes the way line noise, bugs and enemies do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

#: Bytes that mean something to a reader: lengths, counts, type codes.
_TELLING = bytes([0x00, 0x01, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xC4, 0xC7, 0xC9, 0xD4, 0xD8, 0xDB, 0xDD, 0xDF, 0xFF])


def mutants(originals: Sequence[bytes], count: int, *, seed: int) -> Iterator[bytes]:
    """Yield ``count`` broken variants; the same seed gives the same ones."""
    random = Random(seed)
    for _ in range(count):
        data = bytearray(random.choice(originals))
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            _break(data, originals, random)
        yield bytes(data)


def _break(data: bytearray, originals: Sequence[bytes], random: Random) -> None:
    at = random.randrange(len(data) + 1)
    match random.randrange(7):
        case 0 if at < len(data):
            data[at] ^= 1 << random.randrange(8)
        case 1 if at < len(data):
            data[at] = random.choice(_TELLING)
        case 2:
            del data[at:]
        case 3:
            del data[at : at + random.randrange(1, 9)]
        case 4:
            data[at:at] = random.randbytes(random.randrange(1, 9))
        case 5:
            data[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff"))
        case _:
            other = random.choice(originals)
            start = random.randrange(len(other) + 1)
            data[at:at] = other[start : start + random.randrange(1, 33)]
