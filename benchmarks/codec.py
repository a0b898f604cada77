"""What a body costs, beside what others ask for the same values. Ratios travel between machines; times do not.

Run: python benchmarks/codec.py
"""

from __future__ import annotations

import importlib
import pickle
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from dirtybus.protocol import tlv
from dirtybus.protocol.codec import decode_body, encode_body
from dirtybus.protocol.frames import NATIVE, FrameBuffer, header

PAYLOADS: dict[str, Any] = {
    "small dict": {"prompt": "hello world", "top_k": 40, "temperature": 0.7, "stop": None, "stream": True},
    "request": [
        ("hello world", 3),
        {"temperature": 0.7, "stop": None, "tags": ["a", "b"], "opts": {"lang": "en"}},
    ],
    "100 nested dicts": [{"id": i, "name": f"n{i}", "v": [1, 2.5, None], "o": {"a": True}} for i in range(100)],
    "1,000 ints and texts": [x for i in range(500) for x in (i, "abc")],
    "100,000 floats": [i * 1.1 for i in range(100_000)],
    "1 MiB bytes": b"x" * 2**20,
}


def micros(call: Callable[[], object]) -> float:
    """Return the best time of one call, in microseconds."""
    timer = timeit.Timer(call)
    count, _ = timer.autorange()
    return min(timer.repeat(5, max(1, count // 4))) / max(1, count // 4) * 1e6


def codecs() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    found: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "body": (lambda value: b"".join(encode_body(value)), decode_body),
        "msgspec": (msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode),
        "pickle 5": (lambda value: pickle.dumps(value, 5), pickle.loads),
        "GD v1": (tlv.encode, tlv.decode),
    }
    try:
        theirs = importlib.import_module("gunicorn.dirty.tlv").TLVEncoder
    except ImportError:
        return found
    return {**found, "gunicorn": (theirs.encode, theirs.decode_full)}


def compare(value: Any) -> None:
    base: tuple[float, float] | None = None
    for name, (write, read) in codecs().items():
        written = write(value)
        costs = micros(partial(write, value)), micros(partial(read, written))
        base = base or costs
        print(
            f"  {name:9} encode {costs[0]:10.2f} us ({costs[0] / base[0]:6.2f}x)"
            f"   decode {costs[1]:10.2f} us ({costs[1] / base[1]:6.2f}x)"
        )


def main() -> None:
    for title, value in PAYLOADS.items():
        print(f"\n{title}")
        compare(value)
    print("\nframes")
    stream = (header(NATIVE, 1, 100, 7) + bytes(100)) * 1000

    def cut() -> None:
        buffer = FrameBuffer(2**26)
        buffer.feed(stream)
        while buffer.next_frame() is not None:
            pass

    print(f"  a frame of 100 bytes {micros(cut) / 1000:10.2f} us")


if __name__ == "__main__":
    main()
