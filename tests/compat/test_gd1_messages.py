from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import DirtyTimeoutError, EncodeError, RemoteProtocolError
from dirtybus.protocol import tlv
from dirtybus.protocol.frames import GD1, Frame, FrameBuffer, header
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES, decode_message, encode_message
from dirtybus.protocol.gd1_messages import (
    Chunk,
    End,
    Error,
    Kind,
    Manage,
    ManageVerb,
    Message,
    Request,
    Response,
    StashAsk,
    StashVerb,
    StatusAsk,
)

# made by gunicorn 27.0.1
GOLDEN: dict[str, tuple[int, Message, str]] = {
    "request": (
        7,
        Request(
            "shop.ml:Model",
            "predict",
            [1, "two", 3.5, b"\x00\xff", None, True, [1, 2]],
            {"top": 5, "names": {"a": 1}},
        ),
        "47440101000000c30000000000000007210000000411000000086170705f70617468110000000d73686f702e6d6c3a4d6f64656c"
        "1100000006616374696f6e1100000007707265646963741100000004617267732000000007050000000000000001110000000374"
        "776f06400c000000000000100000000200ff000101200000000205000000000000000105000000000000000211000000066b7761"
        "7267732100000002110000000"
        "3746f7005000000000000000511000000056e616d65732100000001110000000161050000000000000001",
    ),
    "bare request": (
        1,
        Request("m:A", "run", [], {}),
        "474401010000004b0000000000000001210000000411000000086170705f7061746811000000036d3a411100000006616374696f6e"
        "110000000372756e110000000461726773200000000011000000066b77617267732100000000",
    ),
    "response": (
        2**64 - 1,
        Response({"ok": True}),
        "474401020000001effffffffffffffff21000000011100000006726573756c74210000000111000000026f6b0101",
    ),
    "error": (
        3,
        Error({"error_type": "DirtyTimeoutError", "message": "late", "details": {"timeout": 1.5}}),
        "47440103000000740000000000000003210000000111000000056572726f722100000003110000000a6572726f725f74797065"
        "110000001144697274795"
        "4696d656f75744572726f7211000000076d65737361676511000000046c617465110000000764657461696c73210000000111"
        "0000000774696d656f7574063ff8000000000000",
    ),
    "chunk": (4, Chunk("token"), "4744010400000018000000000000000421000000011100000004646174611100000005746f6b656e"),
    "end": (5, End(), "47440105000000000000000000000005"),
    "status": (6, StatusAsk(), "47440111000000000000000000000006"),
    "manage": (
        8,
        Manage(ManageVerb.REMOVE, 2),
        "47440112000000280000000000000008210000000211000000026f700500000000000000021100000005636f756e74"
        "050000000000000002",
    ),
    "put": (
        9,
        StashAsk(StashVerb.PUT, "t", "k", {"v": 1}),
        "47440110000000510000000000000009210000000411000000026f7005000000000000000111000000057461626c65110000000174"
        "11000000036b657911000000016b110000000576616c75652100000001110000000176050000000000000001",
    ),
    "keys": (
        10,
        StashAsk(StashVerb.KEYS, "t", pattern="a*"),
        "4744011000000038000000000000000a210000000311000000026f7005000000000000000411000000057461626c65110000000174"
        "11000000077061747465726e1100000002612a",
    ),
    "exists": (
        11,
        StashAsk(StashVerb.EXISTS, "t"),
        "4744011000000025000000000000000b210000000211000000026f7005000000000000000a11000000057461626c65110000000174",
    ),
}


def frame_of(data: bytes) -> Frame:
    frames = FrameBuffer(MAX_PAYLOAD_BYTES)
    frames.feed(data)
    frame = frames.next_frame()
    assert frame is not None
    return frame


@pytest.mark.parametrize("name", GOLDEN)
def test_a_message_is_written_as_gunicorn_writes_it(name: str) -> None:
    client_id, message, golden = GOLDEN[name]
    assert encode_message(message, client_id).hex() == golden


@pytest.mark.parametrize("name", GOLDEN)
def test_gunicorns_bytes_are_read_as_what_they_say(name: str) -> None:
    client_id, message, golden = GOLDEN[name]
    frame = frame_of(bytes.fromhex(golden))
    assert (frame.id, decode_message(frame)) == (client_id, message)


def test_a_value_that_cannot_be_sent_is_named_by_its_place_in_the_arguments() -> None:
    with pytest.raises(EncodeError, match=r"args\[1\]\['x'\].*set") as caught:
        encode_message(Request("m:A", "run", [0, {"x": {1}}]), 1)
    assert caught.value.place == "args[1]['x']"


def test_a_message_over_the_limit_is_refused_with_its_largest_field() -> None:
    with pytest.raises(EncodeError, match=r"result: .* over the 67108864"):
        encode_message(Response([b"x" * 40_000_000, b"x" * 40_000_000]), 1)


def test_an_error_travels_whatever_its_details_hold() -> None:
    error = DirtyTimeoutError("late \ud800", 1.5)
    error.details["history"] = [{1, 2}, object]
    sent = decode_message(frame_of(encode_message(Error(error.to_dict()), 1)))
    assert isinstance(sent, Error)
    assert sent.error["error_type"] == "DirtyTimeoutError"
    assert sent.error["message"] == "late \\ud800"
    assert sent.error["details"]["timeout"] == 1.5
    assert sent.error["details"]["history"].startswith("[{1, 2}")


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (0x06, b""),
        (0x99, b""),
        (Kind.REQUEST, tlv.encode([1])),
        (Kind.REQUEST, tlv.encode({"app_path": 1})),
        (Kind.REQUEST, tlv.encode({"app_path": "m:A", "args": "abc"})),
        (Kind.REQUEST, tlv.encode({"app_path": "m:A", "kwargs": [1]})),
        (Kind.REQUEST, b"\x21\xff\xff\xff\xff"),
        (Kind.STASH, tlv.encode({"op": "put", "table": "t"})),
        (Kind.STASH, tlv.encode({"op": True, "table": "t"})),
        (Kind.MANAGE, tlv.encode({"op": 1, "count": 1.5})),
        (Kind.ERROR, tlv.encode({"error": "text"})),
    ],
)
def test_what_no_message_is_read_from_breaks_the_protocol(kind: int, payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_message(Frame(GD1, kind, 1, payload))


@given(st.binary(max_size=80), st.sampled_from(list(Kind)))
def test_any_bytes_end_in_a_message_or_in_a_protocol_error(payload: bytes, kind: Kind) -> None:
    frame = frame_of(header(GD1, kind, len(payload), 1) + payload)
    with contextlib.suppress(RemoteProtocolError):
        decode_message(frame)
