from __future__ import annotations

import pytest

from dirtybus.errors import CallError
from dirtybus.protocol.codec import encode_body
from dirtybus.transport import gathered
from dirtybus.transport.gathered import Gathered


def test_what_is_gathered_comes_back_in_order() -> None:
    chunks = Gathered()
    for number in range(5):
        chunks.add(b"".join(encode_body(number)))
    assert chunks.values() == [0, 1, 2, 3, 4]


def test_a_generator_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "MOST_GATHERED_BYTES", 2**20)
    chunks = Gathered()
    with pytest.raises(CallError, match="stream"):
        for _ in range(2**20):
            chunks.add(b"")
