from __future__ import annotations

import asyncio
import importlib
import inspect
import subprocess
import sys
from typing import Any

import pytest

from dirtybus.compat import gunicorn as compat
from dirtybus.compat.gunicorn import app, errors, protocol, tlv
from dirtybus.compat.gunicorn import client as client_module
from dirtybus.compat.gunicorn.errors import DirtyAppError, DirtyAppNotFoundError, DirtyError, DirtyProtocolError


class Valid:
    workers = 2

    def init(self) -> None: ...
    def __call__(self, action: str) -> None: ...
    def close(self) -> None: ...


class Failing(Valid):
    def __init__(self) -> None:
        raise RuntimeError("no model here")


class Incomplete:
    def init(self) -> None: ...
    def __call__(self, action: str) -> None: ...


not_a_class = 1

HERE = __name__


# --- app ----------------------------------------------------------------------------------------------------------


def test_a_spec_is_split_into_its_path_and_its_count() -> None:
    assert app.parse_dirty_app_spec("m.sub:App") == ("m.sub:App", None)
    assert app.parse_dirty_app_spec("m.sub:App:3") == ("m.sub:App", 3)


@pytest.mark.parametrize("spec", ["m", "m:App:x", "m:App:0", "m:App:-1", "m:App:1:2"])
def test_a_spec_of_another_form_is_an_app_error_with_the_spec(spec: str) -> None:
    with pytest.raises(DirtyAppError) as caught:
        app.parse_dirty_app_spec(spec)
    assert caught.value.app_path == spec


def test_apps_are_loaded_and_told_by_their_path() -> None:
    loaded = app.load_dirty_apps([f"{HERE}:Valid"])
    assert isinstance(loaded[f"{HERE}:Valid"], Valid)
    assert app.get_app_workers_attribute(f"{HERE}:Valid") == 2
    assert app.get_app_workers_attribute(f"{HERE}:Incomplete") is None


@pytest.mark.parametrize("path", ["no_such_module_anywhere:App", f"{HERE}:Missing", ":App"])
def test_an_app_that_is_not_there_is_an_app_not_found_error(path: str) -> None:
    with pytest.raises(DirtyAppNotFoundError) as caught:
        app.load_dirty_app(path)
    assert caught.value.app_path == path


@pytest.mark.parametrize("path", ["nocolon", f"{HERE}:not_a_class", f"{HERE}:Failing", f"{HERE}:Incomplete"])
def test_an_app_that_is_none_is_an_app_error(path: str) -> None:
    with pytest.raises(DirtyAppError) as caught:
        app.load_dirty_app(path)
    assert not isinstance(caught.value, DirtyAppNotFoundError)


# --- errors -------------------------------------------------------------------------------------------------------


def test_errors_have_gunicorns_attributes_and_survive_the_dict() -> None:
    for error, name, attributes in (
        (errors.DirtyTimeoutError("late", 1.5), "DirtyTimeoutError", {"timeout": 1.5}),
        (errors.DirtyConnectionError("gone", "/s"), "DirtyConnectionError", {"socket_path": "/s"}),
        (errors.DirtyWorkerError("died", 7, "tb"), "DirtyWorkerError", {"worker_id": 7, "traceback": "tb"}),
        (errors.DirtyAppError("no", "m:A", "run", "tb"), "DirtyAppError", {"app_path": "m:A", "action": "run"}),
        (errors.DirtyNoWorkersAvailableError("m:A"), "DirtyNoWorkersAvailableError", {"app_path": "m:A"}),
    ):
        written = error.to_dict()
        assert written["error_type"] == name
        again = DirtyError.from_dict({key: written[key] for key in ("error_type", "message", "details")})
        assert type(again) is type(error)
        assert {attribute: getattr(again, attribute) for attribute in attributes} == attributes


# --- tlv ----------------------------------------------------------------------------------------------------------


VALUES: list[Any] = [None, True, -5, 2.5, b"\x00", "é", [1, ["a", {}]], {"k": {"n": [None] * 20}}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_decoded_at_an_offset_with_the_place_where_it_ends(value: object) -> None:
    encoded = tlv.TLVEncoder.encode(value)
    assert tlv.TLVEncoder.decode(b"junk" + encoded + b"more", 4) == (value, 4 + len(encoded))
    assert tlv.TLVEncoder.decode_full(encoded) == value


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_that_is_cut_off_is_a_protocol_error(value: object) -> None:
    encoded = tlv.TLVEncoder.encode(value)
    for length in range(len(encoded)):
        with pytest.raises(DirtyProtocolError):
            tlv.TLVEncoder.decode(encoded[:length])
        with pytest.raises(DirtyProtocolError):
            tlv.TLVEncoder.decode_full(encoded[:length])


def test_what_the_format_lacks_is_a_protocol_error_as_in_gunicorn() -> None:
    with pytest.raises(DirtyProtocolError, match=r"Unsupported type for TLV encoding.*set"):
        tlv.TLVEncoder.encode([{1}])
    with pytest.raises(DirtyProtocolError, match="Unknown TLV type code: 0xff"):
        tlv.TLVEncoder.decode(b"\xff")


# --- protocol -----------------------------------------------------------------------------------------------------

MESSAGES = [
    protocol.make_request(1, "m:A", "run", (1,), {"k": b"v"}),
    protocol.make_response(2, [1]),
    protocol.make_error_response(3, {"error_type": "DirtyError", "message": "no", "details": {}}),
    protocol.make_chunk_message(4, "c"),
    protocol.make_end_message(5),
    protocol.make_stash_message(6, protocol.STASH_OP_PUT, "t", "k", 0),
    {"type": "status", "id": 7},
    protocol.make_manage_message(8, protocol.MANAGE_OP_ADD, 3),
]


class OneByteSocket:
    """Gives what was sent, a byte at a time."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def sendall(self, data: bytes, /) -> None:
        self.sent += data

    def recv(self, size: int, /) -> bytes:
        first = bytes(self.sent[: min(size, 1)])
        del self.sent[:1]
        return first


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
def test_a_message_is_read_from_a_socket_as_it_was_written(message: dict[str, Any]) -> None:
    sock = OneByteSocket()
    protocol.DirtyProtocol.write_message(sock, message)
    kind, client_id, fields = protocol.DirtyProtocol.decode_message(bytes(sock.sent))
    assert {"type": kind, "id": client_id, **fields} == message
    assert protocol.DirtyProtocol.read_message(sock) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
async def test_a_message_is_read_from_a_stream_as_it_was_written(message: dict[str, Any]) -> None:
    sock = OneByteSocket()
    protocol.BinaryProtocol.write_message(sock, message)
    reader = asyncio.StreamReader()
    reader.feed_data(bytes(sock.sent))
    reader.feed_eof()
    assert await protocol.BinaryProtocol.read_message_async(reader) == message
    with pytest.raises(asyncio.IncompleteReadError):
        await protocol.BinaryProtocol.read_message_async(reader)


async def test_a_message_that_is_cut_off_is_a_protocol_error() -> None:
    data = protocol.BinaryProtocol.encode_response(1, "result")
    for length in range(1, len(data)):
        reader = asyncio.StreamReader()
        reader.feed_data(data[:length])
        reader.feed_eof()
        with pytest.raises(DirtyProtocolError):
            await protocol.BinaryProtocol.read_message_async(reader)
        sock = OneByteSocket()
        sock.sendall(data[:length])
        with pytest.raises(DirtyProtocolError, match="Connection closed"):
            protocol.BinaryProtocol.read_message(sock)


def test_a_message_of_unknown_type_is_not_written() -> None:
    with pytest.raises(DirtyProtocolError, match="Unknown message type: gossip"):
        protocol.DirtyProtocol.write_message(OneByteSocket(), {"type": "gossip"})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GD", "Header too short"),
        (b"XX" + bytes(14), "Invalid magic"),
        (b"GD\x02" + bytes(13), "Unsupported protocol version: 2"),
        (b"GD\x01\x77" + bytes(12), "Unknown message type: 0x77"),
        (b"GD\x01\x01\xff" + bytes(11), "Message too large"),
    ],
)
def test_a_header_that_is_none_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(DirtyProtocolError, match=reason):
        protocol.BinaryProtocol.decode_header(data)


# --- the whole ----------------------------------------------------------------------------------------------------


def test_importing_it_loads_no_asyncio_which_gevent_would_have_to_patch_first() -> None:
    program = "import sys, dirtybus.compat.gunicorn; print({'asyncio', 'concurrent.futures'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout == "set()\n"


def test_without_a_path_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIRTYBUS_SOCKET", raising=False)
    monkeypatch.delenv("GUNICORN_DIRTY_SOCKET", raising=False)
    with pytest.raises(DirtyError, match="DIRTYBUS_SOCKET"):
        compat.get_dirty_client()
    with pytest.raises(compat.StashError, match="DIRTYBUS_SOCKET"):
        compat.stash.get("t", "k")


def test_where_nobody_listens_is_a_connection_error_with_the_path() -> None:
    with pytest.raises(errors.DirtyConnectionError) as caught, compat.DirtyClient("/nowhere/s", 1):
        pass
    assert caught.value.socket_path == "/nowhere/s"
    with pytest.raises(compat.StashError, match="Failed to connect"):
        compat.StashClient("/nowhere/s", 1).get("t", "k")


@pytest.mark.interop
@pytest.mark.parametrize("name", ["", ".app", ".client", ".errors", ".protocol", ".stash", ".tlv"])
def test_every_public_name_of_gunicorns_module_is_here_too(name: str) -> None:
    pytest.importorskip("gunicorn.dirty")
    theirs = importlib.import_module(f"gunicorn.dirty{name}")
    ours = importlib.import_module(f"dirtybus.compat.gunicorn{name}")
    made_there = {
        word
        for word, value in vars(theirs).items()
        if not word.startswith("_") and getattr(value, "__module__", theirs.__name__) == theirs.__name__
    }
    public = set(getattr(theirs, "__all__", made_there)) - {"DirtyArbiter"}  # gunicorn's core starts that one
    constants_of_others = {word for word in public if word.startswith("STASH_OP_") and name == ".stash"}
    missing = {word for word in public - constants_of_others if not hasattr(ours, word)}
    assert {word for word in missing if not inspect.ismodule(getattr(theirs, word))} == set()


@pytest.mark.interop
@pytest.mark.parametrize("path", [".client:DirtyClient", ".stash:StashClient", ".stash:StashTable"])
def test_every_public_method_of_gunicorns_class_takes_the_same_arguments(path: str) -> None:
    pytest.importorskip("gunicorn.dirty")
    module, _, cls = path.partition(":")
    theirs = getattr(importlib.import_module(f"gunicorn.dirty{module}"), cls)
    ours = getattr(importlib.import_module(f"dirtybus.compat.gunicorn{module}"), cls)
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if not name.startswith("_") or name == "__init__":
            assert list(inspect.signature(getattr(ours, name)).parameters) == list(inspect.signature(method).parameters)


def test_the_stream_classes_keep_gunicorns_limits() -> None:
    client = compat.DirtyClient("/nowhere/s", timeout=300)
    assert client_module.DirtyStreamIterator.DEFAULT_IDLE_TIMEOUT == 30.0
    stream = client.stream("m:A", "run")
    assert iter(stream) is stream
    stream.close()
    assert list(stream) == []
