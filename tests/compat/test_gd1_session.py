from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import (
    CallCancelled,
    DirtyAppNotFoundError,
    Draining,
    StashKeyNotFoundError,
    WorkerLost,
)
from dirtybus.protocol.arguments import decode_arguments
from dirtybus.protocol.codec import loaded_types
from dirtybus.protocol.frames import GD1, NATIVE, header
from dirtybus.protocol.gd1 import encode_message
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
from tests.compat.fakes import Client, FakeArbiter, body

LARGE = "x" * 100_000
FRAMES = [
    encode_message(Request("shop.ml:Model", "predict", [1, {"k": b"v"}], {"top": 5}), 1),
    encode_message(StashAsk(StashVerb.PUT, "t", "k", [1, 2]), 2),
    encode_message(StashAsk(StashVerb.KEYS, "t", pattern="*"), 3),
    encode_message(StatusAsk(), 4),
    encode_message(Manage(ManageVerb.ADD, 1), 5),
]


def error_of(told: tuple[int, Message]) -> tuple[int, str, str]:
    client_id, message = told
    assert isinstance(message, Error)
    return client_id, message.error["error_type"], message.error["message"]


# --- calls --------------------------------------------------------------------------------------------------------


def test_a_request_is_submitted_with_its_arguments() -> None:
    arbiter = FakeArbiter(stream_window=5)
    Client(arbiter).ask(Request("shop.ml:Model", "predict", [1, [2, 3]], {"top": b"\xff"}))
    request = arbiter.requests[0]
    assert (request.app, request.action, request.timeout_s, request.window) == ("shop.ml:Model", "predict", None, 5)
    args, kwargs = decode_arguments(b"".join(request.body), resolve=loaded_types)
    assert (args, kwargs) == ([1, [2, 3]], {"top": b"\xff"})


def test_each_answer_carries_the_id_of_its_request() -> None:
    client = Client(FakeArbiter())
    for client_id in (2**64 - 1, 3, 3):
        client.ask(Request("shop.ml:Model", "predict"), client_id)
    for index in (2, 0, 1):
        client.arbiter.sinks[index].reply(body(index))
    assert client.told() == [(3, Response(2)), (2**64 - 1, Response(0)), (3, Response(1))]


def test_a_result_arrives_as_gunicorns_format_has_it() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    client.arbiter.sinks[0].reply(body({"pair": (1, 2), 3: None}))
    assert client.told() == [(1, Response({"pair": [1, 2], "3": None}))]


@pytest.mark.parametrize("value", [{1, 2}, 2**64, 1j, bytearray(b"x")])
def test_a_result_that_cannot_be_sent_is_an_error_that_says_the_work_was_done(value: object) -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    client.arbiter.sinks[0].reply(body([{"found": value}]))
    client_id, kind, text = error_of(client.told()[0])
    assert (client_id, kind) == (1, "DirtyProtocolError")
    assert "shop.ml:Model predict ran to its end" in text
    assert "result[0]['found']" in text
    assert not client.transport.is_closing()


def test_chunks_then_the_end_arrive_in_order() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    sink = client.arbiter.sinks[0]
    sink.chunk(body("a"))
    sink.chunk(body("b"))
    sink.end()
    assert client.told() == [(1, Chunk("a")), (1, Chunk("b")), (1, End())]


def test_a_chunk_that_cannot_be_sent_ends_the_stream_and_its_work() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    sink = client.arbiter.sinks[0]
    sink.chunk(body("a"))
    sink.chunk(body({1}))
    sink.chunk(body("never sent"))
    sink.fail(CallCancelled("cancelled"))
    first, second = client.told()
    assert first == (1, Chunk("a"))
    assert "was cancelled, because a value it yielded cannot be sent" in error_of(second)[2]
    assert client.arbiter.cancelled == [1]


async def test_a_large_word_is_translated_elsewhere_and_not_overtaken() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    sink = client.arbiter.sinks[0]
    sink.chunk(body(LARGE))
    sink.chunk(body("small"))
    sink.end()
    assert client.told() == []
    assert await client.told_soon(3) == [(1, Chunk(LARGE)), (1, Chunk("small")), (1, End())]


async def test_a_large_request_is_translated_elsewhere_while_the_next_waits_in_the_kernel() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "first", [LARGE]))
    assert not client.transport.is_reading()
    client.ask(Request("shop.ml:Model", "second"))
    assert client.arbiter.requests == []
    await client.asked_soon(2)
    assert [request.action for request in client.arbiter.requests] == ["first", "second"]
    assert client.transport.is_reading()


async def test_a_large_result_of_a_client_that_left_goes_nowhere() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    client.arbiter.sinks[0].reply(body(LARGE))
    client.transport.close()
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    assert client.told() == []


def test_an_error_arrives_by_gunicorns_name_with_its_details() -> None:
    client = Client(FakeArbiter())
    client.ask(Request("shop.ml:Model", "predict"))
    client.arbiter.sinks[0].fail(WorkerLost("it died", 7, reason="SIGKILL"))
    ((_, message),) = client.told()
    assert isinstance(message, Error)
    assert message.error["error_type"] == "DirtyWorkerError"
    assert message.error["details"]["worker_id"] == 7


def test_a_refusal_is_the_answer() -> None:
    client = Client(FakeArbiter())
    client.arbiter.refusal = Draining("shutting down")
    client.ask(Request("shop.ml:Model", "predict"), 5)
    assert error_of(client.told()[0]) == (5, "DirtyError", "shutting down")


def test_an_app_that_is_not_served_has_no_workers_as_gunicorn_says() -> None:
    client = Client(FakeArbiter())
    client.arbiter.refusal = DirtyAppNotFoundError("shop.ml:Modle")
    client.ask(Request("shop.ml:Modle", "predict"))
    ((_, message),) = client.told()
    assert isinstance(message, Error)
    assert message.error["error_type"] == "DirtyNoWorkersAvailableError"
    assert message.error["details"] == {"app_path": "shop.ml:Modle"}


def test_more_open_calls_than_the_queue_holds_are_refused_one_by_one() -> None:
    client = Client(FakeArbiter(max_queued=2))
    for client_id in (1, 2, 3):
        client.ask(Request("shop.ml:Model", "predict"), client_id)
    assert error_of(client.told()[0])[0] == 3
    client.arbiter.sinks[0].reply(body(None))
    client.ask(Request("shop.ml:Model", "predict"), 4)
    assert len(client.arbiter.requests) == 3


def test_a_client_that_leaves_cancels_its_open_calls_and_no_others() -> None:
    client = Client(FakeArbiter())
    for client_id in (1, 2, 3):
        client.ask(Request("shop.ml:Model", "predict"), client_id)
    client.arbiter.sinks[1].reply(body("done"))
    client.transport.close()
    assert sorted(client.arbiter.cancelled) == [1, 3]
    assert client.closed == [client.session]
    client.arbiter.sinks[0].reply(body("late"))


# --- a client that does not read ----------------------------------------------------------------------------------


def test_a_stalled_reader_earns_no_credit_until_it_reads() -> None:
    client = Client(FakeArbiter(stream_window=4))
    client.ask(Request("shop.ml:Model", "predict"))
    sink = client.arbiter.sinks[0]
    sink.chunk(body(1))
    sink.chunk(body(2))
    assert client.arbiter.credits == [(1, 2)]
    client.session.pause_writing()
    sink.chunk(body(3))
    sink.chunk(body(4))
    sink.chunk(body(5))
    assert client.arbiter.credits == [(1, 2)]
    client.session.resume_writing()
    assert client.arbiter.credits == [(1, 2), (1, 3)]


def test_a_stalled_reader_is_not_read_either() -> None:
    client = Client(FakeArbiter())
    client.session.pause_writing()
    assert not client.transport.is_reading()
    client.ask(Request("shop.ml:Model", "predict"))
    assert client.arbiter.requests == []
    client.session.resume_writing()
    assert client.transport.is_reading()
    assert len(client.arbiter.requests) == 1


# --- a client that breaks the protocol ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "received",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        header(NATIVE, Kind.REQUEST, 0, 1),
        header(GD1, Kind.REQUEST, 64 * 1024 * 1024 + 1, 1),
        header(GD1, 0x77, 0, 1),
        header(GD1, Kind.REQUEST, 3, 1) + b"\x21\x00\x00",
        encode_message(Response(1), 1),
    ],
    ids=["another protocol", "another version", "too long", "unknown kind", "malformed", "an answer"],
)
def test_a_client_that_breaks_the_protocol_is_told_so_and_hung_up_on(received: bytes) -> None:
    client = Client(FakeArbiter())
    client.session.data_received(received)
    assert error_of(client.told()[0])[1] == "DirtyProtocolError"
    assert client.transport.is_closing()
    assert client.closed == [client.session]


def test_a_frame_over_our_own_limit_is_refused_before_its_payload_comes() -> None:
    client = Client(FakeArbiter(max_payload_bytes=2048))
    client.session.data_received(header(GD1, Kind.REQUEST, 2049, 1))
    assert "over the limit of 2048" in error_of(client.told()[0])[2]


def test_a_client_that_breaks_the_protocol_and_does_not_read_is_not_waited_for() -> None:
    client = Client(FakeArbiter())
    client.transport.unsent_bytes = 1
    client.session.data_received(b"nonsense, and a lot of it")
    assert client.transport.is_closing()


def test_a_session_takes_its_frames_byte_by_byte() -> None:
    client = Client(FakeArbiter())
    for byte in encode_message(Request("shop.ml:Model", "predict", [1]), 1):
        client.session.data_received(bytes([byte]))
    assert len(client.arbiter.requests) == 1


# --- stash --------------------------------------------------------------------------------------------------------


def stash(
    client: Client,
    verb: StashVerb,
    table: str = "t",
    key: object = None,
    value: object = None,
    *,
    pattern: str | None = None,
) -> object:
    client.ask(StashAsk(verb, table, key, value, pattern))
    ((_, message),) = client.told()
    if isinstance(message, Response):
        return message.result
    assert isinstance(message, Error)
    return message.error["error_type"]


def test_the_stash_answers_as_gunicorns_client_expects() -> None:
    client = Client(FakeArbiter())
    assert stash(client, StashVerb.PUT, "t", "k", {"v": [1, None]}) is True
    assert stash(client, StashVerb.GET, "t", "k") == {"v": [1, None]}
    assert stash(client, StashVerb.EXISTS, "t") is True
    assert stash(client, StashVerb.EXISTS, "t", "k") is True
    assert stash(client, StashVerb.EXISTS, "t", "other") is False
    assert stash(client, StashVerb.KEYS, "t") == ["k"]
    assert stash(client, StashVerb.TABLES, "") == ["t"]
    assert stash(client, StashVerb.ENSURE, "t") is True
    assert stash(client, StashVerb.DELETE, "t", "k") is True
    assert stash(client, StashVerb.DELETE, "t", "k") is False
    assert stash(client, StashVerb.CLEAR, "t") is True
    assert stash(client, StashVerb.DELETE_TABLE, "t") is True
    assert stash(client, StashVerb.DELETE_TABLE, "t") is False


def test_info_has_gunicorns_fields() -> None:
    client = Client(FakeArbiter())
    stash(client, StashVerb.PUT, "t", "k", 1)
    info = stash(client, StashVerb.INFO, "t")
    assert isinstance(info, dict)
    assert (info["size"], info["table"]) == (1, "t")


def test_what_is_missing_is_an_error_of_the_class_that_gunicorns_client_looks_for() -> None:
    client = Client(FakeArbiter())
    assert stash(client, StashVerb.GET, "t", "k") == StashKeyNotFoundError.gd1_name
    assert stash(client, StashVerb.INFO, "t") == "StashTableNotFoundError"
    assert stash(client, StashVerb.PUT, "t", {"un": "hashable"}, 1) == "StashError"
    client.ask(StashAsk(99, "t"))
    assert error_of(client.told()[0])[1] == "StashError"


def test_none_is_a_value_and_a_key_like_any_other() -> None:
    client = Client(FakeArbiter())
    stash(client, StashVerb.PUT, "t", None, None)
    assert stash(client, StashVerb.GET, "t", None) is None
    assert stash(client, StashVerb.KEYS) == [None]


def test_a_pattern_is_matched_against_the_text_of_any_key() -> None:
    client = Client(FakeArbiter())
    for key in ("user:1", "user:2", "other", 12):
        stash(client, StashVerb.PUT, "t", key, 0)
    assert stash(client, StashVerb.KEYS, "t", pattern="user:*") == ["user:1", "user:2"]
    assert stash(client, StashVerb.KEYS, "t", pattern="1?") == [12]


def test_a_tuple_key_is_the_key_of_native_clients_too() -> None:
    client = Client(FakeArbiter())
    stash(client, StashVerb.PUT, "t", ("a", ("b", 1)), "found")
    assert stash(client, StashVerb.GET, "t", ("a", ("b", 1))) == "found"
    assert stash(client, StashVerb.KEYS) == [["a", ["b", 1]]]


async def test_a_large_stash_value_goes_in_and_out_whole() -> None:
    client = Client(FakeArbiter())
    client.ask(StashAsk(StashVerb.PUT, "t", "k", LARGE), 1)
    client.ask(StashAsk(StashVerb.GET, "t", "k"), 2)
    client.ask(StashAsk(StashVerb.DELETE, "t", "k"), 3)
    assert await client.told_soon(3) == [(1, Response(True)), (2, Response(LARGE)), (3, Response(True))]


# --- status and manage --------------------------------------------------------------------------------------------


def test_the_status_is_gunicorns_with_the_name_of_the_server() -> None:
    client = Client(FakeArbiter())
    client.ask(StatusAsk())
    ((_, message),) = client.told()
    assert isinstance(message, Response)
    assert message.result == {
        "arbiter_pid": 99,
        "workers": [
            {"pid": 101, "age": 3, "apps": ["shop.ml:Model"], "booted": False, "last_heartbeat": None},
            {"pid": 100, "age": 7, "apps": ["shop.ml:Model"], "booted": True, "last_heartbeat": None},
        ],
        "worker_count": 2,
        "apps": ["shop.ml:Model"],
        "server": "dirtybus",
    }


def test_workers_are_added_and_removed_down_to_what_the_apps_need() -> None:
    client = Client(FakeArbiter())
    client.ask(Manage(ManageVerb.ADD, 2), 1)
    client.ask(Manage(ManageVerb.REMOVE, 50), 2)
    (_, added), (_, removed) = client.told()
    assert isinstance(added, Response)
    assert isinstance(removed, Response)
    assert added.result == {
        "success": True,
        "operation": "add",
        "requested": 2,
        "spawned": 2,
        "total_workers": 2,
        "target_workers": 6,
    }
    assert (removed.result["removed"], removed.result["target_workers"]) == (4, 2)
    assert removed.result["reason"] == "an app needs 2 workers"


@pytest.mark.parametrize("ask", [Manage(3, 1), Manage(ManageVerb.ADD, 10_000)], ids=["no such verb", "too many"])
def test_an_order_that_makes_no_sense_is_refused(ask: Manage) -> None:
    client = Client(FakeArbiter())
    client.ask(ask)
    assert error_of(client.told()[0])[1] == "DirtyError"
    assert client.arbiter.target == 4


def test_a_failure_of_our_own_is_answered_and_harms_no_other_request() -> None:
    client = Client(FakeArbiter())
    client.arbiter.status = dict  # type: ignore[method-assign]
    client.ask(StatusAsk(), 1)
    client.ask(StashAsk(StashVerb.TABLES), 2)
    failed, answered = client.told()
    assert "KeyError" in error_of(failed)[2]
    assert answered == (2, Response([]))


@given(st.lists(st.sampled_from(FRAMES), min_size=1, max_size=4), st.data())
def test_whatever_a_client_sends_ends_in_answers_or_in_its_own_end(frames: list[bytes], data: st.DataObject) -> None:
    received = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(0, 3))):
        received[data.draw(st.integers(0, len(received) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(received)))
    client = Client(FakeArbiter())
    client.session.data_received(bytes(received[:cut]))
    if not client.transport.is_closing():
        client.session.data_received(bytes(received[cut:]))
    for _, message in client.told():
        assert isinstance(message, Response | Error)
    client.transport.close()
    assert client.closed == [client.session]
