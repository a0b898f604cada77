from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import LocalProtocolError, RemoteProtocolError
from dirtybus.protocol import heads
from dirtybus.protocol.frames import NATIVE, Frame, FrameBuffer
from dirtybus.protocol.heads import Head, Kind
from dirtybus.protocol.messages import Message, decode_message, encode_message
from dirtybus.protocol.sole import decode_sole

ONE_OF_EACH: list[Head] = [
    heads.Call(app="shop:Model", action="ask", time_left_s=1.5, window=4, attempt=2),
    heads.Reply(),
    heads.Failure(error={"code": "app", "message": "no", "details": {"app_path": "a:B"}}),
    heads.Chunk(),
    heads.End(),
    heads.Cancel(),
    heads.Credit(chunks=16),
    heads.Progress(done=1.0, total=2.0, text="half"),
    heads.Drain(),
    heads.Goodbye(),
    heads.StashAsk(),
    heads.StashAnswer(),
    heads.StatusAsk(),
    heads.Manage(verb="scale", arguments={"workers": 3}),
    heads.Answer(value=[1, None, {"a": 2.5}]),
    heads.Refusal(error={"code": "stash", "message": "no"}),
    heads.Hello(role="client", pid=7, version="1", max_payload_bytes=64),
    heads.Inspect(apps=["a:B"], path=["/x"]),
    heads.Inspected(apps=[{"path": "a:B", "actions": {}}]),
    heads.Boot(worker=3, apps=["a:B"], owner_pid=9, compute_threads=None),
    heads.Ready(boot_s=0.25),
    heads.Booting(step="init", app="a:B"),
    heads.RunBatch(batch=7),
    heads.BootFailed(step="init", app=None, duration_s=1.0, error={"message": "no"}),
    heads.Stop(),
    heads.Log(level=30, text="{} %s", logger="shop", app="a:B", traceback="Traceback"),
]


def frame_of(message: Message) -> Frame:
    buffer = FrameBuffer(1 << 20, versions=frozenset({NATIVE}))
    buffer.feed(b"".join(encode_message(message)))
    frame = buffer.next_frame()
    assert frame is not None
    assert buffer.next_frame() is None
    return frame


def with_head(kind: int, packed: bytes, *, length: int | None = None) -> Frame:
    return Frame(NATIVE, kind, 1, struct.pack(">I", len(packed) if length is None else length) + packed)


def test_every_kind_has_a_specimen_here() -> None:
    assert {head.kind for head in ONE_OF_EACH} == set(Kind)


@pytest.mark.parametrize("head", ONE_OF_EACH, ids=lambda head: head.kind.name)
@pytest.mark.parametrize("body", [(), (b"payload",), (b"in", bytearray(b" two"), memoryview(b" parts"))])
def test_a_message_comes_back_equal(head: Head, body: tuple[Any, ...]) -> None:
    message = decode_message(frame_of(Message(head, 2**64 - 1, body)))
    assert (message.head, message.id) == (head, 2**64 - 1)
    assert bytes(message.payload) == b"".join(body)


def test_a_body_is_a_view_of_the_frame_when_it_is_large() -> None:
    frame = frame_of(Message(heads.Reply(), 1, (b"x" * 100_000,)))
    body = decode_message(frame).payload
    assert isinstance(body, memoryview)
    assert body.obj is memoryview(frame.payload).obj


def test_fields_of_a_newer_peer_are_skipped() -> None:
    packed = msgspec.msgpack.encode({"chunks": 2, "colour": {"deep": [1, 2, {"x": None}]}})
    assert decode_message(with_head(Kind.CREDIT, packed)).head == heads.Credit(chunks=2)


@pytest.mark.parametrize("kind", sorted(set(range(256)) - {int(kind) for kind in Kind}))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{kind:#04x}"):
        decode_message(with_head(kind, b""))


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x00\x00"])
def test_a_payload_without_room_for_a_head_is_refused(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="no room"):
        decode_message(Frame(NATIVE, Kind.REPLY, 1, payload))


@pytest.mark.parametrize("length", [1, 5, 2**31, 2**32 - 1])
def test_a_head_that_goes_past_the_end_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="past the end"):
        decode_message(with_head(Kind.CALL, b"", length=length))


_WITHOUT_HEAD = {
    Kind.REPLY, Kind.CHUNK, Kind.END, Kind.CANCEL, Kind.DRAIN, Kind.GOODBYE, Kind.STASH, Kind.STASH_ANSWER,
    Kind.STATUS, Kind.STOP,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(_WITHOUT_HEAD))
def test_an_empty_head_takes_no_bytes_and_is_the_same_to_its_reader(kind: Kind) -> None:
    head = {type(head).kind: type(head) for head in ONE_OF_EACH}[kind]()
    assert frame_of(Message(head, 1, (b"body",))).payload == bytes(4) + b"body"
    assert decode_message(with_head(kind, b"")).head == head
    assert decode_message(with_head(kind, b"\x80")).head == head


@pytest.mark.parametrize("head", ONE_OF_EACH, ids=lambda head: head.kind.name)
def test_one_whole_frame_is_read_at_once_and_anything_else_is_left_to_the_long_way(head: Head) -> None:
    for body in (b"", b"payload"):
        (data,) = encode_message(Message(head, 2**64 - 1, (body,) if body else ()))
        assert isinstance(data, bytes)
        assert decode_sole(data) == decode_message(frame_of(Message(head, 2**64 - 1, (body,))))
        for other in (data[:-1], data[:10], b"", data + b"G", data + data, b"X" + data[1:], b"GD\x01" + data[3:]):
            assert decode_sole(other) is None


@pytest.mark.parametrize("kind", [0xFF, Kind.CALL])
def test_a_sole_frame_of_an_unknown_kind_or_without_the_head_it_needs_is_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown kind 0xff|CALL message came without its head"):
        decode_sole(struct.pack(">2sBBIQI", b"GD", NATIVE, kind, 4, 1, 0))


def test_a_sole_frame_whose_head_goes_past_its_end_is_left_to_the_long_way() -> None:
    assert decode_sole(struct.pack(">2sBBIQI", b"GD", NATIVE, Kind.REPLY, 4, 1, 1)) is None


@pytest.mark.parametrize("kind", sorted(set(Kind) - _WITHOUT_HEAD))
def test_a_kind_that_needs_a_head_is_refused_without(kind: Kind) -> None:
    with pytest.raises(RemoteProtocolError, match="without its head"):
        decode_message(with_head(kind, b""))


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        (Kind.CALL, b"\xc0"),
        (Kind.CALL, b"\x81\xa3app\xa1a"),
        (Kind.CALL, msgspec.msgpack.encode({"app": 1, "action": "a"})),
        (Kind.CALL, b"\x82\xa3app\xa1\xff\xa6action\xa1a"),  # no UTF-8
        (Kind.CREDIT, msgspec.msgpack.encode({"chunks": "many"})),
        (Kind.CREDIT, b"\x81\xa6chunks\x01\x01"),  # something after the head
        (Kind.STASH, b"\x81\xa2op\xdf\xff\xff\xff\xff"),  # counts that are not there
        (Kind.STASH, b"\x81\xa2op\x81\xa1a\xdd\xff\xff\xff\xff"),
        (Kind.STASH, b"\x81\xa2op\x81\xa1a\xc6\xff\xff\xff\xff"),
        (Kind.STASH, b"\x81\xa2op\x81\xa1a" + b"\x91" * 200_000),  # depth without end
        (Kind.CREDIT, b"\x82\xa1z" + b"\x91" * 200_000),  # the same where it would be skipped
    ],
)
def test_a_head_that_is_not_its_kinds_is_refused(kind: Kind, packed: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=kind.name):
        decode_message(with_head(kind, packed))


@given(st.sampled_from(sorted(Kind)), st.binary(max_size=60))
def test_any_head_is_a_message_or_refused(kind: Kind, packed: bytes) -> None:
    try:
        decode_message(with_head(kind, packed))
    except RemoteProtocolError:
        return


def test_half_a_surrogate_pair_is_spelled_out_rather_than_lost() -> None:
    error = {"message": "no file caf\udce9", "details": {"action\ud800": ["\udce9", 1]}}
    head = decode_message(frame_of(Message(heads.Failure(error=error), 1))).head
    assert head == heads.Failure(error={"message": r"no file caf\udce9", "details": {r"action\ud800": [r"\udce9", 1]}})


@pytest.mark.parametrize("value", [object(), 2**70, {("a", "b"): object()}])
def test_a_head_that_is_no_plain_value_is_refused_before_it_is_sent(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="ANSWER"):
        encode_message(Message(heads.Answer(value=value), 1))


@pytest.mark.parametrize("id", [-1, 2**64])
def test_an_id_that_does_not_fit_is_refused_before_it_is_sent(id: int) -> None:  # noqa: A002 - the field's name
    with pytest.raises(LocalProtocolError):
        encode_message(Message(heads.Reply(), id))


def test_a_number_that_is_none_arrives_as_such() -> None:
    head = decode_message(frame_of(Message(heads.Progress(done=math.nan, total=math.inf), 1))).head
    assert isinstance(head, heads.Progress)
    assert math.isnan(head.done)
    assert head.total == math.inf
