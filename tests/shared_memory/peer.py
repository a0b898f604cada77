"""The other process of these tests: does what it is told, line by line. Judges nothing."""

from __future__ import annotations

import collections
import itertools
import sys

import msgspec
import numpy as np

from dirtybus.protocol.codec import decode_body, encode_body
from dirtybus.shared_memory import SharedBody, SharedRef


def serve() -> None:
    """Answer each line, a command and a reference, by one line of JSON."""
    kept: list[SharedBody] = []
    for line in sys.stdin:
        command, argument = line.split(maxsplit=1)
        if command == "make":
            body = made(int(argument))
            kept.append(body)
            say(body.ref())
        elif command == "close":
            kept.pop().close()
            say(None)
        else:
            opened = SharedBody.open(msgspec.json.decode(argument, type=SharedRef))
            say(None if opened is None else used(opened, is_written=command == "write"))


def made(items: int) -> SharedBody:
    body = SharedBody.of(encode_body(np.arange(items)))
    assert body is not None
    return body


def used(body: SharedBody, *, is_written: bool) -> int:
    array = decode_body(body.view())
    if is_written:
        array[:] = 7
    return int(array.sum())


def flood() -> None:
    """Make one body after the other and keep the last few, until killed."""
    kept: collections.deque[SharedBody] = collections.deque(maxlen=10)
    for number in itertools.count():
        kept.append(made(20_000 + number))
        say(kept[-1].ref())


def say(what: object) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    {"serve": serve, "flood": flood}[sys.argv[1]]()
