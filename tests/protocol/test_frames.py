from __future__ import annotations

import gc
import itertools
import struct
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import LocalProtocolError, RemoteProtocolError
from dirtybus.protocol.frames import GD1, HEADER, LARGE_BYTES, MAGIC, NATIVE, Frame, FrameBuffer, header
from tests.protocol.fuzz import mutants

LIMIT = 64 * 1024 * 1024


def written(frame: Frame) -> bytes:
    return header(frame.version, frame.kind, len(frame.payload), frame.id) + frame.payload


def drained(buffer: FrameBuffer) -> list[Frame]:
    frames = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(frame)
    return frames


def cut(stream: bytes, ends: list[int]) -> list[bytes]:
    bounds = [0, *sorted(end % (len(stream) + 1) for end in ends), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(bounds)]


_payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 200_000]).map(lambda n: bytes([n % 251]) * n),
)
_frames = st.builds(
    Frame,
    version=st.sampled_from([GD1, NATIVE]),
    kind=st.integers(0, 255),
    id=st.integers(0, 2**64 - 1),
    payload=_payloads,
)


@given(st.lists(_frames, max_size=6), st.lists(st.integers(0, 2**40), max_size=12), st.booleans())
def test_frames_come_out_the_same_however_the_stream_is_split(
    frames: list[Frame], ends: list[int], drains_between: bool
) -> None:
    buffer = FrameBuffer(LIMIT)
    received: list[Frame] = []
    for piece in cut(b"".join(map(written, frames)), ends):
        buffer.feed(piece)
        if drains_between:
            received += drained(buffer)
    received += drained(buffer)
    assert received == frames
    assert len(buffer) == 0


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33])
def test_byte_by_byte_a_frame_appears_with_its_last_byte(size: int) -> None:
    frame = Frame(NATIVE, 7, 9, bytes(size))
    stream = written(frame)
    buffer = FrameBuffer(LIMIT)
    for byte in stream[:-1]:
        buffer.feed(bytes([byte]))
        assert buffer.next_frame() is None
    assert len(buffer) == len(stream) - 1
    buffer.feed(stream[-1:])
    assert drained(buffer) == [frame]


def test_small_payloads_are_bytes_and_large_ones_writable_views_of_their_own() -> None:
    buffer = FrameBuffer(LIMIT)
    for size in (LARGE_BYTES, LARGE_BYTES + 1):
        buffer.feed(bytearray(written(Frame(NATIVE, 1, 1, bytes(size)))))
    small, large = drained(buffer)
    assert type(small.payload) is bytes
    assert isinstance(large.payload, memoryview)
    assert not large.payload.readonly
    assert large.payload.nbytes == LARGE_BYTES + 1
    assert isinstance(large.payload.obj, bytearray)
    assert len(large.payload.obj) == LARGE_BYTES + 1


def test_what_was_handed_out_is_not_touched_by_what_comes_later() -> None:
    source = bytearray(written(Frame(NATIVE, 1, 1, b"first")))
    buffer = FrameBuffer(LIMIT)
    buffer.feed(source)
    frame = buffer.next_frame()
    source[:] = b"x" * len(source)
    buffer.feed(written(Frame(NATIVE, 1, 2, bytes(100_000))))
    assert frame is not None
    assert bytes(frame.payload) == b"first"


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (HEADER.pack(b"XX", NATIVE, 1, 0, 0), "expected a frame to start with b'GD', got b'XX'"),
        (b"GET / HTTP/1.1\r\n", "got b'GE'"),
        (HEADER.pack(MAGIC, 3, 1, 0, 0), "version 3; spoken here: 1, 2"),
        (HEADER.pack(MAGIC, NATIVE, 1, 1001, 0), "1001 bytes, over the limit of 1000"),
        (HEADER.pack(MAGIC, NATIVE, 1, 2**32 - 1, 0), "4294967295 bytes, over the limit of 1000"),
    ],
)
def test_a_bad_header_is_refused_as_soon_as_it_is_complete(start: bytes, message: str) -> None:
    buffer = FrameBuffer(1000)
    buffer.feed(start[:15])
    assert buffer.next_frame() is None
    buffer.feed(start[15:16])
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=message.replace("(", r"\(")):
            buffer.next_frame()


def test_frames_before_a_bad_one_are_still_handed_out() -> None:
    buffer = FrameBuffer(1000)
    buffer.feed(written(Frame(NATIVE, 1, 1, b"good")) + b"X" * 16)
    assert buffer.next_frame() == Frame(NATIVE, 1, 1, b"good")
    with pytest.raises(RemoteProtocolError):
        buffer.next_frame()


def test_a_payload_of_exactly_the_limit_is_accepted() -> None:
    for limit in (1000, LARGE_BYTES, LARGE_BYTES + 1000):
        buffer = FrameBuffer(limit)
        buffer.feed(written(Frame(NATIVE, 1, 1, bytes(limit))))
        assert len(drained(buffer)) == 1


def test_a_buffer_may_speak_one_version_only() -> None:
    buffer = FrameBuffer(1000, versions=frozenset({GD1}))
    buffer.feed(header(NATIVE, 1, 0, 0))
    with pytest.raises(RemoteProtocolError, match="spoken here: 1"):
        buffer.next_frame()


def test_a_header_whose_numbers_do_not_fit_is_our_own_fault() -> None:
    for version, kind, length, call_id in ((256, 1, 0, 0), (1, -1, 0, 0), (1, 1, 2**32, 0), (1, 1, 0, 2**64)):
        with pytest.raises(LocalProtocolError, match="does not fit the header"):
            header(version, kind, length, call_id)
    assert header(2, 1, 3, 4) == struct.pack(">2sBBIQ", b"GD", 2, 1, 3, 4)


def peak_of(announced: int, arriving: int, piece: int) -> tuple[int, int]:
    gc.collect()
    tracemalloc.start()
    try:
        buffer = FrameBuffer(LIMIT)
        buffer.feed(header(NATIVE, 1, announced, 1))
        assert buffer.next_frame() is None
        data = bytes(piece)
        for _ in range(arriving // piece):
            buffer.feed(data)
            assert buffer.next_frame() is None
        return tracemalloc.get_traced_memory()[1], len(buffer)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("arriving", [0, 4096, 65_536, 1_048_576, 8_388_608])
def test_memory_follows_what_arrived_not_what_was_announced(arriving: int) -> None:
    peak, buffered = peak_of(LIMIT, arriving, 4096)
    assert peak <= 3 * LARGE_BYTES + 2 * buffered


def test_time_is_linear_in_the_bytes_received() -> None:
    """Counts the bytes that are copied, through the memory that a frame's growth takes, not the clock."""
    buffer = FrameBuffer(LIMIT)
    buffer.feed(header(NATIVE, 1, 32_000_000, 1))
    buffer.next_frame()
    sizes = set()
    for _ in range(32_000_000 // 64_000):
        buffer.feed(bytes(64_000))
        incoming = buffer._incoming
        if incoming is not None:
            sizes.add(len(incoming.memory))
        buffer.next_frame()
    assert len(sizes) < 25
    assert len(buffer) == 0


def test_bytes_that_follow_a_large_frame_wait_for_their_turn() -> None:
    large, small = Frame(NATIVE, 1, 1, bytes(100_000)), Frame(NATIVE, 2, 2, b"next")
    buffer = FrameBuffer(LIMIT)
    stream = written(large) + written(small) * 2
    buffer.feed(stream[:20])
    assert buffer.next_frame() is None
    buffer.feed(stream[20:])
    assert len(buffer) == len(stream)
    assert drained(buffer) == [large, small, small]
    assert repr(buffer) == "<FrameBuffer 0 bytes>"


@pytest.mark.parametrize("count", [4_000, pytest.param(200_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_broken_streams_give_frames_or_one_typed_error(count: int) -> None:
    originals = [
        b"".join(written(Frame(v, k, k * 7, bytes([k]) * k)) for v in (1, 2) for k in (0, 1, 30)),
        written(Frame(NATIVE, 1, 1, bytes(70_000))) + written(Frame(GD1, 2, 2, b"x")),
    ]
    random = Random(3)
    errors = 0
    for stream in mutants(originals, count, seed=4):
        buffer = FrameBuffer(100_000)
        try:
            for piece in cut(stream, [random.randrange(len(stream) + 1) for _ in range(random.randrange(4))]):
                buffer.feed(piece)
                drained(buffer)
        except RemoteProtocolError:
            errors += 1
        assert len(buffer) <= len(stream)
    assert count / 8 < errors < count
